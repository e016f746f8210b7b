"""Every fault a user can meet, as one line: what happened, where, how to mend it.

The command line and the flow catch `MacaronError` and nothing else; any other exception is
a bug of ours and keeps its traceback.
"""


class MacaronError(Exception):
    """A fault that a person can mend.

    Args:
        what: the fault, in words of the user's world.
        where: the file, field, step or service it was met in.
        mend: what to do about it.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", mend: str = "") -> None:
        self.what, self.where, self.mend = what, where, mend
        super().__init__(str(self))

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        mend = f" ({self.mend})" if self.mend else ""
        return f"{place}{self.what}{mend}"

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders (workers, Prefect); keyword arguments need help to.
        return (_rebuild, (type(self), self.what, self.where, self.mend))


def _rebuild(kind: type[MacaronError], what: str, where: str, mend: str) -> MacaronError:
    return kind(what, where=where, mend=mend)


class ConfigError(MacaronError):
    """A setting, profile, contract or HCP document that cannot be used."""

    exit_code = 2


class DigestError(MacaronError):
    """Content is not what its digest says."""

    exit_code = 4


class ExperienceError(MacaronError):
    """Experience that must not be learned from."""

    exit_code = 5


class TrainingError(MacaronError):
    """Training stopped: a number was not finite, or an adapter did not land."""

    exit_code = 6


class NothingTrainedError(TrainingError):
    """Every step ran and no token carried a gradient: the adapter is still its parent."""


class RegistryError(MacaronError):
    """MLflow, DVC or git could not keep or give a record."""

    exit_code = 7


class BusyError(MacaronError):
    """Another cycle is running."""

    exit_code = 8


class StorageError(MacaronError):
    """The disk is full or cannot be written."""

    exit_code = 9


class ServiceError(MacaronError):
    """A server that the cycle needs does not answer."""

    exit_code = 10
