"""No secret and no personal data is stored."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from macaron.experience.log import TurnLog
from macaron.experience.redaction import redact, redact_text
from macaron.experience.schema import Feedback
from macaron.experience.store import ExperienceStore
from macaron.experience.table import from_table
from tests.experience.rows import chat, rollout, turn

# Made up, or from the vendors' own documentation; put together here so that no scanner stumbles.
SENSITIVE = [
    ("AKIA" + "IOSFODNN7EXAMPLE", "[API_KEY]"),
    ("ghp_" + "a1B2" * 9, "[API_KEY]"),
    ("sk-" + "proj-abcDEF123456_789-abcDEF", "[API_KEY]"),
    ("AIza" + "SyA-1234567890abcdefghijklmnopqrstu", "[API_KEY]"),
    ("xoxb-" + "1234567890-abcdef", "[API_KEY]"),
    ("hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH", "[API_KEY]"),
    ("sk_" + "live_abcdefghijklmnop1234", "[API_KEY]"),
    ("Authorization: Bearer abcDEF123456789012345", "Authorization: Bearer [AUTHORIZATION]"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5", "[JWT]"),
    (
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
        "[PRIVATE_KEY]",
    ),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk", "[PRIVATE_KEY]"),
    ("postgres://joe:s3cr@t@db.example/x", "postgres://[URL_PASSWORD]@db.example/x"),
    ("https://x.example/?token=abcdef123456&p=1", "https://x.example/?token=[URL_TOKEN]&p=1"),
    ('password = "hunter22x"', 'password = "[SECRET]"'),
    ("OPENAI_API_KEY=abcdefgh12345", "OPENAI_API_KEY=[SECRET]"),
    ("joe.doe+x@mail.example.co.uk", "[EMAIL]"),
    ("jörg@exämple.de", "[EMAIL]"),
    ("4111 1111 1111 1111", "[CARD]"),
    ("4111-1111-1111-1111", "[CARD]"),
    ("378282246310005", "[CARD]"),
    ("DE89 3704 0044 0532 0130 00", "[IBAN]"),
    ("GB82WEST12345698765432", "[IBAN]"),
    ("+1 (415) 555-2671", "[PHONE]"),
    ("+49 30 901820", "[PHONE]"),
    ("+442071838750", "[PHONE]"),
    ("(415) 555-2671", "[PHONE]"),
    ("01 23 45 67 89", "[PHONE]"),
    ("phone: 0301234567", "phone: [PHONE]"),
    ("192.168.1.20", "[IP_ADDRESS]"),
    ("2001:db8::8a2e:370:7334", "[IP_ADDRESS]"),
]
HARMLESS = [
    "2026-11-30 12:00:00",
    "x[1::2] and a::b, std::vector<int>",
    "127.0.0.1 and 0.0.0.0",
    "1234567890123456",
    "4111111111111112",
    "DE89370400440532013001",
    "123e4567-e89b-12d3-a456-426614174000",
    "def f(x): return x + 12345678",
    "x+12345678901",
    "bearer responsibilities",
    "3.14159265358979",
    "e8cb7b61f0a36841" * 4,
    "token = get_token(x)",
    "password: str",
    "@app.route('/x')\ndef index(): ...",
    "sum of 100 200 3000 and 1 2 3 4 5 6 7 8 9",
    "12:30:45",
    "https://example.org:8080/a?page=3",
    "version 1.2.3",
]


@pytest.mark.parametrize(("text", "clean"), SENSITIVE)
@pytest.mark.parametrize("around", ["{}", "my {}.", "a\n{}\nb", "({})"])
def test_sensitive_text_becomes_a_placeholder(text, clean, around) -> None:
    if text.startswith("-----BEGIN OPENSSH"):
        around = "{}"
    found, counts = redact_text(around.format(text))
    # An unquoted secret may take a full stop or a bracket along.
    assert clean in found and len(found) <= len(around.format(clean))
    assert counts.total() == 1


@pytest.mark.parametrize("text", HARMLESS)
def test_other_text_is_left_alone(text) -> None:
    assert redact_text(text) == (text, {})


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from([t for t, _ in SENSITIVE] + HARMLESS)
        | st.text("a1.@:/+-= \"'[]", max_size=5),
        max_size=6,
    ).map("".join)
)
def test_redacting_twice_is_redacting_once(text) -> None:
    clean, _ = redact_text(text)
    assert redact_text(clean) == (clean, {})


def test_no_text_takes_more_than_linear_time() -> None:
    # Each would hang for hours under a pattern that backtracks.
    for piece in (
        "a.",
        "1 ",
        "a:",
        "://a:",
        "a@",
        "a@b.",
        "-----BEGIN PRIVATE KEY-----",
        "+1 ",
        "eyJ",
    ):
        redact_text(piece * 20000)


def _call(arguments: str):
    function = {"name": "send", "arguments": arguments}
    return [{"id": "c1", "type": "function", "function": function}]


def test_every_text_field_is_redacted() -> None:
    mail = "joe@example.org"
    arguments = json.dumps({"to": f"\n{mail}", "card": 4111111111111111, mail: [1]})
    row = turn(
        session=mail,
        messages=(
            {"role": "user", "content": f"I am {mail}"},
            {"role": "assistant", "content": "", "tool_calls": _call(arguments)},
            {"role": "tool", "content": f"sent to {mail}", "tool_call_id": "c1"},
            {"role": "assistant", "content": f"sent to {mail}"},
        ),
        task=json.dumps({"data": {"mail": mail}}),
        environment=mail,
        kind=mail,
        feedback=Feedback(correction=f"no, to {mail}", outcome=mail),
    )
    done = redact([row])
    text = json.dumps(done.rows[0].to_json())
    assert mail not in text and "4111111111111111" not in text
    assert done.found == {"CARD": 1, "EMAIL": 11} and done.changed == 1
    assert json.loads(done.rows[0].messages[1]["tool_calls"][0]["function"]["arguments"]) == {
        "to": "\n[EMAIL]",
        "card": "[CARD]",
        "[EMAIL]": [1],
    }


def test_changed_messages_lose_their_tokens_and_it_is_said() -> None:
    plain, mail = turn("a"), turn("b", messages=chat("I am joe@example.org"))
    done = redact([plain, mail])
    assert done.rows[0] is plain
    assert (done.rows[1].token_ids, done.rows[1].loss_mask, done.rows[1].logprobs) == ((), (), ())
    assert (done.changed, done.untokened) == (1, 1)


def test_a_change_elsewhere_keeps_the_tokens() -> None:
    row = turn(feedback=Feedback(correction="write to joe@example.org"))
    done = redact([row])
    assert done.rows[0].token_ids == row.token_ids
    assert done.rows[0].feedback.correction == "write to [EMAIL]"
    assert (done.changed, done.untokened) == (1, 0)


def test_rollouts_are_our_own_text() -> None:
    row = rollout(messages=chat("Mail joe@example.org"))
    assert redact([row]).rows == (row,)


def test_tool_arguments_that_are_no_json_are_redacted_as_text() -> None:
    message = {"role": "assistant", "content": "", "tool_calls": _call("to=joe@example.org")}
    (row,) = redact([turn(messages=(*chat()[:1], message))]).rows
    assert row.messages[1]["tool_calls"][0]["function"]["arguments"] == "to=[EMAIL]"


def test_nothing_sensitive_reaches_a_disk(tmp_path) -> None:
    row = turn(messages=chat("I am joe@example.org"))
    log, store = TurnLog(tmp_path / "turns"), ExperienceStore(tmp_path / "experience")
    log.append(row)
    log.append_feedback(row.id, Feedback(correction="call +49 30 901820"))
    written = b"".join(p.read_bytes() for p in log.folder.iterdir())
    assert b"joe@" not in written and b"901820" not in written
    report = log.compact(store)
    assert (report.redacted, report.untokened) == ({"EMAIL": 1, "PHONE": 1}, 1)
    store.append([replace(row, id="direct")])
    assert {r.messages[0]["content"] for r in from_table(store.read())} == {"I am [EMAIL]"}
