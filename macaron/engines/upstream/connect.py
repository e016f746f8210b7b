"""Finding out what an upstream URL leads to."""

from collections.abc import Callable
from typing import Literal

import httpx

from macaron.engines.upstream.dialect import Dialect
from macaron.engines.upstream.engine import UpstreamConfig, UpstreamEngine
from macaron.engines.upstream.sglang import SGLang
from macaron.engines.upstream.vllm import VLLM
from macaron.engines.upstream.wire import Refusal, Wire
from macaron.errors import ConfigError, ServiceError

SPARE = 4
"""Connections beside those of requests, to load adapters over."""

Kind = Literal["auto", "vllm", "sglang"]
KINDS: dict[str, Callable[[str], Dialect]] = {"vllm": VLLM, "sglang": SGLang}


async def connect_upstream(
    url: str, api_key: str | None = None, config: UpstreamConfig | None = None, kind: Kind = "auto"
) -> UpstreamEngine:
    """An engine on a server that runs.

    Args:
        url: such as `http://127.0.0.1:8000`; a `/v1` at its end is left out.
        api_key: that the server was started with.
        kind: which server it is; "auto" asks it.

    Raises:
        ConfigError: the URL or the key cannot be used, or the server is of another kind.
        ServiceError: it does not answer, or refuses the key.
    """
    used = config or UpstreamConfig()
    wire = Wire(_root(url), _key(api_key), used.silence, used.running + SPARE)
    try:
        owner, base, longest = await _models(wire)
        dialect = KINDS.get(owner if kind == "auto" else kind)
        if dialect is None:
            raise ConfigError(
                f"the server is {owner or 'of no kind'}, which is neither vLLM nor SGLang",
                where=wire.url,
                mend="say which it is, or correct the URL",
            )
    except BaseException:
        await wire.close()
        raise
    return UpstreamEngine(wire, dialect(base), used, longest)


async def _models(wire: Wire) -> tuple[str, str, int | None]:
    """Who serves, the base's name, and the longest context, as `/v1/models` has them."""
    try:
        models = (await wire.get("/v1/models"))["data"]
        base = next(model for model in models if not model.get("parent"))
        return str(base.get("owned_by", "")), str(base["id"]), base.get("max_model_len")
    except (KeyError, TypeError, AttributeError, StopIteration, Refusal) as error:
        raise ServiceError(
            "lists no models as vLLM and SGLang do", where=wire.url, mend="correct the URL"
        ) from error


def _root(url: str) -> str:
    root = url.strip().rstrip("/").removesuffix("/v1").rstrip("/")
    try:
        parsed = httpx.URL(root)
    except httpx.InvalidURL as error:
        raise ConfigError(f"no URL: {error}", where="upstream") from error
    if parsed.userinfo:
        raise ConfigError("the URL holds a password", where="upstream", mend="give an API key")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ConfigError("no http:// or https:// URL of a server", where="upstream")
    return root


def _key(api_key: str | None) -> str | None:
    if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
        raise ConfigError("the API key has characters that no header can carry", where="upstream")
    return api_key
