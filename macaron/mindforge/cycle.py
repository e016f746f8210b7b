"""One improvement cycle: its frozen inputs, its folder, its state and the lock on running one.

Everything random in a cycle comes from its seed, so that a cycle that was killed and rerun ends
in the same pair.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from macaron.contract.document import Contract
from macaron.errors import BusyError, ConfigError, DigestError
from macaron.files import digest_value, read_json, write_json
from macaron.profile import Profile, Section
from macaron.registry.code import Code
from macaron.settings import Settings, load_settings

State = Literal["running", "promoted", "rejected", "failed"]
FILE = "cycle.json"
LOCK = "cycle.lock"


class Options(Section):
    """What a person may choose for one cycle; empty means the setting's value."""

    profile: str = ""
    base: str = ""
    contract: str = ""
    hcp: str = ""
    seed: int = 0
    experience: tuple[str, ...] = ()
    fresh: bool = False


class Inputs(Section):
    """What a cycle is made from. Two cycles with equal inputs end in the same pair."""

    base: str
    base_digest: str
    model_name: str
    profile: Profile
    contract: str
    contract_digest: str
    hcp_digest: str
    champion: str
    attempt: int
    seed: int
    imports: dict[str, str]
    """Chat files to import: path -> digest."""
    code: Code
    """The code it began with; what other code had half made is never gone on with."""

    @property
    def digest(self) -> str:
        """SHA-256 of the values."""
        return digest_value(self.model_dump(mode="json"))


class Cycle(Section):
    """A cycle on disk: `settings.state/cycles/<id>/`."""

    id: str
    root: str
    folder: str
    inputs: Inputs

    @property
    def dir(self) -> Path:
        """The cycle's folder."""
        return Path(self.folder)

    @property
    def base(self) -> Path:
        """Folder of the frozen base."""
        return Path(self.inputs.base)

    def settings(self) -> Settings:
        """The project's settings."""
        return load_settings(Path(self.root))

    def contract(self) -> Contract:
        """The contract, once its digest is still the one the cycle began with.

        Raises:
            DigestError: it was edited meanwhile.
        """
        from macaron.contract.document import load_contract

        contract = load_contract(Path(self.inputs.contract))
        if contract.digest != self.inputs.contract_digest:
            raise DigestError(
                "the contract changed while the cycle ran",
                where=self.inputs.contract,
                mend="restore it, or start a new cycle with `macaron improve --fresh`",
            )
        return contract

    def seed(self, *purpose: object) -> int:
        """A seed for one purpose: the same in every run of this cycle, 63 bits."""
        inputs = self.inputs
        key = [inputs.champion, inputs.attempt, inputs.contract_digest, inputs.seed]
        return seed_of(*key, *purpose)

    def update(self, **fields: Any) -> None:
        """Changes fields of the cycle's record."""
        record = read_json(self.dir / FILE) | fields
        write_json(self.dir / FILE, record)


def seed_of(*key: object) -> int:
    """A 63-bit seed from any JSON values."""
    return int(digest_value([str(part) for part in key])[:16], 16) >> 1


def now() -> str:
    """UTC, ISO 8601, seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def cycles(settings: Settings) -> list[dict[str, Any]]:
    """The records of all cycles, oldest first."""
    return [read_json(path) for path in sorted((settings.state / "cycles").glob(f"*/{FILE}"))]


def open_cycle(settings: Settings, inputs: Inputs, run: str, fresh: bool = False) -> Cycle:
    """The unfinished cycle with these inputs, or a new one.

    Args:
        settings: the project's.
        inputs: what the cycle is made from.
        run: id of the Prefect flow run that runs it.
        fresh: leave an unfinished cycle alone.
    """
    for record in reversed(cycles(settings)):
        unfinished = record["state"] in ("running", "failed")
        if unfinished and not fresh and _is_of(record, inputs):
            cycle = Cycle.model_validate(record["cycle"])
            cycle.update(state="running", error="", ended="", run=run)
            return cycle
    folder = _new_folder(settings)
    cycle = Cycle(id=folder.name, root=str(settings.root), folder=str(folder), inputs=inputs)
    write_json(folder / FILE, _record(cycle, run))
    return cycle


def _is_of(record: dict[str, Any], inputs: Inputs) -> bool:
    """Whether a cycle was made from these inputs.

    One that was killed after its challenger became the champion is, but for the champion: it still
    owes its report.
    """
    if record["inputs_digest"] == inputs.digest:
        return True
    if record["challenger"] != inputs.champion:
        return False
    kept = Inputs.model_validate(record["cycle"]["inputs"])
    before = {name: getattr(kept, name) for name in ("champion", "attempt", "hcp_digest")}
    return bool(inputs.model_copy(update=before).digest == record["inputs_digest"])


def _new_folder(settings: Settings) -> Path:
    day = datetime.now(UTC).strftime("%Y%m%d")
    parent = settings.state / "cycles"
    number = len(list(parent.glob("*"))) + 1
    while (folder := parent / f"{number:04d}-{day}").exists():
        number += 1
    return folder


def _record(cycle: Cycle, run: str) -> dict[str, Any]:
    return {
        "id": cycle.id,
        "state": "running",
        "started": now(),
        "ended": "",
        "champion": cycle.inputs.champion,
        "challenger": "",
        "error": "",
        "report": "",
        "run": run,
        "inputs_digest": cycle.inputs.digest,
        "cycle": cycle.model_dump(mode="json"),
    }


def check_base(base: Path) -> Path:
    """The base's folder, once it looks like one.

    Raises:
        ConfigError: it has no config or tokenizer.
    """
    for name in ("config.json", "tokenizer_config.json"):
        if not (base / name).exists():
            raise ConfigError(
                f"no {name} here", where=str(base), mend="give a transformers model's folder"
            )
    return base


@contextmanager
def exclusive(settings: Settings) -> Iterator[None]:
    """Holds the project's cycle lock; the kernel frees it when the process dies, however it dies.

    Raises:
        BusyError: another process holds it.
    """
    path = settings.state / LOCK
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise busy(settings, file.read().strip() or "unknown") from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def busy(settings: Settings, process: str) -> BusyError:
    """The error of who comes while a cycle runs."""
    return BusyError(
        f"another cycle is running (process {process})",
        where=str(settings.state / LOCK),
        mend="wait for it, or stop that process",
    )
