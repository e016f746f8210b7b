"""Contract v1's rules, by example and by property."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from macaron.contract.document import load_contract
from macaron.contract.verdict import SuiteOutcomes, Verdict, judge
from macaron.errors import ConfigError, DigestError
from tests.contract.outcomes import contract, outcomes, swapped

SAME = outcomes(50, 0, 0, 50)
GAIN = outcomes(50, 30, 0, 20)


@st.composite
def suites(draw: st.DrawFn) -> SuiteOutcomes:
    """100 items with any counts, up to 10 of them invalid."""
    cuts = sorted(draw(st.lists(st.integers(0, 100), min_size=4, max_size=4)))
    both, gains, losses = cuts[0], cuts[1] - cuts[0], cuts[2] - cuts[1]
    invalid = min(10, 100 - cuts[3])
    return outcomes(both, gains, losses, 100 - both - gains - losses - invalid, invalid)


def test_a_gain_promotes() -> None:
    verdict = judge(contract(), {"chat": GAIN, "routing": SAME}, champion="a", challenger="b")
    assert verdict.promoted and verdict.reasons == (verdict.rows[0].text,)
    chat, routing = verdict.rows
    assert (chat.champion, chat.challenger, chat.difference) == (0.5, 0.8, 0.3)
    assert chat.low is not None and chat.high is not None and chat.bound is not None
    assert 0 < chat.low < chat.bound < 0.3 < chat.high
    assert chat.gate == routing.gate == "pass" and routing.p_holm is None
    assert "gain" in chat.text and "+30.0 points" in chat.text


@pytest.mark.parametrize("role", ["guard", "improve"])
def test_a_regression_anywhere_blocks(role: str) -> None:
    roles = {"chat": "improve", "other": role}
    worse = outcomes(50, 0, 10, 40)
    verdict = judge(contract(100, **roles), {"chat": GAIN, "other": worse})  # type: ignore[arg-type]
    assert verdict.decision == "rejected" and len(verdict.reasons) == 1
    assert verdict.reasons[0].startswith("other: -10.0 points, could be worse by")


def test_a_gain_below_the_least_that_counts_is_rejected() -> None:
    # 2.5 points, significant: 10 gains against 0 losses of 400.
    verdict = judge(contract(400, chat="improve"), {"chat": outcomes(200, 10, 0, 190)})
    assert verdict.rows[0].p < 0.05 and not verdict.promoted
    assert "below the least gain that counts (3.0)" in verdict.reasons[0]


def test_the_least_gain_itself_counts() -> None:
    verdict = judge(contract(400, chat="improve"), {"chat": outcomes(200, 12, 0, 188)})
    assert verdict.rows[0].difference == 0.03 and verdict.promoted


def test_an_insignificant_gain_is_rejected() -> None:
    verdict = judge(contract(), {"chat": outcomes(40, 20, 14, 26), "routing": SAME})
    assert verdict.decision == "rejected"
    assert "no improve suite gained at least 3.0 points significantly" in verdict.reasons[0]
    assert "nearest was chat: +6.0 points" in verdict.reasons[0]


def test_holm_makes_one_of_four_prove_more() -> None:
    # p = 0.0352 alone: enough in a family of one, not in a family of four.
    lucky = outcomes(50, 7, 1, 42)
    one = judge(contract(chat="improve"), {"chat": lucky})
    four = judge(
        contract(chat="improve", agent="improve", coding="improve", genui="improve"),
        {"chat": lucky, "agent": SAME, "coding": SAME, "genui": SAME},
    )
    assert one.promoted and not four.promoted
    assert four.rows[0].p_holm == pytest.approx(4 * one.rows[0].p)


def test_verifier_faults_are_dropped_in_pairs_and_counted() -> None:
    """A crashed verifier is neither 0 nor 1."""
    five = judge(contract(), {"chat": outcomes(48, 28, 0, 19, invalid=5), "routing": SAME})
    assert five.promoted
    assert (five.rows[0].n, five.rows[0].invalid) == (95, 5)
    assert five.rows[0].champion == 48 / 95
    six = judge(contract(), {"chat": outcomes(47, 28, 0, 19, invalid=6), "routing": SAME})
    assert not six.promoted and not six.rows[0].measured
    assert six.reasons[0] == (
        "chat: unmeasured, 6 of 100 items had no valid score (at most 5% may)"
    )


def test_nothing_measured_is_rejected_without_numbers() -> None:
    verdict = judge(contract(), {"chat": outcomes(0, 0, 0, 0, invalid=100), "routing": SAME})
    row = verdict.rows[0]
    assert not verdict.promoted and row.champion is row.difference is row.low is None
    json.dumps(verdict.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        ({"chat": GAIN}, "differ in suites: \\['routing'\\]"),
        ({"chat": GAIN, "routing": SAME, "poem": SAME}, "\\['poem'\\]"),
        ({"chat": outcomes(5, 5, 0, 0), "routing": SAME}, "suite chat: measured on 10 items"),
        (
            {"chat": SuiteOutcomes([("a", True)] * 100, GAIN.challenger), "routing": SAME},
            "measured twice",
        ),
        (
            {
                "chat": SuiteOutcomes([(f"x{i}", True) for i in range(100)], GAIN.challenger),
                "routing": SAME,
            },
            "different items",
        ),
    ],
)
def test_wrong_measurements_are_refused(measured: dict[str, SuiteOutcomes], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        judge(contract(), measured)


def test_order_of_items_does_not_matter() -> None:
    turned = SuiteOutcomes(GAIN.champion, list(reversed(GAIN.challenger)))
    first = judge(contract(), {"chat": GAIN, "routing": SAME})
    assert judge(contract(), {"routing": SAME, "chat": turned}) == first


def test_the_items_digest_names_the_items() -> None:
    other = SuiteOutcomes(
        [(f"other-{i}", p) for i, (_, p) in enumerate(GAIN.champion)],
        [(f"other-{i}", p) for i, (_, p) in enumerate(GAIN.challenger)],
    )
    first = judge(contract(), {"chat": GAIN, "routing": SAME})
    assert judge(contract(), {"chat": other, "routing": SAME}).items_digest != first.items_digest


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 100), st.integers(0, 5))
def test_identical_sides_are_never_promoted(passed: int, invalid: int) -> None:
    passed = min(passed, 100 - invalid)
    same = outcomes(passed, 0, 0, 100 - passed - invalid, invalid)
    assert not judge(contract(), {"chat": same, "routing": same}).promoted


@settings(max_examples=40, deadline=None)
@given(suites(), suites())
def test_verdicts_are_finite_consistent_and_survive_json(
    chat: SuiteOutcomes, routing: SuiteOutcomes
) -> None:
    measured = {"chat": chat, "routing": routing}
    verdict, back = judge(contract(), measured), judge(contract(), swapped(measured))
    text = json.dumps(verdict.to_json(), allow_nan=False)
    assert Verdict.from_json(json.loads(text), "x") == verdict
    assert not (verdict.promoted and back.promoted)
    assert verdict.promoted == (
        verdict.rows[0].improved and all(row.gate == "pass" for row in verdict.rows)
    )
    for row, mirror in zip(verdict.rows, back.rows, strict=True):
        assert (row.gains, row.losses) == (mirror.losses, mirror.gains)
        if row.difference is not None and row.low is not None:
            assert mirror.difference == -row.difference
            assert mirror.high == pytest.approx(-row.low, abs=1e-9)


def test_a_file_that_is_no_verdict_is_named() -> None:
    value = judge(contract(), {"chat": GAIN, "routing": SAME}).to_json()
    for broken in ({**value, "schema": 2}, {**value, "extra": 1}, {"schema": 1}):
        with pytest.raises(DigestError, match="some/file: not a verdict"):
            Verdict.from_json(broken, "some/file")


def test_the_shipped_contract_judges() -> None:
    shipped = load_contract(Path(__file__).parents[2] / "contracts" / "v1.toml")
    measured = {
        s.name: outcomes(s.items // 2, s.items // 4, 5, s.items // 4 - 5)
        if s.role == "improve"
        else outcomes(s.items // 2, 5, 5, s.items // 2 - 10)
        for s in shipped.suites
    }
    verdict = judge(shipped, measured)
    assert verdict.promoted and verdict.contract_digest == shipped.digest
    assert [row.suite for row in verdict.rows] == [s.name for s in shipped.suites]
