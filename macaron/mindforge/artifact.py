"""What a stage hands to the next: a path and the digest it must still have."""

from pathlib import Path
from typing import Any

from pydantic import Field

from macaron.files import check_digest, digest_file, digest_tree
from macaron.profile import Section


class Artifact(Section):
    """A file or folder that a stage made."""

    path: str
    digest: str
    facts: dict[str, Any] = Field(default_factory=dict)
    """Small JSON values about it, for the report and the next stage."""

    @classmethod
    def of(cls, path: Path, **facts: Any) -> "Artifact":
        """The artifact at the path as it is now."""
        digest = digest_tree(path) if path.is_dir() else digest_file(path)
        return cls(path=str(path), digest=digest, facts=facts)

    def open(self) -> Path:
        """The path, once the digest holds.

        Raises:
            DigestError: the file is missing or changed.
        """
        return check_digest(Path(self.path), self.digest)

    def holds(self) -> bool:
        """Whether the file is there and unchanged."""
        path = Path(self.path)
        return path.exists() and self.digest == Artifact.of(path).digest
