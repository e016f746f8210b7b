"""Chat files: good lines become rows, bad ones go to quarantine with the reason."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from macaron.errors import ExperienceError
from macaron.experience.chat import BadLineError, parse_line
from macaron.experience.importer import LONGEST_LINE, ImportReport, import_file
from macaron.experience.schema import Trajectory
from macaron.experience.store import ExperienceStore
from macaron.experience.table import from_table, to_table

NOW = datetime(2026, 11, 30, 8, tzinfo=UTC)
USER = {"role": "user", "content": "How many?"}
ANSWER = {"role": "assistant", "content": "three"}
CALL = {"id": "c1", "type": "function", "function": {"name": "count", "arguments": "{}"}}


@pytest.fixture
def store(tmp_path) -> ExperienceStore:
    return ExperienceStore(tmp_path / "experience")


def line(*messages: Any, **fields: Any) -> str:
    return json.dumps({"messages": list(messages) or [USER, ANSWER], **fields})


def load(tmp_path: Path, store: ExperienceStore, *lines: str | bytes) -> ImportReport:
    path = tmp_path / "chats.jsonl"
    path.write_bytes(b"".join((t.encode() if isinstance(t, str) else t) + b"\n" for t in lines))
    return import_file(path, store, tmp_path / "bad.jsonl", imported_at=NOW)


def one(text: str) -> Trajectory:
    return parse_line(text.encode(), NOW)


def test_a_full_line_becomes_a_row(tmp_path, store) -> None:
    task = {"environment": "agent", "data": {"n": 1}}
    metadata = {
        "task": json.dumps(task),
        "environment": "agent",
        "kind": "two-filters",
        "pair": "b" * 16,
        "hcp": "a" * 64,
        "created_at": "2026-11-01T10:00:00Z",
        "id": "turn-1",
        "session": "s9",
        "seed": 3,
        "model": "m",
    }
    messages = (
        {"role": "developer", "content": [{"type": "text", "text": "Be "}, {"text": "brief."}]},
        USER,
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "3", "tool_call_id": "c1"},
        ANSWER,
    )
    fields = {"rating": "down", "correction": "four", "outcome": "failure", "specialist": "agent"}
    report = load(tmp_path, store, line(*messages, tools=[{}], metadata=metadata, **fields))
    assert (report.lines, report.rows, report.quarantined, report.quarantine) == (1, 1, 0, None)
    assert report.by_specialist == {"L1": 1}
    (row,) = from_table(store.read())
    assert (row.id, row.session, row.source, row.seed) == ("turn-1", "s9", "import", 3)
    assert row.created_at == "2026-11-01T10:00:00+00:00"
    assert (row.environment, row.kind, row.pair, row.hcp) == (
        "agent",
        "two-filters",
        "b" * 16,
        "a" * 64,
    )
    assert row.specialist == "L1" and json.loads(row.task or "") == task
    said = row.feedback
    assert (said.rating, said.correction, said.outcome) == (-1, "four", "failure")
    assert said.at == NOW.isoformat()
    assert row.messages[0] == {"role": "system", "content": "Be brief."}
    assert row.messages[2] == {"role": "assistant", "content": "", "tool_calls": [CALL]}
    assert row.messages[3]["tool_call_id"] == "c1"
    assert not row.token_ids and row.reward is None


def test_defaults() -> None:
    row = one(line())
    assert row.specialist == "L0" and row.created_at == NOW.isoformat()
    assert row.id.startswith("import-") and row.session == row.id
    assert not row.feedback.given and row.feedback.at is None


@pytest.mark.parametrize(
    ("given_", "rating"), [("up", 1), ("down", -1), (1, 1), (0, 0), (-1, -1), (None, None)]
)
def test_ratings(given_, rating) -> None:
    assert one(line(rating=given_)).feedback.rating == rating


@pytest.mark.parametrize(
    ("given_", "moment"),
    [
        (1764547200, "2025-12-01T00:00:00+00:00"),
        ("2026-11-01", "2026-11-01T00:00:00+00:00"),
        ("2026-11-01T02:00:00+02:00", "2026-11-01T00:00:00+00:00"),
    ],
)
def test_times(given_, moment) -> None:
    assert one(line(created_at=given_)).created_at == moment


BAD = [
    ("{", "not JSON"),
    ("{'messages': []}", "not JSON"),
    ('{"messages": NaN}', "not JSON"),
    ('{"seed": 1e999}', "not JSON"),
    ("9" * 5000, "not JSON"),
    ("[1]", "not an object"),
    ("null", "not an object"),
    ("{}", "no messages"),
    ('{"messages": []}', "no messages"),
    ('{"messages": "hi"}', "no messages"),
    ('{"messages": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
    (line("hi"), "message: not an object"),
    (line({"role": "wizard", "content": "x"}), "unknown role"),
    (line({"role": ["user"], "content": "x"}), "unknown role"),
    (line(USER), "the last message is not the assistant's"),
    (line(ANSWER), "no message from the user"),
    (line(USER, {"role": "assistant", "content": " \n"}), "empty content"),
    (line(USER, {"role": "assistant"}), "empty content"),
    (line({"role": "user", "content": ""}, ANSWER), "empty content"),
    (line({"role": "user", "content": 3}, ANSWER), "content: not a string"),
    (
        line({"role": "user", "content": [{"type": "image_url"}]}, ANSWER),
        "content: a part is not text",
    ),
    (line({"role": "user", "content": "a\0b"}, ANSWER), "NUL character"),
    (line({"role": "user", "content": "\ud800"}, ANSWER), "not Unicode text"),
    (
        line(USER, {"role": "tool", "content": "3", "tool_call_id": "c1"}, ANSWER),
        "tool message without a call before it",
    ),
    (
        line(USER, {**ANSWER, "tool_calls": [CALL]}, {"role": "tool", "content": "3"}, ANSWER),
        "tool message without a call before it",
    ),
    (line({**USER, "tool_calls": [CALL]}, ANSWER), "tool_calls: not a list of the assistant's"),
    (line(USER, {**ANSWER, "tool_calls": "c1"}), "tool_calls: not a list of the assistant's"),
    (line(USER, {**ANSWER, "tool_calls": [3]}), "tool_calls: a call has no function"),
    (
        line(
            USER, {**ANSWER, "tool_calls": [{**CALL, "function": {"name": "f", "arguments": {}}}]}
        ),
        "tool_calls: arguments is not a string",
    ),
    (line(USER, {**ANSWER, "tool_call_id": 3}), "tool_call_id: not a string"),
    (line(tools="count"), "tools: not a list of objects"),
    (line(rating=2), "rating: not -1, 0, 1, up or down"),
    (line(rating="great"), "rating: not -1, 0, 1, up or down"),
    (line(rating=True), "rating: not -1, 0, 1, up or down"),
    (line(rating=[1]), "rating: not -1, 0, 1, up or down"),
    (line(correction=4), "correction: not a string"),
    (line(correction=" "), "correction: empty"),
    (line(outcome="maybe"), "outcome: not one of success, failure"),
    (line(specialist="L9"), "unknown specialist"),
    (line(specialist=1), "specialist: not a string"),
    (line(metadata=[]), "metadata: not an object"),
    (line(task="[1]"), "task: not a JSON object"),
    (line(task="{"), "task: not a JSON object"),
    (line(seed="1"), "seed: not a whole number of 64 bits"),
    (line(seed=2**63), "seed: not a whole number of 64 bits"),
    (line(created_at="yesterday"), "created_at: not a time"),
    (line(created_at=1e300), "created_at: not a time"),
    (line(created_at=True), "created_at: not a time"),
    (line(id="x" * 300), "id: too long"),
    (b'{"messages": "\0"}', "NUL byte"),
    (b'{"messages": "\xff"}', "not UTF-8"),
    ('{"messages": "' + "x" * LONGEST_LINE + '"}', "line too long"),
]


@pytest.fixture(scope="module")
def imported(tmp_path_factory) -> tuple[ImportReport, list[Any], ExperienceStore]:
    """Every bad line, with a good one after each."""
    folder = tmp_path_factory.mktemp("import")
    store = ExperienceStore(folder / "experience")
    good = [line(id=f"good-{i}") for i in range(len(BAD))]
    report = load(
        folder, store, *(part for bad, ok in zip(BAD, good, strict=True) for part in (bad[0], ok))
    )
    return report, [json.loads(t) for t in (folder / "bad.jsonl").open()], store


@pytest.mark.parametrize("number", range(len(BAD)), ids=[f"{i}-{b[1]}" for i, b in enumerate(BAD)])
def test_a_bad_line_is_quarantined_with_number_reason_and_text(imported, number) -> None:
    text, reason = BAD[number]
    entry = imported[1][number]
    assert entry["line"] == 2 * number + 1
    assert entry["reason"] == reason or entry["reason"].startswith(f"{reason}: ")
    raw = text if isinstance(text, str) else text.decode(errors="backslashreplace")
    assert entry["raw"] == (raw[:1024] if reason == "line too long" else raw)


def test_the_lines_around_bad_ones_are_imported(imported) -> None:
    report, entries, store = imported
    assert report.rows == report.quarantined == len(BAD) == len(entries)
    assert sum(report.reasons.values()) == len(BAD) and report.reasons["not JSON"] == 5
    assert {row.id for row in from_table(store.read())} == {f"good-{i}" for i in range(len(BAD))}


def test_a_malformed_tool_call_of_the_model_is_data(tmp_path, store) -> None:
    broken = {**CALL, "function": {"name": "count", "arguments": "{not json"}}
    assert load(tmp_path, store, line(USER, {**ANSWER, "tool_calls": [broken]})).rows == 1
    (row,) = from_table(store.read())
    assert row.messages[-1]["tool_calls"] == [broken]


def test_the_quarantine_holds_no_secrets(tmp_path, store) -> None:
    load(tmp_path, store, line({"role": "user", "content": "I am joe@example.org"}))
    assert "joe@" not in (tmp_path / "bad.jsonl").read_text()


def test_bom_crlf_blank_lines_and_a_missing_last_newline(tmp_path, store) -> None:
    path = tmp_path / "chats.jsonl"
    text = f"\ufeff{line(id='a')}\r\n\r\n  \n{line(id='b')}\r\nbroken\r\n{line(id='c')}"
    path.write_bytes(text.encode())
    report = import_file(path, store, tmp_path / "bad.jsonl")
    assert (report.lines, report.rows, report.quarantined) == (4, 3, 1)
    (entry,) = [json.loads(t) for t in (tmp_path / "bad.jsonl").open()]
    assert (entry["line"], entry["raw"]) == (5, "broken")


def test_importing_again_adds_nothing(tmp_path, store) -> None:
    lines = [
        line(),
        line(rating=1, id="x"),
        "broken",
        line(correction="I am joe@example.org", id="y"),
    ]
    first = load(tmp_path, store, *lines)
    files = sorted(store.folder.rglob("*.parquet"))
    path = tmp_path / "chats.jsonl"
    later = datetime(2026, 12, 24, tzinfo=UTC)
    second = import_file(path, store, tmp_path / "bad.jsonl", imported_at=later)
    assert (first.rows, first.redacted) == (3, {"EMAIL": 1})
    assert (second.rows, second.updated, second.duplicates, second.redacted) == (0, 0, 3, {})
    assert second.quarantined == 1
    assert sorted(store.folder.rglob("*.parquet")) == files


def test_a_duplicated_line_counts_once(tmp_path, store) -> None:
    report = load(tmp_path, store, line(), line(), line(id="a"), line(id="a"))
    assert (report.rows, report.duplicates, report.quarantined) == (2, 2, 0)
    assert store.read().num_rows == 2


def test_new_feedback_on_a_known_conversation_updates_it(tmp_path, store) -> None:
    assert load(tmp_path, store, line(rating=1), line(rating=1, outcome="success")).updated == 1
    report = import_file_again(tmp_path, store, line(rating=-1))
    assert (report.rows, report.updated) == (0, 1)
    (row,) = from_table(store.read())
    assert (row.feedback.rating, row.feedback.outcome) == (-1, "success")


def import_file_again(tmp_path: Path, store: ExperienceStore, text: str) -> ImportReport:
    (tmp_path / "again.jsonl").write_text(text)
    return import_file(tmp_path / "again.jsonl", store, tmp_path / "bad2.jsonl")


def test_an_id_used_by_another_conversation_is_bad(tmp_path, store) -> None:
    other = line(USER, {"role": "assistant", "content": "nine"}, id="a")
    report = load(tmp_path, store, line(id="a"), other)
    assert report.reasons == {"id: used by another conversation": 1}
    assert import_file_again(tmp_path, store, other).quarantined == 1


def test_a_stale_quarantine_is_removed(tmp_path, store) -> None:
    load(tmp_path, store, "broken")
    assert (tmp_path / "bad.jsonl").exists()
    load(tmp_path, store, line())
    assert not (tmp_path / "bad.jsonl").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "no such file"), (b"", "is empty"), (b"\xef\xbb\xbf \r\n\n", "is empty")],
)
def test_a_file_that_is_none_is_one_clear_error(tmp_path, store, content, said) -> None:
    path = tmp_path / "chats.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ExperienceError, match=said) as caught:
        import_file(path, store, tmp_path / "bad.jsonl")
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "bad.jsonl").exists()


def test_a_folder_or_an_unreadable_file_is_one_clear_error(tmp_path, store, monkeypatch) -> None:
    with pytest.raises(ExperienceError, match="is a folder"):
        import_file(tmp_path, store, tmp_path / "bad.jsonl")
    loop = tmp_path / "loop.jsonl"
    loop.symlink_to(loop)
    with pytest.raises(ExperienceError, match="cannot be read"):
        import_file(loop, store, tmp_path / "bad.jsonl")


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "tool_calls", "tool_call_id", "function", "id", "text"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
_turns = st.lists(
    st.sampled_from([USER, ANSWER, {**ANSWER, "tool_calls": [CALL]}]) | _json, max_size=4
)
_FIELDS = "rating correction outcome specialist metadata tools id session created_at task seed"
_fields = st.dictionaries(st.sampled_from(_FIELDS.split(" ")), _json, max_size=3)
_line = st.binary(max_size=30) | st.tuples(_turns | _json, _fields).map(
    lambda pair: json.dumps({"messages": pair[0], **pair[1]}).encode()
)


@settings(max_examples=250, deadline=None)
@given(_line)
def test_any_line_is_a_row_that_fits_or_a_reason(raw) -> None:
    try:
        row = parse_line(raw, NOW)
    except BadLineError as error:
        assert error.reason
    else:
        assert from_table(to_table([row])) == [row]


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(_line.filter(lambda raw: b"\n" not in raw and raw.strip()), min_size=1, max_size=6))
def test_every_line_is_accounted_for(tmp_path_factory, lines) -> None:
    folder = tmp_path_factory.mktemp("any")
    store = ExperienceStore(folder / "experience")
    report = load(folder, store, line(id="good"), *lines)
    counted = report.rows + report.updated + report.duplicates + report.quarantined
    blank = sum(not raw.strip(b"\r\n\t ") for raw in lines)
    assert counted == report.lines == 1 + len(lines) - blank
    assert store.read().num_rows == report.rows
