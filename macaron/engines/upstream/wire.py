"""HTTP to an upstream server: JSON in, JSON or a stream of JSON events out.

Whatever goes wrong is one of three things: a `Refusal` that the caller can read, a
`TransientError` after which the same may be asked again, or a `ServiceError`.
"""

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from macaron.errors import ServiceError

TRANSIENT = frozenset({429, 502, 503, 504})
"""Statuses that say: not now."""

LONGEST = 200
"""Characters of an upstream's message that are passed on."""

Body = Mapping[str, Any]


class Refusal(Exception):  # noqa: N818
    """The server answered, with an error."""

    def __init__(self, status: int, message: str, body: Any) -> None:
        super().__init__(message)
        self.status, self.message, self.body = status, message, body


class TransientError(ServiceError):
    """Nothing came; the same may be asked again."""


class Wire:
    """The connections to one server.

    Args:
        url: of its root, without `/v1`.
        api_key: its bearer token.
        silence: longest wait for the next byte, seconds.
        connections: the most at once.
    """

    def __init__(self, url: str, api_key: str | None, silence: float, connections: int) -> None:
        self.url = url
        self._client = httpx.AsyncClient(
            base_url=url,
            headers={"authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=httpx.Timeout(silence, connect=5),
            limits=httpx.Limits(max_connections=connections),
        )

    async def get(self, path: str) -> Any:
        """The JSON of a page."""
        with self._faults():
            return _answer(await self._client.get(path), self.url)

    async def post(self, path: str, body: Body) -> Any:
        """What the server answers: JSON, or else text.

        Raises:
            Refusal: it answered with an error.
            ServiceError: it does not answer.
        """
        with self._faults():
            return _answer(await self._client.post(path, json=body), self.url, text=True)

    async def events(self, path: str, body: Body) -> AsyncGenerator[Any, None]:
        """The server-sent events of an answer, up to its `[DONE]`; closing it hangs up.

        Raises:
            Refusal: it answered with an error.
            ServiceError: it does not answer, falls silent or sends something else.
        """
        with self._faults():
            async with self._client.stream("POST", path, json=body) as response:
                if response.status_code != httpx.codes.OK:
                    await response.aread()
                    _answer(response, self.url)
                async for line in response.aiter_lines():
                    if line == "data: [DONE]":
                        return
                    if line.startswith("data:"):
                        yield _event(line.removeprefix("data:"), self.url)

    async def close(self) -> None:
        """Hangs up."""
        await self._client.aclose()

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except httpx.ReadTimeout as error:
            raise ServiceError(
                "fell silent", where=self.url, mend="see its log; it may be overloaded"
            ) from error
        except httpx.TransportError as error:
            what = str(error) or type(error).__name__
            raise TransientError(
                f"does not answer: {what}", where=self.url, mend="start it, or correct the URL"
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServiceError(f"cannot be asked: {error}", where=self.url) from error


def _answer(response: httpx.Response, url: str, text: bool = False) -> Any:
    try:
        body: Any = response.json()
    except ValueError:
        body = response.text
    if response.is_success and (text or not isinstance(body, str)):
        return body
    if response.is_success or response.is_redirect:
        raise _other(url)
    message = message_of(body) or response.reason_phrase
    if response.status_code in (401, 403):
        raise ServiceError(
            f"refuses the key: {message}", where=url, mend="give the key that it was started with"
        )
    if response.status_code in TRANSIENT:
        raise TransientError(
            f"answers {response.status_code}: {message}", where=url, mend="see its log"
        )
    raise Refusal(response.status_code, message, body)


def _event(data: str, url: str) -> Any:
    try:
        event = json.loads(data)
    except ValueError as error:
        raise _other(url) from error
    if not isinstance(event, dict):
        raise _other(url)
    if event.get("error"):
        raise Refusal(400, message_of(event), event)
    return event


def _other(url: str) -> ServiceError:
    return ServiceError(
        "sends something that is neither vLLM's nor SGLang's", where=url, mend="correct the URL"
    )


def message_of(body: Any) -> str:
    """An error body's message, one line; both servers have several forms."""
    while isinstance(body, dict):
        keys = ("error", "message", "error_message", "detail")
        body = next((body[key] for key in keys if body.get(key)), "")
    lines = str(body).strip().splitlines()
    return lines[0][:LONGEST] if lines else ""
