"""A fake of vLLM's and SGLang's documented endpoints, over the local engine: real tokens, no GPU.

It is stricter than they are: a field that is not used here is refused, where vLLM would only warn,
so that no misspelt one is ever sent. What it cannot show is their batching and their speed.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict

from macaron.engines.base import Completion, SampleParams

BASE = "base"
LONGEST = 256


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Completions(Strict):
    """vLLM's `/v1/completions`, the part that is used."""

    model: str
    prompt: list[int]
    max_tokens: int = 16
    temperature: float
    top_p: float = 1.0
    top_k: int
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    seed: int | None = None
    stop_token_ids: list[int] = []
    ignore_eos: bool = False
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    return_token_ids: bool = False
    stream: bool = False
    stream_options: dict[str, bool] | None = None


class Sampling(Strict):
    """SGLang's sampling parameters, the part that is used."""

    max_new_tokens: int = 128
    temperature: float
    top_p: float = 1.0
    top_k: int
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    sampling_seed: int | None = None
    stop_token_ids: list[int] = []
    ignore_eos: bool = False
    no_stop_trim: bool = False
    skip_special_tokens: bool = True


class Generate(Strict):
    """SGLang's `/generate`, the part that is used."""

    input_ids: list[int]
    sampling_params: Sampling
    lora_path: str | None = None
    return_logprob: bool = False
    logprob_start_len: int = -1
    stream: bool = False


class Lora(Strict):
    """Both servers' loading and unloading."""

    lora_name: str
    lora_path: str | None = None


class NotLoadedError(Exception):
    """No such LoRA."""


@dataclass
class FakeServer:
    """What the fake holds, and how it misbehaves."""

    engine: Any
    key: str | None = None
    may_load: bool = True
    incremental: bool = False
    """Of SGLang: events hold the new tokens only."""
    pace: float = 0.0
    """Seconds between tokens."""
    dies_after: int | None = None
    """Tokens after which the connection breaks."""
    busy: int = 0
    """Requests that are answered 503 first."""
    loras: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """The LoRA of each request."""
    hung_up: int = 0
    """Responses whose client left."""
    most: int = 0
    """Most requests at once."""
    running: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def restart(self) -> None:
        """All LoRAs are gone."""
        for name in self.loras:
            self.engine.delete(name)
        self.loras.clear()

    async def sample(self, prompt: list[int], lora: str | None, params: SampleParams) -> Completion:
        self.asked.append(lora or BASE)
        if lora is not None and lora not in self.loras:
            raise NotLoadedError(lora)
        async with self.lock:
            found = await asyncio.to_thread(
                self.engine.sample, [prompt], lora, params, 1, [params.seed]
            )
        completion: Completion = found[0][0]
        return completion

    async def prompt_logprobs(self, ids: list[int], lora: str | None) -> list[float]:
        """log p of each token but the first, given those before it."""
        if lora is not None and lora not in self.loras:
            raise NotLoadedError(lora)
        async with self.lock:
            return [
                self.engine.rank([ids[:place]], [[ids[place]]], lora)[0][0]
                for place in range(1, len(ids))
            ]

    async def paced(self, completion: Completion) -> AsyncIterator[int]:
        """Counts tokens, as they would be sampled."""
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            for count in range(1, len(completion.token_ids) + 1):
                await asyncio.sleep(self.pace)
                if self.dies_after is not None and count > self.dies_after:
                    raise RuntimeError("the fake server dies, as it was told")
                yield count
        except (asyncio.CancelledError, GeneratorExit):
            self.hung_up += 1
            raise
        finally:
            self.running -= 1


def app_of(server: FakeServer, dialect: Literal["vllm", "sglang"]) -> FastAPI:
    """The fake's endpoints."""
    app = FastAPI()
    _common(app, server, dialect)
    if dialect == "vllm":
        _vllm(app, server)
    else:
        _sglang(app, server)
    return app


def _common(app: FastAPI, server: FakeServer, dialect: str) -> None:
    @app.middleware("http")
    async def guard(request: Request, go_on: Any) -> Any:
        if server.key and request.headers.get("authorization") != f"Bearer {server.key}":
            return JSONResponse({"error": "Unauthorized"}, 401)
        if server.busy and request.method == "POST":
            server.busy -= 1
            return JSONResponse({"error": {"message": "overloaded"}}, 503)
        return await go_on(request)

    @app.get("/v1/models")
    async def models() -> Any:
        base = {"id": BASE, "owned_by": dialect, "parent": None, "max_model_len": LONGEST}
        loras = [{"id": n, "owned_by": dialect, "parent": BASE} for n in server.loras]
        return {"object": "list", "data": [base, *loras]}


def _vllm(app: FastAPI, server: FakeServer) -> None:
    def error(message: str, kind: str, status: int) -> JSONResponse:
        body = {"message": message, "type": kind, "param": None, "code": status}
        return JSONResponse({"error": body}, status)

    @app.post("/v1/completions")
    async def completions(body: Completions) -> Any:
        lora = None if body.model == BASE else body.model
        params = _params(body.max_tokens, body.temperature, body.top_p, body.seed, body)
        try:
            found = await server.sample(body.prompt, lora, params)
            scores = None
            if body.prompt_logprobs is not None:
                scores = await server.prompt_logprobs(body.prompt, lora)
        except NotLoadedError:
            return error(f"The model `{body.model}` does not exist.", "NotFoundError", 404)
        if body.stream:
            return _stream(_vllm_events(server, body, found))
        places = [None, *({str(t): {"logprob": s, "rank": 1}} for t, s in _pairs(body, scores))]
        choice = {"index": 0, "text": "", "finish_reason": found.stop_reason}
        return {"object": "text_completion", "choices": [{**choice, "prompt_logprobs": places}]}

    if not server.may_load:
        return

    @app.post("/v1/load_lora_adapter")
    async def load(body: Lora) -> Any:
        if body.lora_name in server.loras:
            message = f"The lora adapter '{body.lora_name}' has already been loaded."
            return error(message, "InvalidUserInput", 400)
        try:
            _load(server, body)
        except Exception as fault:
            return error(str(fault), "InternalServerError", 500)
        return PlainTextResponse(f"Success: LoRA adapter '{body.lora_name}' added successfully.")

    @app.post("/v1/unload_lora_adapter")
    async def unload(body: Lora) -> Any:
        if body.lora_name not in server.loras:
            message = f"The lora adapter '{body.lora_name}' cannot be found."
            return error(message, "NotFoundError", 404)
        _unload(server, body)
        return PlainTextResponse(f"Success: LoRA adapter '{body.lora_name}' removed successfully.")


def _pairs(body: Completions, scores: list[float] | None) -> Any:
    return zip(body.prompt[1:], scores or (), strict=False)


async def _vllm_events(
    server: FakeServer, body: Completions, found: Completion
) -> AsyncIterator[dict[str, Any]]:
    async for count in server.paced(found):
        last = count == len(found.token_ids)
        choice: dict[str, Any] = {"index": 0, "text": "?"}
        choice["finish_reason"] = found.stop_reason if last else None
        if body.return_token_ids:
            choice["token_ids"] = found.token_ids[count - 1 : count]
        if body.logprobs is not None:
            choice["logprobs"] = {"token_logprobs": found.logprobs[count - 1 : count]}
        yield {"object": "text_completion", "choices": [choice]}
    if (body.stream_options or {}).get("include_usage"):
        details = {"cached_tokens": 3}
        yield {"choices": [], "usage": {"prompt_tokens": 5, "prompt_tokens_details": details}}


def _sglang(app: FastAPI, server: FakeServer) -> None:
    @app.post("/generate")
    async def generate(body: Generate) -> Any:
        sampling = body.sampling_params
        params = _params(
            sampling.max_new_tokens,
            sampling.temperature,
            sampling.top_p,
            sampling.sampling_seed,
            sampling,
        )
        try:
            found = await server.sample(body.input_ids, body.lora_path, params)
            scores = []
            if not body.stream:
                scores = await server.prompt_logprobs(body.input_ids, body.lora_path)
        except NotLoadedError as fault:
            message = f"The following requested LoRA adapters are not loaded: {fault}"
            failed = {"error": {"message": message}}
            return _stream(_one(failed)) if body.stream else JSONResponse(failed, 400)
        if body.stream:
            return _stream(_sglang_events(server, found))
        start = body.logprob_start_len
        given = [(s, t, None) for s, t in zip([None, *scores], body.input_ids, strict=True)][start:]
        # The first one is always padded.
        given[0] = (None, *given[0][1:])
        return {"text": "", "meta_info": {"input_token_logprobs": given, "completion_tokens": 1}}

    @app.post("/load_lora_adapter")
    async def load(body: Lora) -> Any:
        try:
            if not server.may_load:
                raise ValueError("LoRA is not enabled. Please set `--enable-lora`.")
            if body.lora_name in server.loras:
                raise ValueError(f"LoRA with name {body.lora_name} already exists.")
            _load(server, body)
        except Exception as fault:
            return _update(server, False, str(fault))
        return _update(server, True, "")

    @app.post("/unload_lora_adapter")
    async def unload(body: Lora) -> Any:
        if body.lora_name not in server.loras:
            message = f"LoRA with name {body.lora_name} does not exist. Loaded LoRAs: []"
            return _update(server, False, message)
        _unload(server, body)
        return _update(server, True, "")


def _update(server: FakeServer, success: bool, message: str) -> JSONResponse:
    body = {"success": success, "error_message": message, "loaded_adapters": server.loras}
    return JSONResponse(body, 200 if success else 400)


async def _sglang_events(server: FakeServer, found: Completion) -> AsyncIterator[dict[str, Any]]:
    entries = [
        [logprob, token, None]
        for token, logprob in zip(found.token_ids, found.logprobs, strict=True)
    ]
    finish = {"type": found.stop_reason}
    async for count in server.paced(found):
        shown = slice(count - 1 if server.incremental else 0, count)
        yield {
            "text": "?",
            "output_ids": found.token_ids[shown],
            "meta_info": {
                "completion_tokens": count,
                "cached_tokens": 3,
                "finish_reason": finish if count == len(entries) else None,
                "output_token_logprobs": entries[shown],
            },
        }


def _params(
    tokens: int, temperature: float, top_p: float, seed: int | None, rest: Any
) -> SampleParams:
    if temperature and seed is None:
        raise ValueError("a test samples without a seed")
    stops = tuple(rest.stop_token_ids)
    return SampleParams(tokens, temperature, seed or 0, stops, top_p)


def _load(server: FakeServer, body: Lora) -> None:
    server.engine.load(body.lora_name, Path(str(body.lora_path)))
    server.loras[body.lora_name] = str(body.lora_path)


def _unload(server: FakeServer, body: Lora) -> None:
    server.engine.delete(body.lora_name)
    del server.loras[body.lora_name]


async def _one(event: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    yield event


def _stream(events: AsyncIterator[dict[str, Any]]) -> StreamingResponse:
    async def lines() -> AsyncIterator[str]:
        try:
            async for event in events:
                yield f"data: {json.dumps(event)}\n\n"
            yield "data: [DONE]\n\n"
        finally:
            await events.aclose()  # type: ignore[attr-defined]

    return StreamingResponse(lines(), media_type="text/event-stream")


class Running:
    """The fake behind a real server on a port of its own; a context manager."""

    def __init__(self, app: FastAPI) -> None:
        config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self.url = ""

    def __enter__(self) -> "Running":
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive(), "the fake server did not start"
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(10)
