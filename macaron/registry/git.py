"""Git, run in one folder, by nobody's habits: no hooks, no prompts, no inherited repository.

A command that fails is one line.
"""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from macaron.errors import RegistryError

# Set inside hooks and by some tools; they would send our commands to another repository.
_REDIRECTIONS = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE",
)  # fmt: skip

_SETTINGS = (
    ("core.hooksPath", os.devnull),
    ("core.autocrlf", "false"),
    ("core.fsmonitor", "false"),
    ("commit.gpgSign", "false"),
    ("gc.auto", "0"),
)

FALLBACK = ("macaron", "macaron@localhost")
"""Committer where git knows none."""


@dataclass(frozen=True)
class Git:
    """Runs git commands in a folder."""

    folder: Path
    keep_open: Sequence[int] = field(default=())
    """File descriptors that every command inherits, so that a lock outlives a killed parent."""

    def raw(self, *args: str, stdin: bytes | None = None) -> bytes:
        """The command's output.

        Raises:
            RegistryError: git is missing, or said no; with its last line.
        """
        result = self._run(args, stdin)
        if result.returncode:
            lines = result.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
            raise RegistryError(f"git {args[0]}: {lines[-1]}", where=str(self.folder))
        return result.stdout

    def text(self, *args: str, stdin: str | None = None) -> str:
        """The command's output without its last newline."""
        output = self.raw(*args, stdin=None if stdin is None else stdin.encode())
        return output.decode(errors="surrogateescape").rstrip("\n")

    def succeeds(self, *args: str) -> bool:
        """Whether the command ends with 0."""
        return self._run(args, None).returncode == 0

    def commit_of(self, name: str) -> str | None:
        """The commit that a name stands for; None where there is none."""
        result = self._run(("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"), None)
        return result.stdout.decode().strip() or None

    def _run(
        self, args: Sequence[str], stdin: bytes | None
    ) -> "subprocess.CompletedProcess[bytes]":
        settings = [part for key, value in _SETTINGS for part in ("-c", f"{key}={value}")]
        environment = {k: v for k, v in os.environ.items() if k not in _REDIRECTIONS}
        environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        try:
            return subprocess.run(
                ["git", *settings, *args],
                cwd=self.folder,
                env=environment,
                input=stdin if stdin is not None else b"",
                capture_output=True,
                pass_fds=tuple(self.keep_open),
                check=False,
            )
        except FileNotFoundError as error:
            raise RegistryError(
                "git is not installed", where=str(self.folder), mend="install git"
            ) from error

    def identity(self) -> Sequence[str]:
        """Options that name a committer, where git knows none of its own."""
        known = self.succeeds("config", "user.name") or "GIT_COMMITTER_NAME" in os.environ
        name, email = FALLBACK
        return () if known else ("-c", f"user.name={name}", "-c", f"user.email={email}")
