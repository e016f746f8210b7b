"""A stand-in for `macaron serve`: the page's real files, and the API's wire format around scripted
answers. It has no model, no session and no router; tests of those use the real app.

Which answer a message gets, a test says beforehand (`PageServer.answers`).
"""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from macaron.serve.http.pages import Page

PAIR, HCP = "9c1f" * 16, "40ab" * 16


@dataclass(frozen=True)
class Scripted:
    """What one message is answered with."""

    pieces: Sequence[str] = ("Hello", " there.")
    specialist: str = "chat"
    route: str = "routed"
    confidence: str | None = "0.982"
    steps: Sequence[Mapping[str, Any]] = ()
    pause_s: float = 0.0
    """Between pieces."""
    hangs: bool = False
    """After the last piece nothing more comes."""
    fails: str | None = None
    """The message of a failure in the middle of the stream."""
    status: int = 200
    """Any other one is an error before the stream, with `fails` as its message."""
    incomplete: bool = False
    breaks: bool = False
    """The stream ends without its last event."""


@dataclass
class PageServer:
    """The stand-in's script and what it was asked; shared with the thread that serves."""

    answers: dict[str, Scripted] = field(default_factory=dict)
    """By message; any other gets the first `Scripted`."""
    key: str | None = None
    """The one that is asked for."""
    requests: list[dict[str, Any]] = field(default_factory=list)
    feedback: list[dict[str, Any]] = field(default_factory=list)
    stored: dict[str, dict[str, Any]] = field(default_factory=dict)
    gone: int = 0
    """Streams whose client went away."""
    feedback_status: int = 200
    url: str = ""


def error(status: int, message: str) -> JSONResponse:
    body = {"error": {"message": message, "type": "error", "param": None, "code": None}}
    return JSONResponse(body, status, {"Retry-After": "7"} if status == 429 else {})


def make_app(state: PageServer) -> FastAPI:
    app = FastAPI()

    @app.middleware("http")
    async def keys(request: Request, proceed: Any) -> Response:
        given = request.headers.get("authorization")
        if state.key and request.url.path.startswith("/v1") and given != f"Bearer {state.key}":
            return error(401, "This server needs an API key.")
        return await proceed(request)  # type: ignore[no-any-return]

    @app.get("/health")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "pair": PAIR, "hcp": HCP, "generation": 4, "engine": "stand-in"}

    @app.post("/v1/responses")
    async def respond(request: Request) -> Response:
        return answer(state, await request.json())

    @app.get("/v1/responses/{id}")
    async def retrieve(id: str) -> Response:
        found = state.stored.get(id)
        return JSONResponse(found) if found else error(404, f"No response {id}.")

    @app.post("/v1/feedback")
    async def feedback(request: Request) -> Response:
        if state.feedback_status != 200:
            return error(state.feedback_status, "This key may not give feedback.")
        state.feedback.append(await request.json())
        return JSONResponse({"object": "feedback"})

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": "stand-in", "object": "model"}]}

    app.mount("/", Page())
    return app


def answer(state: PageServer, body: dict[str, Any]) -> Response:
    state.requests.append(body)
    script = state.answers.get(body["input"], Scripted())
    previous = body.get("previous_response_id")
    if previous and previous not in state.stored:
        return error(404, f"No response {previous}.")
    if script.status != 200:
        return error(script.status, script.fails or "")
    id = f"resp_{len(state.requests)}"
    about = {"specialist": script.specialist, "route": script.route, "pair": PAIR, "hcp": HCP}
    about |= {"confidence": script.confidence} if script.confidence else {}
    headers = {f"x-macaron-{name}": value for name, value in {**about, "turn": id}.items()}
    stream = lines(state, script, id)
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


async def lines(state: PageServer, script: Scripted, id: str) -> AsyncIterator[str]:
    try:
        async for number, event in numbered(events(state, script, id)):
            data = json.dumps(event | {"sequence_number": number})
            yield f"event: {event['type']}\ndata: {data}\n\n"
    except asyncio.CancelledError:
        state.gone += 1
        raise


async def numbered(
    source: AsyncIterator[dict[str, Any]],
) -> AsyncIterator[tuple[int, dict[str, Any]]]:
    number = 0
    async for event in source:
        yield number, event
        number += 1


async def events(state: PageServer, script: Scripted, id: str) -> AsyncIterator[dict[str, Any]]:
    yield {"type": "response.created", "response": response(id, "in_progress", None)}
    for step in script.steps:
        yield {"type": "macaron.step", "index": 0, "result": None, **before(step)}
        await asyncio.sleep(script.pause_s)
        yield {"type": "macaron.step", "index": 0, **step}
    place = {"output_index": 0, "item_id": f"msg_{id}"}
    yield {"type": "response.output_item.added", **place, "item": {"type": "message"}}
    for piece in script.pieces:
        yield {"type": "response.output_text.delta", **place, "content_index": 0, "delta": piece}
        await asyncio.sleep(script.pause_s)
    if script.hangs:
        await asyncio.sleep(30)
    if script.fails:
        failed = response(id, "failed", None) | {"error": {"message": script.fails}}
        yield {"type": "response.failed", "response": failed}
    elif not script.breaks:
        async for event in ending(state, script, id, place):
            yield event


async def ending(
    state: PageServer, script: Scripted, id: str, place: Mapping[str, Any]
) -> AsyncIterator[dict[str, Any]]:
    text = "".join(script.pieces)
    yield {"type": "response.output_text.done", **place, "content_index": 0, "text": text}
    status = "incomplete" if script.incomplete else "completed"
    state.stored[id] = response(id, status, text)
    yield {"type": "response.output_item.done", **place, "item": state.stored[id]["output"][0]}
    yield {"type": f"response.{status}", "response": state.stored[id]}


def before(step: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in step.items() if name != "result"}


def response(id: str, status: str, text: str | None) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"type": "message", "id": f"msg_{id}", "role": "assistant", "content": content}
    output = [] if text is None else [message]
    return {"id": id, "object": "response", "status": status, "output": output}


class Running:
    """The stand-in on a free port of 127.0.0.1, in a thread, for a `with` block."""

    def __init__(self, state: PageServer) -> None:
        config = uvicorn.Config(make_app(state), port=0, log_level="warning", lifespan="off")
        self.server, self.state = uvicorn.Server(config), state
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self) -> PageServer:
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        self.state.url = f"http://127.0.0.1:{port}/"
        return self.state

    def __exit__(self, *_: object) -> None:
        self.server.force_exit = self.server.should_exit = True
        self.thread.join(10)
