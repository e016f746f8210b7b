"""The timeline against a dictionary: whatever is done to both, they tell the same."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, rule

from macaron.serve.records import TurnRecord
from macaron.serve.sql.timeline import SqlTimeline, open_timeline
from macaron.serve.timeline import UnknownTurnError
from tests.serve.turns import PLAIN, after, contents

KEYS = st.sampled_from(["key-a", "key-b"])
OTHERS = st.sampled_from([False, False, False, True])
"""Whether a key that is not the turn's own asks."""


@dataclass
class Kept:
    """A turn in the model."""

    turn: TurnRecord
    orphan: bool = False
    logged: bool = False
    hidden: bool = False


class TimelineMachine(RuleBasedStateMachine):
    """Subclasses name an empty database."""

    ids = Bundle("ids")

    def new_url(self) -> str:
        """The URL of a database without turns."""
        raise NotImplementedError

    @initialize()
    def open(self) -> None:
        self.runner = asyncio.Runner()
        self.url = self.new_url()
        self.kept: dict[str, Kept] = {}
        self.users: set[tuple[str, str]] = set()
        self.count = 0
        self.timeline: SqlTimeline = self.run(open_timeline(self.url))

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    def teardown(self) -> None:
        if hasattr(self, "timeline"):
            for id, kept in self.kept.items():
                found = self.run(self.timeline.get(id, kept.turn.key))
                assert found == (None if kept.hidden else kept.turn)
            self.run(self.timeline.close())
            self.runner.close()

    def offer(self, turns: list[TurnRecord]) -> None:
        self.run(self.timeline.offer(turns))
        for turn in turns:
            if turn.id not in self.kept:
                self.kept[turn.id] = Kept(turn)
            if turn.user is not None:
                self.users.add((turn.user, turn.session))

    def key(self, id: str, other: bool) -> str:
        own = self.kept[id].turn.key if id in self.kept else "key-a"
        return {"key-a": "key-b", "key-b": "key-a"}[own] if other else own

    def new_id(self) -> str:
        self.count += 1
        return f"resp_{self.count}"

    @rule(target=ids, key=KEYS, content=contents)
    def begin(self, key: str, content: dict[str, Any]) -> str:
        id = self.new_id()
        self.offer([replace(PLAIN, id=id, session=id, key=key, **content)])
        return id

    @rule(target=ids, last=ids, content=contents, choices=st.integers(1, 2))
    def go_on(self, last: str, content: dict[str, Any], choices: int) -> str:
        if last not in self.kept:
            return last
        id, turn = self.new_id(), self.kept[last].turn
        names = [id, f"{id}-1"][:choices]
        self.offer([after(turn, name, **content) for name in names])
        return names[-1]

    @rule(id=ids)
    def offer_again(self, id: str) -> None:
        if id in self.kept:
            self.offer([replace(self.kept[id].turn, state="offered", answer="another")])

    @rule(some=st.lists(ids, min_size=1, max_size=2))
    def delivered(self, some: list[str]) -> None:
        self.run(self.timeline.delivered(some))
        self.mark(some)

    def mark(self, some: list[str]) -> None:
        for id in set(some) & self.kept.keys():
            self.kept[id].turn = replace(self.kept[id].turn, state="delivered")

    @rule(some=st.lists(ids, min_size=1, max_size=2))
    def withdraw(self, some: list[str]) -> None:
        self.run(self.timeline.withdraw(some))
        followed = {kept.turn.previous for kept in self.kept.values()}
        for id in set(some) & self.kept.keys() - followed:
            kept = self.kept[id]
            if kept.turn.state == "offered" and not kept.orphan:
                del self.kept[id]
                self.disown(kept.turn.session)

    def disown(self, session: str) -> None:
        if all(kept.turn.session != session for kept in self.kept.values()):
            self.users = {(u, s) for u, s in self.users if s != session}

    @rule(last=ids, other=OTHERS)
    def chain(self, last: str, other: bool) -> None:
        key = self.key(last, other)
        kept = self.kept.get(last)
        seen = kept is not None and kept.turn.key == key and not kept.hidden and kept.turn.stored
        if not seen:
            assert self.run(self.unknown(last, key))
            return
        walk, at = [], last
        while at is not None:
            walk.append(at)
            at = self.kept[at].turn.previous  # type: ignore[assignment]
        self.mark(walk)
        expected = [self.kept[id].turn for id in reversed(walk)]
        assert self.run(self.timeline.chain(last, key)) == expected

    async def unknown(self, last: str, key: str) -> bool:
        try:
            await self.timeline.chain(last, key)
        except UnknownTurnError:
            return True
        return False

    @rule(id=ids, other=OTHERS)
    def get(self, id: str, other: bool) -> None:
        key = self.key(id, other)
        kept = self.kept.get(id)
        seen = kept is not None and kept.turn.key == key and not kept.hidden
        assert self.run(self.timeline.get(id, key)) == (kept.turn if kept and seen else None)

    @rule(id=ids, other=OTHERS)
    def delete(self, id: str, other: bool) -> None:
        key = self.key(id, other)
        kept = self.kept.get(id)
        seen = kept is not None and kept.turn.key == key and not kept.hidden
        assert self.run(self.timeline.delete(id, key)) == seen
        if kept and seen:
            kept.hidden = True
            self.chain(id, False)

    @rule(id=ids, summary=st.text(max_size=5), tokens=st.integers(0, 200))
    def summarise(self, id: str, summary: str, tokens: int) -> None:
        found = self.run(self.timeline.summarised(id, summary, tokens))
        kept = self.kept.get(id)
        if kept is None or kept.turn.summary is not None:
            assert found == (kept.turn.summary if kept else summary)
            return
        usage = {**kept.turn.usage, "summary_tokens": tokens}
        kept.turn = replace(kept.turn, summary=summary, usage=usage)
        assert found == summary

    @rule(limit=st.integers(1, 5), log=st.booleans())
    def pending(self, limit: int, log: bool) -> None:
        due = [
            kept
            for kept in self.kept.values()
            if not kept.logged and (kept.turn.state == "delivered" or kept.orphan)
        ]
        found = self.run(self.timeline.pending(limit))
        assert found == [kept.turn for kept in due[:limit]]
        if log:
            self.run(self.timeline.logged([turn.id for turn in found]))
            for kept in due[:limit]:
                kept.logged = True

    @rule(user=st.sampled_from(["u1", "u2"]))
    def sessions_of(self, user: str) -> None:
        expected = sorted(s for u, s in self.users if u == user)
        assert self.run(self.timeline.sessions_of(user)) == expected

    @rule(gone=st.lists(consumes(ids), max_size=2))
    def forget(self, gone: list[str]) -> None:
        sessions = {self.kept[id].turn.session for id in gone if id in self.kept}
        mine = {id for id, kept in self.kept.items() if kept.turn.session in sessions}
        assert self.run(self.timeline.forget(sessions)) == len(mine)
        self.users = {(u, s) for u, s in self.users if s not in sessions}
        self.kept = {id: kept for id, kept in self.kept.items() if id not in mine}

    @rule(day=st.integers(1, 29))
    def expire(self, day: int) -> None:
        before = f"2026-02-{day:02d}T12:00:00+00:00" if day < 29 else "2026-03-01T00:00:00Z"
        needed = {
            kept.turn.session
            for kept in self.kept.values()
            # Both are of one length up to the fraction of a second.
            if not kept.logged or kept.turn.created_at[:19] >= before[:19]
        }
        old = {kept.turn.session for kept in self.kept.values()} - needed
        assert self.run(self.timeline.expire(before)) == len(old)
        self.kept = {i: kept for i, kept in self.kept.items() if kept.turn.session not in old}

    @rule()
    def restart(self) -> None:
        self.run(self.timeline.close())
        self.timeline = self.run(open_timeline(self.url))
        for kept in self.kept.values():
            kept.orphan = kept.orphan or not kept.logged
