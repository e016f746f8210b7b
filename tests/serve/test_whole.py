"""The whole server: `macaron serve` in its own process, the official client, real champions."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks._deployed import Deployed, deploy
from benchmarks._server import Server
from macaron.experience.log import TurnLog
from macaron.experience.schema import Trajectory
from macaron.experience.store import ExperienceStore
from macaron.experience.table import from_table
from tests.project import macaron

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    return deploy(tmp_path_factory.mktemp("deployed") / "project", pairs=2, noise=0.04)


@pytest.fixture(scope="module")
def server(deployed: Deployed) -> Iterator[Server]:
    one = Server(deployed.settings.root)
    one.start()
    yield one
    one.kill()


@pytest.fixture
def client(server: Server) -> Any:
    from openai import OpenAI

    return OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def rows(deployed: Deployed, *wanted: str) -> dict[str, Trajectory]:
    """The experience, after compaction beside the running server, once it has these turns.

    They come to it after their answers went out.
    """
    store = ExperienceStore(deployed.settings.experience)
    for _ in range(100):
        TurnLog(deployed.settings.state / "turns").compact(store)
        found = {row.id: row for row in from_table(store.read())}
        if found.keys() >= set(wanted):
            break
        time.sleep(0.1)
    return found


def test_the_official_client_talks_over_both_endpoints(client: Any) -> None:
    assert [model.id for model in client.models.list()] == ["macaron"]
    chat = client.chat.completions.create(
        model="macaron", messages=[{"role": "user", "content": "My cat is Tovo."}], seed=3, n=2
    )
    assert len(chat.choices) == 2 and chat.usage.completion_tokens > 0
    assert chat.choices[0].finish_reason in ("stop", "length")
    stream = client.chat.completions.create(
        model="macaron",
        messages=[{"role": "user", "content": "My cat is Tovo."}],
        seed=3,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert said == chat.choices[0].message.content and chunks[-1].usage.total_tokens > 0
    first = client.responses.create(model="macaron", input="Write a function.")
    with client.responses.stream(
        model="macaron", input="And another.", previous_response_id=first.id
    ) as events:
        for _ in events:
            pass
        second = events.get_final_response()
    assert second.previous_response_id == first.id
    assert client.responses.retrieve(second.id).output_text == second.output_text


def test_feedback_reaches_the_turn_in_the_experience(client: Any, deployed: Deployed) -> None:
    turn = client.responses.create(model="macaron", input="Make a card.")
    body = {"id": turn.id, "rating": -1, "correction": "A better card."}
    found = client.post("/feedback", body=body, cast_to=httpx.Response)
    assert found.status_code == 200
    row = rows(deployed, turn.id)[turn.id]
    assert (row.feedback.rating, row.feedback.correction) == (-1, "A better card.")


def test_a_promotion_reaches_new_sessions_and_a_rollback_too(
    client: Any, server: Server, deployed: Deployed
) -> None:
    def pair_of(previous: str | None = None) -> tuple[str, str]:
        more = {"previous_response_id": previous} if previous else {}
        raw = client.responses.with_raw_response.create(model="macaron", input="Hi", **more)
        return raw.headers["x-macaron-pair"], raw.parse().id

    def until(pair: str) -> bool:
        for _ in range(100):
            if httpx.get(f"{server.url}/health").json()["pair"] == pair:
                return True
            time.sleep(0.2)
        return False

    old, new = (pair.id for pair in deployed.pairs)
    before, session = pair_of()
    assert before == old
    assert deployed.promote(1) == new and until(new)
    assert pair_of()[0] == new and pair_of(session)[0] == old
    back = macaron(deployed.settings.root, "rollback")
    assert back.returncode == 0 and until(old), back.stderr
    assert pair_of()[0] == old
    assert "macaron_service_swaps 2.0" in httpx.get(f"{server.url}/metrics").text


def test_a_killed_server_goes_on_with_every_session(
    client: Any, server: Server, deployed: Deployed
) -> None:
    first = client.responses.create(model="macaron", input="One, before the kill.")
    server.kill()
    server.start()
    second = client.responses.create(
        model="macaron", input="Two, after it.", previous_response_id=first.id
    )
    found = rows(deployed, first.id, second.id)
    row = found[second.id]
    texts = [m["content"] for m in row.messages]
    assert texts == [
        "One, before the kill.",
        first.output_text,
        "Two, after it.",
        row.messages[-1]["content"],
    ]
    assert first.id in found


def test_faults_are_told_in_openais_form_and_the_log_has_no_texts(
    client: Any, server: Server, deployed: Deployed
) -> None:
    from openai import BadRequestError, NotFoundError

    with pytest.raises(NotFoundError):
        client.responses.create(model="macaron", input="Hi", previous_response_id="resp_no")
    with pytest.raises(BadRequestError) as found:
        client.responses.create(model="macaron", input="word " * 5000)
    assert found.value.code == "context_length_exceeded"
    client.responses.create(model="macaron", input="A secret of mine: Qwortzel.")
    log = (deployed.settings.root / "server.log").read_text()
    assert "Qwortzel" not in log and "Traceback" not in log
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert any(line.get("end") == "delivered" for line in lines)


def test_a_users_data_is_forgotten_by_name(client: Any, deployed: Deployed) -> None:
    hers = client.responses.create(model="macaron", input="Mine.", user="ada@example.org")
    other = client.responses.create(model="macaron", input="Theirs.", user="bob")
    assert rows(deployed, hers.id, other.id).keys() >= {hers.id, other.id}
    state = deployed.settings.state
    kept = b"".join(p.read_bytes() for p in state.rglob("*") if p.is_file() and p.stat().st_size)
    assert b"ada@example.org" not in kept
    done = macaron(deployed.settings.root, "experience", "forget", "--user", "ada@example.org")
    assert done.returncode == 0, done.stderr
    left = rows(deployed)
    assert hers.id not in left and other.id in left
    with pytest.raises(Exception, match="404"):
        client.responses.retrieve(hers.id)


def test_a_second_server_and_a_taken_port_are_said_in_a_line(
    server: Server, deployed: Deployed, tmp_path: Path
) -> None:
    root = deployed.settings.root
    again = macaron(root, "serve", "--port", "0")
    assert again.returncode == 8 and "another server uses this timeline" in again.stderr
    other = {"MACARON_SERVE__TIMELINE": f"sqlite:///{tmp_path / 'other.db'}"}
    taken = macaron(root, "serve", "--port", str(server.port), **other)
    assert taken.returncode == 2 and "cannot listen" in taken.stderr
    assert "Traceback" not in again.stderr + taken.stderr


def test_asked_to_stop_it_ends_cleanly(server: Server) -> None:
    assert server.stop() in (0, -15)
    assert "Traceback" not in server.tail()
