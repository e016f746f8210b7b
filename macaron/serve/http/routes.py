"""The endpoints: each lets the request in, reads it, and hands it to the service."""

import re
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from macaron.serve.http import answers
from macaron.serve.http.asked import check_model
from macaron.serve.http.body import parse
from macaron.serve.http.chat import chat_turn
from macaron.serve.http.chat_form import ChatForm
from macaron.serve.http.chat_schema import ChatRequest
from macaron.serve.http.document import (
    GUARDED,
    KEYED,
    KEYED_ELSEWHERE,
    PLAIN,
    STREAM,
    WITH_BODY,
    faults,
    takes,
)
from macaron.serve.http.errors import unknown_turn
from macaron.serve.http.exchange import Desk, Exchange
from macaron.serve.http.feedback import FeedbackRequest, said
from macaron.serve.http.gate import Gate
from macaron.serve.http.notes import notes_of
from macaron.serve.http.response_body import echo_of, stored
from macaron.serve.http.response_form import ResponseForm
from macaron.serve.http.responses import response_turn
from macaron.serve.http.responses_schema import ResponseRequest

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
Id = Annotated[str, Path(description="a response's id")]


def chat_routes(desk: Desk, gate: Gate) -> APIRouter:
    """`/v1/chat/completions`."""
    router = APIRouter()
    ok = {"model": answers.ChatCompletion, "content": STREAM}

    @router.post(
        "/v1/chat/completions",
        responses={200: ok, **faults(*WITH_BODY, 504)},
        openapi_extra=takes(ChatRequest),
        response_class=JSONResponse,
    )
    async def create_chat_completion(request: Request) -> Response:
        """Answers a conversation, which the request brings with it."""
        key = gate.admit(request, "chat")
        body = await parse(request, ChatRequest, desk.config.limits)
        wanted = chat_turn(body, key.id, desk.config)
        usage = bool(body.stream_options and body.stream_options.include_usage)
        form = ChatForm(desk.config.model, wanted.n, usage, body.metadata)
        return Exchange(desk, wanted, form, stream=bool(body.stream))

    return router


def response_routes(desk: Desk, gate: Gate) -> APIRouter:
    """`/v1/responses`."""
    router = APIRouter()
    ok = {"model": answers.ResponseObject, "content": STREAM}

    @router.post(
        "/v1/responses",
        responses={200: ok, **faults(*WITH_BODY, 504)},
        openapi_extra=takes(ResponseRequest),
        response_class=JSONResponse,
    )
    async def create_response(request: Request) -> Response:
        """Answers what is new of a conversation that the server keeps."""
        key = gate.admit(request, "chat")
        body = await parse(request, ResponseRequest, desk.config.limits)
        wanted = response_turn(body, key.id, desk.config)
        if wanted.previous is not None and not _ID.fullmatch(wanted.previous):
            raise unknown_turn("previous_response_id")
        form = ResponseForm(desk.config.model, echo_of(body, wanted))
        return Exchange(desk, wanted, form, stream=bool(body.stream))

    @router.get(
        "/v1/responses/{id}",
        responses={200: {"model": answers.ResponseObject}, **faults(404, *GUARDED)},
        openapi_extra=KEYED,
        response_class=JSONResponse,
    )
    async def get_response(request: Request, id: Id) -> Response:
        """A response that the server keeps."""
        key = gate.admit(request, "chat")
        record = await desk.service.get(id, key.id) if _ID.fullmatch(id) else None
        if record is None or not record.stored or not record.id.startswith("resp_"):
            raise unknown_turn()
        notes_of(request.scope).turn = record.id
        return JSONResponse(stored(record, desk.config.model))

    @router.delete(
        "/v1/responses/{id}",
        responses={200: {"model": answers.Deleted}, **faults(404, *GUARDED)},
        openapi_extra=KEYED,
        response_class=JSONResponse,
    )
    async def delete_response(request: Request, id: Id) -> Response:
        """Forgets a response for its client; later ones still remember it."""
        key = gate.admit(request, "chat")
        if not (_ID.fullmatch(id) and await desk.service.delete(id, key.id)):
            raise unknown_turn()
        return JSONResponse(answers.Deleted(id=id).model_dump())

    return router


def model_routes(desk: Desk, gate: Gate, since: int) -> APIRouter:
    """`/v1/models`: the one public name."""
    router = APIRouter()
    model = answers.Model(id=desk.config.model, created=since)

    @router.get(
        "/v1/models",
        responses={200: {"model": answers.ModelList}, **faults(*GUARDED)},
        openapi_extra=KEYED,
        response_class=JSONResponse,
    )
    async def list_models(request: Request) -> Response:
        """The models that there are: one."""
        gate.admit(request, "chat")
        return JSONResponse(answers.ModelList(data=[model]).model_dump())

    @router.get(
        "/v1/models/{id}",
        responses={200: {"model": answers.Model}, **faults(404, *GUARDED)},
        openapi_extra=KEYED,
        response_class=JSONResponse,
    )
    async def get_model(request: Request, id: Annotated[str, Path()]) -> Response:
        """A model by its name."""
        gate.admit(request, "chat")
        check_model(id, desk.config)
        return JSONResponse(model.model_dump())

    return router


def other_routes(desk: Desk, gate: Gate) -> APIRouter:
    """Feedback, health and metrics."""
    router = APIRouter()

    @router.post(
        "/v1/feedback",
        responses={200: {"model": answers.Kept}, **faults(*WITH_BODY)},
        openapi_extra=takes(FeedbackRequest),
        response_class=JSONResponse,
    )
    async def give_feedback(request: Request) -> Response:
        """Keeps what a user said of a turn; once answered, it is on the disk."""
        key = gate.admit(request, "feedback")
        turn, feedback = said(await parse(request, FeedbackRequest, desk.config.limits))
        if not _ID.fullmatch(turn):
            raise unknown_turn()
        await desk.service.feedback(turn, key.id, feedback)
        desk.metrics.said(feedback)
        notes_of(request.scope).turn = turn
        return JSONResponse(answers.Kept(id=turn).model_dump())

    healthy: dict[str, Any] = {"model": answers.Health}

    @router.get(
        "/health",
        responses={200: healthy, 503: {**healthy, "description": "It still starts."}},
        response_class=JSONResponse,
    )
    async def get_health() -> Response:
        """Whether the server is ready, and what it serves."""
        health = dict(desk.service.health())
        return JSONResponse(health, 200 if health.get("status") == "ok" else 503)

    @router.get(
        "/metrics",
        responses={200: {"content": PLAIN}, **faults(*GUARDED)},
        openapi_extra=KEYED_ELSEWHERE,
        response_class=Response,
    )
    async def get_metrics(request: Request) -> Response:
        """Counters in Prometheus' text format."""
        gate.admit_local(request, "admin")
        return Response(desk.metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})

    return router
