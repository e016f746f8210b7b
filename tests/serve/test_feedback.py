"""Feedback on a turn."""

from typing import Any

import httpx
import openai
import pytest

from tests.serve.conftest import Running


def make(server: Running, n: int = 1) -> str:
    made = server.client().chat.completions.create(
        model="macaron", messages=[{"role": "user", "content": "hi"}], n=n
    )
    server.until(lambda: server.service.ends())
    return made.id


def say(server: Running, **body: Any) -> Any:
    return server.client().post("/feedback", body=body, cast_to=object)


def test_what_is_said_is_kept(server: Running) -> None:
    turn = make(server, n=2)
    kept = say(server, id=turn, rating=-1, correction="better", outcome="failure")
    assert kept == {"id": turn, "object": "feedback"}
    say(server, id=turn, choice=1, rating=1)
    (first, key, one), (second, _, two) = server.service.feedbacks
    assert (first, second, key) == (turn, f"{turn}-1", "local")
    assert (one.rating, one.correction, one.outcome) == (-1, "better", "failure")
    assert (two.rating, two.correction, two.outcome) == (1, None, None)
    assert one.at is not None and two.at is not None and one.at < two.at
    text = server.metrics.text().decode()
    assert 'macaron_feedback_total{kind="rating"} 2.0' in text
    assert 'macaron_feedback_total{kind="correction"} 1.0' in text


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "rating"),
        ({"rating": 2}, "rating"),
        ({"rating": 0.5}, "rating"),
        ({"rating": True}, "rating"),
        ({"outcome": "good"}, "outcome"),
        ({"correction": ""}, "correction"),
        ({"rating": 1, "choice": -1}, "choice"),
        ({"rating": 1, "comment": "x"}, "comment"),
    ],
)
def test_what_says_nothing_is_refused(server: Running, body: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        say(server, id=make(server), **body)
    assert caught.value.param == param and server.service.feedbacks == []


@pytest.mark.parametrize("turn", ["resp_nothing", "../x", "a b", "x" * 128])
def test_a_turn_that_there_is_not(server: Running, turn: str) -> None:
    with pytest.raises(openai.NotFoundError):
        say(server, id=turn, rating=1)
    assert httpx.get(f"{server.url}/v1/feedback").status_code == 405
