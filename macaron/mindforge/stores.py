"""The project's stores, opened from its settings."""

from macaron.harness.pool.live import LivePool
from macaron.pair import TOOLS
from macaron.registry.lineage import Lineage
from macaron.registry.pairs import PairStore
from macaron.registry.tracking import Tracking
from macaron.settings import Settings


def tracking(settings: Settings, model_name: str) -> Tracking:
    """MLflow, for one registered model."""
    return Tracking(settings.mlflow_uri, model_name, settings.state / "mlflow" / "artifacts")


def pair_store(settings: Settings) -> PairStore:
    """The pairs on this disk."""
    return PairStore(settings.pairs)


def live_pool(settings: Settings, pair: str) -> LivePool:
    """The tools of a pair, as its own sessions and those of its ancestors have made them."""
    store = pair_store(settings)
    folder = store.folder(pair) / TOOLS
    inherited = folder if folder.exists() else None
    return LivePool(settings.state / "pool", inherited, store.ancestry(pair))


def lineage(settings: Settings) -> Lineage:
    """The pairs' records in git and DVC."""
    workspace = settings.path(settings.stores.workspace)
    return Lineage(settings.root, workspace, settings.dvc_remote)
