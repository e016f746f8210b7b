"""Faults as clients see them: OpenAI's form, one line, nothing of the server's inside."""

from collections.abc import Mapping
from typing import Any

from macaron.errors import (
    BusyError,
    ConfigError,
    ExperienceError,
    MacaronError,
    ServiceError,
    StorageError,
)
from macaron.harness.stops import Stop
from macaron.serve.http.log import log
from macaron.serve.timeline import UnknownTurnError
from macaron.serve.turns import TurnError

INVALID = "invalid_request_error"
RETRY_S = 1
"""What a client that came at a busy moment is asked to wait, seconds."""


class ApiError(Exception):
    """An answer that is no success.

    Args:
        status: HTTP's.
        message: one line for a person.
        type: OpenAI's class of the error.
        param: the request's field it is about, as `messages.0.content`.
        code: OpenAI's name of the error.
        headers: further headers of the answer.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = INVALID,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.type = status, message, type
        self.param, self.code, self.headers = param, code, dict(headers or {})

    def body(self) -> dict[str, Any]:
        """The error in OpenAI's form."""
        inside = {
            "message": self.message,
            "type": self.type,
            "param": self.param,
            "code": self.code,
        }
        return {"error": inside}


def busy(message: str, seconds: int, code: str = "rate_limit_exceeded") -> ApiError:
    """Too much for now; the client may come again after some seconds."""
    headers = {"Retry-After": str(max(1, seconds))}
    return ApiError(429, message, type="rate_limit_error", code=code, headers=headers)


def internal(request_id: str) -> ApiError:
    """A bug of ours: the log has its traceback, the client the log's request id."""
    message = f"The server made an error; its log has it under {request_id}."
    return ApiError(500, message, type="server_error", code="internal_error")


def too_slow(seconds: float) -> ApiError:
    """A turn that ran into the time limit."""
    return ApiError(
        504, f"The turn took longer than {seconds:g} s.", type="server_error", code="timeout"
    )


_OF_STOP: dict[Stop, tuple[int, str]] = {
    "context": (400, "context_length_exceeded"),
    "turns": (400, "turn_limit_exceeded"),
    "time": (504, "timeout"),
}


def told(error: BaseException, request_id: str) -> ApiError:
    """What a client is told of any fault; what it is not told goes to the log."""
    found = known(error)
    if found is None:
        log.error("%s: a bug of ours", request_id, exc_info=error)
        return internal(request_id)
    if found.status >= 500:
        log.error("%s: %s", request_id, error)
    return found


def known(error: BaseException) -> ApiError | None:
    """What a client is told of a fault; None for what is a bug of ours."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, UnknownTurnError):
        return unknown_turn()
    if isinstance(error, TurnError):
        return _failed(error)
    return _mendable(error) if isinstance(error, MacaronError) else None


def unknown_turn(param: str = "id") -> ApiError:
    """No such turn of this key."""
    return ApiError(404, "No such response of this key.", param=param, code="not_found")


def _failed(error: TurnError) -> ApiError:
    status, code = _OF_STOP.get(error.stop, (503, "turn_failed"))
    kind = INVALID if status == 400 else "server_error"
    return ApiError(status, _line(error), type=kind, code=code)


def _mendable(error: MacaronError) -> ApiError:
    if isinstance(error, ConfigError | ExperienceError):
        return ApiError(400, _line(error), code="invalid_request")
    if isinstance(error, BusyError):
        return busy("The server is busy.", RETRY_S, "busy")
    # What is wrong with a disk or an engine is the operator's, and in the log.
    if isinstance(error, StorageError):
        return ApiError(503, "The turn could not be kept.", type="server_error", code="storage")
    if isinstance(error, ServiceError):
        return ApiError(503, "The engine does not answer.", type="server_error", code="engine")
    return ApiError(503, "The server cannot answer.", type="server_error", code="unavailable")


def _line(error: MacaronError) -> str:
    """Without the place, which can be a path of the server's."""
    mend = f" ({error.mend})" if error.mend else ""
    return f"{error.what}{mend}"
