"""Begin: settles a cycle's inputs; makes and records the ancestor where there is no champion."""

import shutil
import tempfile
from pathlib import Path

from macaron.contract.document import load_contract
from macaron.environments.watch import MEMORY, used, watch_all
from macaron.errors import ConfigError, DigestError, StorageError
from macaron.files import digest_file
from macaron.harness.sandbox import demand_level
from macaron.hcp.document import load_hcp
from macaron.mindforge.cycle import Cycle, Inputs, Options, check_base, cycles, open_cycle
from macaron.mindforge.record import Record, record_pair
from macaron.mindforge.stores import lineage, pair_store, tracking
from macaron.pair import HCP_FILE, Pair, base_digest, how_to_restore
from macaron.profile import Profile, load_profile
from macaron.registry.code import Code
from macaron.registry.tracking import Tracking
from macaron.settings import Settings

ANCESTOR_SEED = 0
"""An ancestor is the same on every machine: its adapters start from this seed, B at zero."""


def begin(settings: Settings, options: Options, run: str) -> Cycle:
    """The unfinished cycle with the same inputs, or a new one.

    Args:
        settings: the project's.
        options: what a person chose for this cycle.
        run: id of the Prefect flow run.

    Raises:
        ConfigError: a document or the base cannot be used, the champion has another base, or
            another HCP than the one that was asked for, isolation is demanded that is not here, or
            a verifier pays for a cheap attack.
        RegistryError: the project has no commit to record pairs on.
        StorageError: too little disk is free.
    """
    _check_disk(settings)
    code = lineage(settings).code()
    profile_file = settings.path(f"models/profiles/{options.profile or settings.profile}.toml")
    profile = load_profile(profile_file)
    demand_level(profile.sandbox, f"{profile_file}: sandbox")
    base = check_base(settings.path(options.base or profile.base))
    contract = settings.path(options.contract or settings.contract)
    watch_all(used(load_contract(contract)), settings.state / MEMORY)
    # Once there is a champion, its own HCP counts; that of the settings was for the first pair.
    asked = settings.path(options.hcp) if options.hcp else None
    if asked:
        load_hcp(asked)
    digest = base_digest(base)
    name = model_name(settings, base, settings.path(profile.base))
    registry = tracking(settings, name)
    registry.prepare()
    registry.close_stale_runs()
    champion = _champion(registry, settings)
    if champion is None:
        hcp_file = asked or settings.path(settings.hcp)
        champion = _ancestor(settings, registry, base, profile, hcp_file, contract, code)
    _check_champion(champion, digest, asked)
    harness = settings.pairs / champion.id / HCP_FILE
    demand_level(load_hcp(harness).workspace.level, f"{harness}: workspace.level")
    inputs = Inputs(
        base=str(base),
        base_digest=digest,
        model_name=name,
        profile=profile,
        contract=str(contract),
        contract_digest=load_contract(contract).digest,
        hcp_digest=champion.hcp,
        champion=champion.id,
        attempt=_attempt(settings, champion.id),
        seed=options.seed,
        imports=_imports(settings, options),
        code=code,
    )
    return open_cycle(settings, inputs, run, options.fresh)


def model_name(settings: Settings, base: Path, own: Path) -> str:
    """A base that is not the profile's own has a registered model of its own."""
    if base.resolve() == own.resolve():
        return settings.model_name
    return f"{settings.model_name}-{base.resolve().name}"


def _champion(registry: Tracking, settings: Settings) -> Pair | None:
    found = registry.champion()
    if found is None:
        return None
    store = pair_store(settings)
    if not (folder := store.root / found.pair_id).exists():
        raise DigestError(
            "the champion's folder is missing", where=str(folder), mend=how_to_restore(folder.name)
        )
    return store.get(found.pair_id)


def _ancestor(
    settings: Settings,
    registry: Tracking,
    base: Path,
    profile: Profile,
    hcp_file: Path,
    contract: Path,
    code: Code,
) -> Pair:
    """Generation 0: adapters that change nothing, recorded and promoted as any champion is."""
    from macaron.mint.revision import identity_adapters

    keys = tuple(load_hcp(hcp_file).specialists)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        identity_adapters(base, profile.lora, folder, keys, ANCESTOR_SEED)
        adapters = {key: folder / key for key in keys}
        pair = pair_store(settings).create(
            base_digest(base), adapters, hcp_file, parent=None, generation=0
        )
    made = Record(
        cycle="ancestor",
        pair=pair,
        verdict="ancestor",
        code=code,
        files=(contract,),
        params={"seed": ANCESTOR_SEED, "contract": load_contract(contract).digest},
    )
    recorded = record_pair(settings, registry, made)
    registry.promote(recorded.version)
    registry.finish(recorded.run)
    return pair


def _check_champion(champion: Pair, digest: str, asked: Path | None) -> None:
    if champion.base != digest:
        raise ConfigError(
            f"champion {champion.id} was made on base {champion.base[:12]}, this is {digest[:12]}",
            where="base",
            mend="give that base, or another model_name for this one",
        )
    if asked and champion.hcp != (found := load_hcp(asked).digest):
        raise ConfigError(
            f"champion {champion.id} runs under HCP {champion.hcp[:12]}, this is {found[:12]}",
            where=str(asked),
            mend="leave --hcp out: it is the harness of a first pair, and a champion has its own",
        )


def _attempt(settings: Settings, champion: str) -> int:
    """Cycles that this champion was judged in: each night has a seed of its own."""
    judged = ("promoted", "rejected")
    return sum(r["champion"] == champion and r["state"] in judged for r in cycles(settings))


def _imports(settings: Settings, options: Options) -> dict[str, str]:
    inbox = settings.path(settings.stores.inbox)
    files = [*sorted(inbox.glob("*.jsonl")), *(Path(name) for name in options.experience)]
    return {str(file): digest_file(file) for file in files}


def _check_disk(settings: Settings) -> None:
    settings.state.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(settings.state).free // 2**20
    if free < settings.budgets.min_free_disk:
        raise StorageError(
            f"{free} MiB free, {settings.budgets.min_free_disk} MiB needed",
            where=str(settings.state),
            mend="free space, or lower budgets.min_free_disk",
        )
