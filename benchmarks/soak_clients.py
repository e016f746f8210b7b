"""The clients of the soak: sessions that talk, break off, and note what they were given.

A client notes a turn once its answer has arrived whole: from then on the server may not lose it.
"""

import asyncio
import json
import random
from dataclasses import dataclass, field
from typing import Any

import httpx

SYLLABLES = ("ba", "do", "ki", "lu", "me", "no", "pi", "ra", "se", "tu", "va", "zo")
TEXTS = (
    "My cat is {name}. What is my cat called? Reply in brackets.",
    "Write code for the function {name}.",
    "Make a card for {name}.",
    "Count the orders for {name}.",
    "Tell me about {name}.",
)


@dataclass(frozen=True)
class Got:
    """A turn that arrived."""

    id: str
    previous: str | None
    asked: str
    answer: str
    specialist: str
    pair: str


@dataclass
class Ledger:
    """What the clients know; each list only grows."""

    got: list[Got] = field(default_factory=list)
    broken_off: int = 0
    """Turns that a client left before their end."""
    unanswered: int = 0
    """Requests that the server's end cut off: their fate is the server's to know."""
    refused: int = 0
    """Told to come again."""
    lost: list[str] = field(default_factory=list)
    """Turns that arrived and that the server denied afterwards."""
    wrong: list[str] = field(default_factory=list)
    """Any other answer that should not be."""


class Client:
    """One user: a session after another, each with a name that nobody else says."""

    def __init__(self, number: int, url: str, ledger: Ledger, seed: int) -> None:
        self._number, self._url, self._ledger = number, url, ledger
        self._rng = random.Random(f"{seed} {number}")
        self._sessions = self._requests = 0

    async def talk(self, until: float) -> None:
        """Talks until a time of the loop's clock."""
        loop = asyncio.get_running_loop()
        limits = httpx.Limits(max_connections=1)
        async with httpx.AsyncClient(base_url=self._url, timeout=60, limits=limits) as http:
            while loop.time() < until:
                await self._session(http, until)

    async def _session(self, http: httpx.AsyncClient, until: float) -> None:
        name, last = self._name(), None
        for _ in range(self._rng.randint(1, 6)):
            if asyncio.get_running_loop().time() >= until:
                return
            self._requests += 1
            asked = f"{self._rng.choice(TEXTS).format(name=name)} {self._requests}"
            try:
                got = await self._turn(http, asked, last)
            except httpx.HTTPError:
                self._ledger.unanswered += 1
                await asyncio.sleep(0.3)
                continue
            if got is not None:
                self._ledger.got.append(got)
                last = got.id
            await asyncio.sleep(self._rng.random() * 0.3)

    async def _turn(self, http: httpx.AsyncClient, asked: str, last: str | None) -> Got | None:
        body: dict[str, Any] = {"model": "macaron", "input": asked}
        if last:
            body["previous_response_id"] = last
        if self._rng.random() < 0.5:
            return await self._streamed(http, {**body, "stream": True}, asked, last)
        answer = await http.post("/v1/responses", json=body)
        if not self._fine(answer.status_code, answer.text, last):
            return None
        value = answer.json()
        text = "".join(
            part["text"]
            for item in value["output"]
            if item["type"] == "message"
            for part in item["content"]
        )
        return self._got(answer, value["id"], asked, text, last)

    async def _streamed(
        self, http: httpx.AsyncClient, body: dict[str, Any], asked: str, last: str | None
    ) -> Got | None:
        leaves = self._rng.randint(1, 12) if self._rng.random() < 0.3 else None
        text, done = "", ""
        async with http.stream("POST", "/v1/responses", json=body) as answer:
            if answer.status_code != 200:
                await answer.aread()
                self._fine(answer.status_code, answer.text, last)
                return None
            events = 0
            async for line in answer.aiter_lines():
                if not line.startswith("data:"):
                    continue
                events += 1
                event = json.loads(line.removeprefix("data:"))
                if event["type"] == "response.output_text.delta":
                    text += event["delta"]
                elif event["type"] == "response.completed":
                    done = event["response"]["id"]
                elif event["type"] in ("response.failed", "error"):
                    self._ledger.wrong.append(str(event)[:200])
                if leaves is not None and events >= leaves and not done:
                    self._ledger.broken_off += 1
                    return None
        return self._got(answer, done, asked, text, last) if done else None

    def _fine(self, status: int, text: str, last: str | None) -> bool:
        if status == 200:
            return True
        if status == 429:
            self._ledger.refused += 1
        elif status == 404 and last:
            self._ledger.lost.append(last)
        else:
            self._ledger.wrong.append(f"{status}: {text[:200]}")
        return False

    def _got(self, answer: httpx.Response, id: str, asked: str, text: str, last: str | None) -> Got:
        named = answer.headers
        return Got(id, last, asked, text, named["x-macaron-specialist"], named["x-macaron-pair"])

    def _name(self) -> str:
        """A name of this session alone."""
        self._sessions += 1
        number, letters = self._number * 1000 + self._sessions, ""
        while number:
            number, rest = divmod(number, len(SYLLABLES))
            letters += SYLLABLES[rest]
        return letters.capitalize()
