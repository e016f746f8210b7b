"""The upstream engine against the fake of vLLM's and SGLang's endpoints; see `fake_upstream`."""

import asyncio
import http.server
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from macaron.engines.base import SampleParams
from macaron.engines.upstream.adapters import name_of
from macaron.engines.upstream.connect import connect_upstream
from macaron.engines.upstream.engine import UpstreamConfig, UpstreamEngine
from macaron.errors import BusyError, ConfigError, DigestError, MacaronError, ServiceError
from tests.engines.fake_upstream import LONGEST, FakeServer, Running, app_of

pytestmark = pytest.mark.full

PROMPT = [10, 20, 30, 40]
GREEDY = SampleParams(max_tokens=12, temperature=0.0, seed=3)
DRAWN = SampleParams(max_tokens=12, temperature=1.0, seed=7, top_p=0.9)

Scene = Callable[[UpstreamEngine], Coroutine[Any, Any, None]]


@pytest.fixture(scope="module")
def adapters(make_engine: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with adapters "one" and "two", as PEFT saves them."""
    root = tmp_path_factory.mktemp("adapters")
    make_engine().model.save_pretrained(str(root), selected_adapters=["one", "two"])
    return root


@pytest.fixture(scope="module")
def bare(make_engine: Callable[..., Any]) -> Any:
    """An engine of the same base for the fake; it never speaks of the adapters already there."""
    return make_engine(fresh=True)


@pytest.fixture(params=["vllm", "sglang"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(bare: Any) -> Iterator[FakeServer]:
    fake = FakeServer(bare)
    yield fake
    fake.restart()


@pytest.fixture
def play(server: FakeServer, dialect: Any) -> Iterator[Callable[..., None]]:
    """Runs a scene on an engine that is connected to the fake."""
    with Running(app_of(server, dialect)) as running:

        def run(scene: Scene, **options: Any) -> None:
            async def main() -> None:
                engine = await connect_upstream(running.url, **options)
                try:
                    await scene(engine)
                finally:
                    await engine.close()

            asyncio.run(main())

        yield run


def one_line(error: BaseException, kind: type[MacaronError], text: str) -> bool:
    return isinstance(error, kind) and text in str(error) and "\n" not in str(error)


def test_tokens_are_the_local_engines(
    play: Any, adapters: Path, make_engine: Callable[..., Any]
) -> None:
    local = make_engine()

    async def scene(engine: UpstreamEngine) -> None:
        for name in ("one", "two"):
            await engine.load(name, adapters / name)
        for params in (GREEDY, DRAWN):
            for adapter in (None, "one", "two"):
                found = await engine.submit(PROMPT, adapter, params).completion()
                (expected,) = local.sample([PROMPT], adapter, params, 1, [params.seed])[0]
                assert found.token_ids == expected.token_ids
                assert found.logprobs == pytest.approx(expected.logprobs, abs=1e-4)
                assert found.stop_reason == "length"
        assert engine.stats().adapters == 2
        assert engine.stats().sampled_tokens == 6 * 12
        assert (engine.stats().running, engine.stats().waiting) == (0, 0)

    play(scene)


def test_a_stop_token_ends_a_response_and_is_kept(
    play: Any, make_engine: Callable[..., Any]
) -> None:
    (free,) = make_engine().sample([PROMPT], None, GREEDY)[0]
    stop = free.token_ids[4]
    params = SampleParams(12, 0.0, stop_ids=(stop,))

    async def scene(engine: UpstreamEngine) -> None:
        found = await engine.submit(PROMPT, None, params).completion()
        assert found.token_ids == free.token_ids[: free.token_ids.index(stop) + 1]
        assert found.stop_reason == "stop"

    play(scene)


def test_tokens_stream_as_they_are_sampled(play: Any, server: FakeServer) -> None:
    server.pace = 0.02

    async def scene(engine: UpstreamEngine) -> None:
        ticket = engine.submit(PROMPT, None, GREEDY)
        pieces = [piece async for piece in ticket.pieces()]
        assert len(pieces) > 3
        whole = [token for piece in pieces for token in piece]
        assert whole == (await ticket.completion()).token_ids
        # A second reader has them all as well.
        assert [t async for piece in ticket.pieces() for t in piece] == whole
        assert ticket.cached_tokens == 3

    play(scene)


@pytest.mark.parametrize("dialect", ["sglang"])
def test_events_with_the_new_tokens_only_are_read_alike(play: Any, server: FakeServer) -> None:
    async def scene(engine: UpstreamEngine) -> None:
        whole = await engine.submit(PROMPT, None, GREEDY).completion()
        server.incremental = True
        assert await engine.submit(PROMPT, None, GREEDY).completion() == whole

    play(scene)


def test_ranks_are_the_local_engines(
    play: Any, adapters: Path, make_engine: Callable[..., Any]
) -> None:
    options = [[5], [6, 7, 8], [9, 5]]

    async def scene(engine: UpstreamEngine) -> None:
        await engine.load("one", adapters / "one")
        for adapter in (None, "one"):
            for prompt in (PROMPT, [4]):
                found = await engine.rank(prompt, options, adapter)
                (expected,) = make_engine().rank([prompt], options, adapter)
                assert found == pytest.approx(expected, abs=1e-4)

    play(scene)


def test_a_cancelled_response_hangs_up_and_keeps_what_came(play: Any, server: FakeServer) -> None:
    server.pace = 0.05

    async def scene(engine: UpstreamEngine) -> None:
        ticket = engine.submit(PROMPT, None, SampleParams(100, 0.0))
        pieces = ticket.pieces()
        first = await anext(pieces)
        ticket.cancel()
        found = await ticket.completion()
        assert found.token_ids[: len(first)] == first and len(found.token_ids) < 100
        assert found.stop_reason == "length"
        while server.running:
            await asyncio.sleep(0.01)
        assert server.hung_up == 1
        assert engine.stats().running == 0

    play(scene)


def test_names_carry_the_content_and_loading_twice_is_loading_once(
    play: Any, server: FakeServer, adapters: Path
) -> None:
    async def scene(engine: UpstreamEngine) -> None:
        await engine.load("rev", adapters / "one")
        await engine.load("rev", adapters / "one")
        name = name_of("rev", adapters / "one")
        assert set(server.loras) == {name}
        assert name != name_of("rev", adapters / "two")
        await engine.submit(PROMPT, "rev", GREEDY).completion()
        assert server.asked == [name]

    play(scene)

    # Another start of ours finds it loaded already.
    play(scene_of_load("rev", adapters / "one"))
    assert len(server.loras) == 1


def scene_of_load(revision: str, folder: Path) -> Scene:
    async def scene(engine: UpstreamEngine) -> None:
        await engine.load(revision, folder)
        assert engine.stats().adapters == 1

    return scene


def test_unloading_waits_for_responses_and_forgets(
    play: Any, server: FakeServer, adapters: Path
) -> None:
    server.pace = 0.01

    async def scene(engine: UpstreamEngine) -> None:
        await engine.load("one", adapters / "one")
        ticket = engine.submit(PROMPT, "one", GREEDY)
        unloading = asyncio.create_task(engine.unload("one"))
        await anext(ticket.pieces())
        with pytest.raises(ConfigError):
            engine.submit(PROMPT, "one", GREEDY)
        assert len((await ticket.completion()).token_ids) == 12
        await unloading
        assert server.loras == {}
        await engine.unload("one")
        with pytest.raises(ConfigError):
            await engine.rank(PROMPT, [[1]], "one")

    play(scene)


def test_a_server_that_lost_its_adapters_gets_them_again(
    play: Any, server: FakeServer, adapters: Path
) -> None:
    async def scene(engine: UpstreamEngine) -> None:
        await engine.load("one", adapters / "one")
        before = await engine.submit(PROMPT, "one", GREEDY).completion()
        server.restart()
        assert await engine.submit(PROMPT, "one", GREEDY).completion() == before
        server.restart()
        await engine.rank(PROMPT, [[1]], "one")

    play(scene)


def test_an_adapter_of_another_base_is_refused(play: Any, adapters: Path, tmp_path: Path) -> None:
    (tmp_path / "odd").mkdir()
    config = (adapters / "one" / "adapter_config.json").read_text()
    (tmp_path / "odd" / "adapter_config.json").write_text(config.replace('"r": 4', '"r": 3'))
    weights = (adapters / "one" / "adapter_model.safetensors").read_bytes()
    (tmp_path / "odd" / "adapter_model.safetensors").write_bytes(weights)

    async def scene(engine: UpstreamEngine) -> None:
        with pytest.raises(DigestError) as caught:
            await engine.load("odd", tmp_path / "odd")
        assert one_line(caught.value, DigestError, "cannot use the adapter")
        with pytest.raises(DigestError):
            await engine.load("none", tmp_path / "none")
        assert engine.stats().adapters == 0

    play(scene)


@pytest.mark.parametrize("dialect", ["vllm"])
def test_a_server_that_loads_nothing_while_it_runs_is_one_line(
    bare: Any, adapters: Path, dialect: Any
) -> None:
    async def main(url: str) -> None:
        engine = await connect_upstream(url)
        with pytest.raises(ServiceError, match="loads no adapters while it runs"):
            await engine.load("one", adapters / "one")
        await engine.close()

    with Running(app_of(FakeServer(bare, may_load=False), dialect)) as running:
        asyncio.run(main(running.url))


def test_a_server_that_dies_in_the_middle_is_one_line(play: Any, server: FakeServer) -> None:
    server.dies_after = 3

    async def scene(engine: UpstreamEngine) -> None:
        ticket = engine.submit(PROMPT, None, GREEDY)
        with pytest.raises(ServiceError) as caught:
            await ticket.completion()
        assert one_line(caught.value, ServiceError, "ended a response in its middle")
        # It was not asked again: tokens had come.
        assert len(server.asked) == 1

    play(scene)


def test_a_busy_server_is_asked_again(
    play: Any, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("macaron.engines.upstream.engine.PAUSES", (0.01, 0.02))

    async def scene(engine: UpstreamEngine) -> None:
        server.busy = 2
        found = await engine.submit(PROMPT, None, GREEDY).completion()
        assert len(found.token_ids) == 12 and server.busy == 0
        server.busy = 99
        with pytest.raises(ServiceError, match="answers 503: overloaded"):
            await engine.submit(PROMPT, None, GREEDY).completion()

    play(scene)


def test_a_silent_server_is_one_line(play: Any, server: FakeServer) -> None:
    server.pace = 5.0

    async def scene(engine: UpstreamEngine) -> None:
        with pytest.raises(ServiceError, match="fell silent"):
            await engine.submit(PROMPT, None, GREEDY).completion()

    play(scene, config=UpstreamConfig(silence=0.3))


def test_requests_at_once_are_bounded(play: Any, server: FakeServer) -> None:
    server.pace = 0.005

    async def scene(engine: UpstreamEngine) -> None:
        # Two run, four wait, and a seventh is too much.
        first = [engine.submit(PROMPT, None, GREEDY) for _ in range(2)]
        await asyncio.sleep(0)
        more = [engine.submit(PROMPT, None, GREEDY) for _ in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            engine.submit(PROMPT, None, GREEDY)
        for ticket in first + more:
            await ticket.completion()
        assert server.most <= 2

    play(scene, config=UpstreamConfig(running=2, waiting=4))


def test_what_no_server_could_answer_is_said_at_once(play: Any) -> None:
    async def scene(engine: UpstreamEngine) -> None:
        for prompt, adapter in (([], None), ([1] * LONGEST, None), (PROMPT, "nobody")):
            with pytest.raises(ConfigError):
                engine.submit(prompt, adapter, GREEDY)
        with pytest.raises(ConfigError):
            await engine.rank(PROMPT, [[]], None)

    play(scene)


def test_a_wrong_key_is_one_line(bare: Any, dialect: Any) -> None:
    with Running(app_of(FakeServer(bare, key="right"), dialect)) as running:
        with pytest.raises(ServiceError) as caught:
            asyncio.run(connect_upstream(running.url, "wrong"))
        assert one_line(caught.value, ServiceError, "refuses the key")
        engine = asyncio.run(connect_upstream(running.url + "/v1/", "right"))
        assert engine.name.lower().startswith(dialect)


def test_a_closed_engine_has_ended_everything(play: Any, server: FakeServer) -> None:
    server.pace = 0.05

    async def scene(engine: UpstreamEngine) -> None:
        ticket = engine.submit(PROMPT, None, SampleParams(100, 0.0))
        await anext(ticket.pieces())
        await engine.close()
        assert (await ticket.completion()).stop_reason == "length"

    play(scene)


class Website(http.server.BaseHTTPRequestHandler):
    """No upstream at all."""

    def do_GET(self) -> None:
        body = b"<html>hello</html>"
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


def test_a_server_of_another_kind_is_one_line() -> None:
    site = http.server.HTTPServer(("127.0.0.1", 0), Website)
    thread = threading.Thread(target=site.serve_forever, daemon=True)
    thread.start()
    try:
        with pytest.raises(ServiceError) as caught:
            asyncio.run(connect_upstream(f"http://127.0.0.1:{site.server_port}"))
        assert one_line(caught.value, ServiceError, "neither vLLM's nor SGLang's")
    finally:
        site.shutdown()
        site.server_close()


@pytest.mark.parametrize(
    ("url", "key", "kind"),
    [
        ("", None, ConfigError),
        ("127.0.0.1:8000", None, ConfigError),
        ("ftp://127.0.0.1", None, ConfigError),
        ("http://user:secret@127.0.0.1", None, ConfigError),
        ("http://127.0.0.1:1", "k\u00e9y", ConfigError),
        ("http://127.0.0.1:1", "a\nb", ConfigError),
        ("http://127.0.0.1:1", None, ServiceError),
    ],
)
def test_a_url_that_leads_nowhere_is_one_line(
    url: str, key: str | None, kind: type[MacaronError]
) -> None:
    with pytest.raises(MacaronError) as caught:
        asyncio.run(connect_upstream(url, key))
    assert one_line(caught.value, kind, "") and "secret" not in str(caught.value)
