"""Request bodies: bounded while they are read, strict JSON, and checked against a schema.

What is wrong is a 400 that names the first offending field; nothing is ignored.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, from_json
from starlette.requests import Request

from macaron.serve.http.errors import ApiError
from macaron.serving import Limits

READ_S = 60.0
"""For sending a request's body."""


class Body(BaseModel):
    """A strict part of a request."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Kind = TypeVar("Kind", bound=BaseModel)


async def parse(request: Request, kind: type[Kind], limits: Limits) -> Kind:
    """The request's body.

    Raises:
        ApiError: it is too long, too slow, no JSON, or not of this kind.
    """
    if not _is_json(request.headers.get("content-type", "")):
        raise ApiError(415, "Send JSON, with Content-Type: application/json.", code="not_json")
    value = _json(await _read(request, limits.body))
    if _deeper(value, limits.depth):
        message = f"The JSON is nested deeper than {limits.depth} levels."
        raise ApiError(400, message, code="too_deep")
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise _complaint(value, _foremost(value, error)) from None


def _is_json(content_type: str) -> bool:
    """A browser sends this across origins only after asking, and nobody answers it."""
    return content_type.split(";")[0].strip().lower() == "application/json"


async def _read(request: Request, limit: int) -> bytes:
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > limit:
        raise _too_long(limit)
    body = bytearray()
    try:
        async with asyncio.timeout(READ_S):
            async for piece in request.stream():
                body += piece
                if len(body) > limit:
                    raise _too_long(limit)
    except TimeoutError:
        raise ApiError(408, "The request's body came too slowly.", code="timeout") from None
    return bytes(body)


def _too_long(limit: int) -> ApiError:
    message = f"The request's body is longer than {limit:,} bytes."
    # The rest of it is not read, so that the connection cannot be used again.
    return ApiError(413, message, code="body_too_long", headers={"Connection": "close"})


def _json(body: bytes) -> Any:
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise ApiError(400, f"The body is not JSON: {error}.", code="invalid_json") from None


def _deeper(value: Any, levels: int) -> bool:
    layer = [value]
    for _ in range(levels):
        inside = (inner for outer in layer for inner in _inside(outer))
        layer = [inner for inner in inside if isinstance(inner, dict | list)]
    return bool(layer) and isinstance(value, dict | list)


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _foremost(value: Any, error: ValidationError) -> ErrorDetails:
    """The complaint deepest in the body: of alternatives, the one that was meant fits furthest."""

    def rank(complaint: ErrorDetails) -> tuple[int, int]:
        depth = len((_place(value, complaint) or "").split("."))
        kinds = ("literal_error", "extra_forbidden", complaint["type"])
        return -depth, kinds.index(complaint["type"])

    return min(error.errors(include_url=False), key=rank)


def _complaint(value: Any, error: ErrorDetails) -> ApiError:
    """One of pydantic's complaints in OpenAI's words."""
    param = _place(value, error)
    named = f"'{param}'" if param else "the body"
    if error["type"] == "extra_forbidden":
        return ApiError(400, f"Unknown parameter: {named}.", param=param, code="unknown_parameter")
    if error["type"] == "missing":
        message = f"Missing required parameter: {named}."
        return ApiError(400, message, param=param, code="missing_required_parameter")
    if error["type"] in ("none_required", "unsupported"):
        message = f"Unsupported parameter: {named}; leave it out."
        return ApiError(400, message, param=param, code="unsupported_parameter")
    said = error["msg"].removeprefix("Value error, ")
    message = f"Invalid value for {named}: {said[:1].lower()}{said[1:]}."
    return ApiError(400, message, param=param, code="invalid_value")


def _place(value: Any, error: ErrorDetails) -> str | None:
    """Where in the body a complaint is: pydantic's path without the names of alternatives."""
    path: list[str] = []
    last_is_absent = error["type"] in ("missing", "extra_forbidden")
    for at, part in enumerate(error["loc"]):
        inside = isinstance(value, dict) and part in value
        inside = inside or (isinstance(value, list) and isinstance(part, int) and part < len(value))
        if inside:
            value = value[part]
            path.append(str(part))
        elif last_is_absent and at == len(error["loc"]) - 1:
            path.append(str(part))
    return ".".join(path)[:200] or None
