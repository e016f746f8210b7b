"""The project's stores, opened from its settings."""

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


def lineage(settings: Settings) -> Lineage:
    """The pairs' records in git and DVC."""
    workspace = settings.path(settings.stores.workspace)
    return Lineage(settings.root, workspace, settings.dvc_remote)
