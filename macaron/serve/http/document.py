"""The OpenAPI document: bodies are read by `body.parse`, so that their schemas are put in here."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from macaron.serve.http.answers import Error
from macaron.serve.http.chat_schema import ChatRequest
from macaron.serve.http.feedback import FeedbackRequest
from macaron.serve.http.responses_schema import ResponseRequest

BODIES: tuple[type[BaseModel], ...] = (ChatRequest, ResponseRequest, FeedbackRequest)
REF = "#/components/schemas/{model}"
STREAM = {"text/event-stream": {"schema": {"type": "string"}}}
PLAIN = {"text/plain": {"schema": {"type": "string"}}}
WHY = {
    400: "The request cannot be carried out, and says why.",
    401: "There is no valid API key.",
    403: "The key lacks the scope, or the request comes from another origin.",
    404: "There is no such model or response.",
    408: "The body came too slowly.",
    413: "The body is too long.",
    415: "The body is not said to be JSON.",
    429: "Too much for now; Retry-After says for how long, in seconds.",
    500: "The server made an error, which its log has under the request's id.",
    503: "The server cannot answer now.",
    504: "The turn took too long.",
}
GUARDED = (401, 403, 429, 500, 503)
WITH_BODY = (400, *GUARDED[:2], 404, 408, 413, 415, *GUARDED[2:])


def faults(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors that a route can answer with, in OpenAI's form."""
    return {status: {"model": Error, "description": WHY[status]} for status in statuses}


def takes(kind: type[BaseModel]) -> dict[str, Any]:
    """A route's body and its need of a key."""
    schema = {"$ref": REF.format(model=kind.__name__)}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    return {"requestBody": body, **KEYED}


KEYED: dict[str, Any] = {"security": [{"key": []}]}
KEYED_ELSEWHERE: dict[str, Any] = {"security": [{}, {"key": []}]}
"""No key is needed on the machine itself."""


def document(app: FastAPI, model: str) -> dict[str, Any]:
    """The document of all routes; `model` is the only one that there is."""
    made = get_openapi(title=app.title, version=app.version, routes=app.routes)
    _, bodies = models_json_schema([(kind, "validation") for kind in BODIES], ref_template=REF)
    components = made.setdefault("components", {})
    components["schemas"] = {**components.get("schemas", {}), **bodies["$defs"]}
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "An API key of this server."}
    }
    for kind in (ChatRequest, ResponseRequest):
        components["schemas"][kind.__name__]["properties"]["model"]["const"] = model
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    for path in made["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    return made
