"""What an operator sets of the server; the table `serve` of macaron.toml."""

from typing import Literal

from pydantic import Field

from macaron.profile import Section


class Limits(Section):
    """What one request, or one key, may use; more is refused, never cut."""

    body: int = Field(4 << 20, gt=0, description="longest request body, bytes")
    depth: int = Field(32, gt=0, description="deepest nesting of a request's JSON, levels")
    messages: int = Field(1024, gt=0, description="most messages or items a request")
    tools: int = Field(128, ge=0, description="most tools a request")
    n: int = Field(8, gt=0, description="most answers a request")
    max_tokens: int = Field(4096, gt=0, description="most tokens that a request can ask for")
    turn_s: float = Field(300, gt=0, description="longest request, from routing to last byte, s")
    requests_per_minute: int = Field(600, gt=0, description="of one key, requests a minute")
    running: int = Field(256, gt=0, description="most turns that are answered at once, of all keys")
    tokens_per_minute: int = Field(
        400_000, gt=0, description="of one key, prompt and response tokens a minute"
    )


class LocalSampling(Section):
    """The engine of this process."""

    rows: int = Field(64, gt=0, description="most answers that are sampled in one batch")
    cache_mib: int = Field(256, ge=0, description="most that the prefix cache holds, MiB")
    threads: int = Field(1, gt=0, description="threads of the arithmetic")


class Upstream(Section):
    """A server that samples in place of the local engine."""

    url: str = Field("", description="base URL of a vLLM or SGLang server; empty: sample here")
    kind: Literal["auto", "vllm", "sglang"] = Field(
        "auto", description="what serves at the URL; auto: ask it"
    )
    key_variable: str = Field(
        "UPSTREAM_API_KEY", description="environment variable that holds its API key, if it has one"
    )


class ServeConfig(Section):
    """All settings of `macaron serve`."""

    host: str = Field("127.0.0.1", description="address to listen on; others need an API key")
    port: int = Field(8000, ge=0, le=65535, description="TCP port to listen on; 0: a free one")
    hosts: tuple[str, ...] = Field(
        (), description="further names that clients may call the server by, such as its DNS name"
    )
    model: str = Field(
        "macaron", pattern=r"^[A-Za-z0-9_.-]+$", description="the one model name that clients see"
    )
    keys: str = Field("", description="file of the API keys; empty: in the state folder")
    timeline: str = Field(
        "", description="database URL of the turns; empty: SQLite in the state folder"
    )
    retention_days: float = Field(
        30, ge=0, description="days that a session is kept after its last turn; 0: for ever"
    )
    keep_alive_s: float = Field(
        15, gt=0, description="silence in a stream after which a comment is sent, seconds"
    )
    limits: Limits = Field(Limits(), description="what one request, or one key, may use")
    engine: LocalSampling = Field(LocalSampling(), description="the engine of this process")
    upstream: Upstream = Field(Upstream(), description="a server that samples in place of this one")
