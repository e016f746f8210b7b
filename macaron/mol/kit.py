"""What the pool gives one session: helpers that it can call, and the way to leave new ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from macaron.harness.pool.bench import Workbench
from macaron.harness.pool.calling import functions
from macaron.harness.pool.judge import Uses, record_uses
from macaron.harness.pool.live import LivePool, Origin, Snapshot
from macaron.harness.pool.references import References
from macaron.harness.pool.running import Use
from macaron.harness.pool.trials import Examiner
from macaron.harness.sandbox import shared_sandbox
from macaron.harness.tools import Tool
from macaron.hcp.document import HCP


@dataclass(frozen=True)
class Workshop:
    """The pool of a pair at work.

    A session sees the pool as it was when the session began; what it saves and has promoted, later
    sessions see.
    """

    pool: LivePool
    references: References
    """Held out: no session is ever shown one."""
    seed: int
    """Of the references; the host's own, so that no model can guess them."""


@dataclass
class Kit:
    """One session's share of the pool."""

    hcp: HCP
    snapshot: Snapshot
    workshop: Workshop | None = None
    """Where it saves; None where its HCP does not let it."""
    origin: Origin = field(default_factory=lambda: Origin(""))
    uses: Uses = field(default_factory=Uses)

    @classmethod
    def of(
        cls, hcp: HCP, snapshot: Snapshot, workshop: Workshop | None, origin: Origin
    ) -> "Kit | None":
        """The kit of a new session; None where its HCP has no use for one."""
        wanted = saves(hcp) or any(tool.source == "pool" for tool in hcp.tools.values())
        return cls(hcp, snapshot, workshop, origin) if wanted else None

    def sources(self, use: Use, taken: Sequence[str]) -> Mapping[str, Sequence[Tool]]:
        """The tools, by source.

        Args:
            use: makes a call of the session's tools, through its hooks.
            taken: names that a helper cannot have.
        """
        pool = functions(self.snapshot, shared_sandbox(), self.uses, use)
        if self.workshop is None:
            return {"pool": pool}
        examiner = Examiner(self.workshop.references, shared_sandbox(), self.workshop.seed)
        bench = Workbench(self.workshop.pool, examiner, self.hcp.pool, self.origin, taken)
        return {"pool": pool, "builtin": bench.tools()}

    def end(self) -> None:
        """Records what became of the helpers that the session called."""
        if self.workshop is not None:
            record_uses(self.workshop.pool, self.uses, self.hcp.pool, self.origin)


def saves(hcp: HCP) -> bool:
    """Whether the harness lets a specialist save helpers."""
    return any(
        name in ("save_tool", "promote_tool") and tool.source == "builtin"
        for name, tool in hcp.tools.items()
    )
