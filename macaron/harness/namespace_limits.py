"""What a session may use: the HCP's workspace, and what is not the HCP's to say."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol


class WorkspaceLimits(Protocol):
    """The HCP's [workspace], or anything with its fields; each is explained below."""

    @property
    def cpu_s(self) -> int:
        """Processor time of one cell, seconds."""
        ...

    @property
    def wall_s(self) -> float:
        """Wall-clock time of one cell, seconds."""
        ...

    @property
    def memory_mib(self) -> int:
        """Address space of the session's process."""
        ...

    @property
    def processes(self) -> int:
        """Threads of a cell."""
        ...

    @property
    def file_mib(self) -> int:
        """Largest file."""
        ...

    @property
    def open_files(self) -> int:
        """Files open at once."""
        ...

    @property
    def network(self) -> bool:
        """Whether there is any."""
        ...

    @property
    def level(self) -> Sequence[str]:
        """Names of isolation that must be active."""
        ...


@dataclass(frozen=True)
class NamespaceLimits:
    """What one session may use."""

    cpu_s: int = 5
    """Processor time of one cell, whole seconds."""
    wall_s: float = 20.0
    """Time of one cell, seconds, without the time that its tools take."""
    memory_mib: int = 256
    """Address space of the session's process, beyond an empty interpreter's."""
    processes: int = 0
    """Threads that a cell may start; they end with it. Processes it can never start."""
    file_mib: int = 16
    """Largest file."""
    open_files: int = 16
    """Files open at once."""
    network: bool = False
    """The sandbox has none; asking for it is an error."""
    level: Sequence[str] = ()
    """Names of isolation that must be active."""
    output_chars: int = 2000
    """Printed text that comes back; the rest is cut, with a notice."""
    flood_chars: int = 1_000_000
    """Printed text that ends the cell."""
    folder_mib: int = 32
    """All files of the session together."""
    message_kib: int = 1024
    """A cell's code; a tool's arguments; a tool's answer."""
    calls: int = 1000
    """Tool calls in one cell."""

    @classmethod
    def of(cls, workspace: WorkspaceLimits) -> "NamespaceLimits":
        """The limits with the fields that the workspace has, and our own for the others."""
        names = [field.name for field in fields(cls)]
        return cls(**{n: getattr(workspace, n) for n in names if hasattr(workspace, n)})

    def wire(self) -> dict[str, Any]:
        """As the server takes them: bytes and whole numbers."""
        return {
            "cpu_s": self.cpu_s,
            "wall_s": self.wall_s,
            "memory_bytes": self.memory_mib << 20,
            "threads": self.processes,
            "file_bytes": self.file_mib << 20,
            "open_files": self.open_files,
            "folder_bytes": self.folder_mib << 20,
            "flood_chars": self.flood_chars,
            "message_bytes": self.message_kib << 10,
            "calls": self.calls,
        }
