"""From a saved function to a tool of later sessions, and back: in the real sandbox."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from macaron.harness.namespace import Namespace
from macaron.harness.pool.bench import MAX_SAVED, Workbench
from macaron.harness.pool.calling import functions, namespace_code
from macaron.harness.pool.carry import carry
from macaron.harness.pool.judge import (
    Uses,
    absorb,
    demote_by_hand,
    promote,
    record_uses,
    retry,
    settle,
)  # fmt: skip
from macaron.harness.pool.live import LivePool, Snapshot
from macaron.harness.pool.references import Purpose, Reference, Solved, same
from macaron.harness.pool.trials import Report, TrialsInvalid, amount
from macaron.harness.sandbox import Limits, Sandbox
from macaron.harness.tools import ToolBox, ToolFault
from macaron.hcp.document import load_hcp
from macaron.hcp.schema import PoolConfig
from macaron.hcp.scope import touched
from macaron.pool.packed import load_packed
from tests.harness.pools import (
    INSIDE,
    LONGEST,
    PURPOSES,
    REFERENCES,
    TASKS,
    TOTAL,
    WRONG,
    Rules,
    examiner,
    live,
    schema,
    session,
    tool,
)  # fmt: skip

RULES = Rules()
LINES = {"lines": [[2, 3], [4, 5]]}
# Right for all that the references ask, as long as they don't change.
FRAGILE = (
    "def order_total(lines):\n    if len(lines) > 5: raise ValueError('too many')\n"
    "    return sum(a * b for a, b in lines)\n"
)


SLOW = "def order_total(lines):\n    while True: pass\n"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(Limits(wall_s=20.0)) as made:
        yield made


@pytest.fixture
def pool(tmp_path: Path) -> LivePool:
    return live(tmp_path)


def bench(pool: LivePool, sandbox: Sandbox, name: str = "s1", **more: Any) -> ToolBox:
    """A session's two tools, called as a model calls them."""
    made = Workbench(pool, examiner(sandbox), RULES, session(name), **more)
    return ToolBox(made.tools())


def save(box: ToolBox, source: str, **more: str) -> str:
    return box.call("save_tool", json.dumps({"source": source, **more}))


def saved(pool: LivePool, source: str) -> str:
    """The digest of a source that was saved."""
    made = tool(source)
    pool.save(made, session())
    return made.digest


def promoted(pool: LivePool, sandbox: Sandbox, source: str) -> str:
    digest = saved(pool, source)
    assert promote(pool, digest, examiner(sandbox), RULES, session()).good
    return digest


def test_a_tool_is_callable_in_sessions_that_begin_later(pool: LivePool, sandbox: Sandbox) -> None:
    box, before = bench(pool, sandbox), pool.snapshot()
    assert "saved order_total as a candidate" in save(box, TOTAL)
    assert pool.snapshot() == before == Snapshot(), "a candidate cannot be called"
    said = box.call("promote_tool", '{"name": "order_total"}')
    assert said.startswith("promoted order_total: 3 of 3 trials passed, 3 are needed")
    assert before.tools == {}, "a session that had begun goes on as it was"
    after = pool.snapshot()
    assert list(after.tools) == ["order_total"] and after.digest != before.digest
    uses = Uses()
    later = ToolBox(functions(after, sandbox, uses))
    assert later.specs()[0]["function"] == {
        "name": "order_total",
        "description": "The sum of price times count.",
        "parameters": PURPOSES["order_total"].parameters,
    }
    assert later.call("order_total", json.dumps(LINES)) == "26"
    assert later.call("order_total", '{"lines": 3}').startswith("Error: order_total.lines")
    assert "raised ValueError" in later.call("order_total", '{"lines": [[1]]}')
    assert uses.tools[tool(TOTAL).digest] == {
        "calls": 2, "raised": 1, "faults": {"ValueError": 1},
    }  # fmt: skip


def test_in_a_namespace_a_tool_sees_nothing_of_the_session(
    pool: LivePool, sandbox: Sandbox
) -> None:
    for source in (TOTAL, LONGEST):
        promoted(pool, sandbox, source)
    code = namespace_code(pool.snapshot())
    with Namespace() as namespace:
        assert namespace.run(code).outcome == "ok"
        # The session redefines what the tools use: they go on with Python's own.
        cell = namespace.run(
            "sum = max = len = None\n"
            "print(order_total([[2, 3], [4, 5]]), longest_word(words=['fig', 'plum']))\n"
            "print('_load' in dir(), order_total.__globals__ is globals())"
        )
    assert cell.printed == "26 plum\nFalse False\n"
    assert namespace_code(Snapshot()) == ""


def test_what_failed_is_not_tried_again_however_it_is_spelt(
    pool: LivePool, sandbox: Sandbox
) -> None:
    box = bench(pool, sandbox)
    save(box, WRONG)
    assert box.call("promote_tool", '{"name": "order_total"}') == (
        "not promoted: 0 of 3 trials passed, 3 are needed; "
        "order_total must change to be tried again"
    )
    same_again = (
        WRONG,
        WRONG.replace("\n", "\r\n"),
        f"\n\n  {WRONG}".replace("\n", "\n  "),
        WRONG.replace("return", "# better now\n    return"),
        WRONG.replace("    return", '    """Total."""\n    return  '),
        WRONG.replace("(lines)", "( lines, )", 1),
    )
    for source in same_again:
        save(box, source)
        said = box.call("promote_tool", '{"name": "order_total"}')
        assert said == (
            "Error: this code failed its trials; order_total must change to be tried again"
        )
    assert pool.state().failed("order_total") == 1
    other = bench(pool, sandbox, "s2")
    assert "this code failed" in other.call("promote_tool", '{"name": "order_total"}')


def test_each_failed_attempt_makes_luck_less_likely(pool: LivePool, sandbox: Sandbox) -> None:
    reports = []
    for n in range(4):
        digest = saved(pool, f"def order_total(lines):\n    return {n}\n")
        reports.append(promote(pool, digest, examiner(sandbox), RULES, session()))
    assert [report.trials for report in reports] == [3, 6, 9, 9]
    report = promote(pool, saved(pool, TOTAL), examiner(sandbox), RULES, session())
    assert (report.trials, report.needed, report.passed) == (12, 12, 12)
    assert promote(pool, saved(pool, INSIDE), examiner(sandbox), RULES, session()).trials == 3


@pytest.mark.parametrize("chance", [0.02, 0.1, 0.25])
def test_a_thousand_attempts_have_little_more_luck_than_one(chance: float) -> None:
    """`chance`: that one attempt of a bad tool passes the trials that the HCP sets."""
    rules = Rules(trials=5, passes=5)
    per_trial = chance ** (1 / 5)
    total = sum(per_trial ** amount(rules, failed)[0] for failed in range(1000))
    assert chance <= total < chance * 1.6


@pytest.mark.parametrize(("trials", "passes"), [(5, 5), (5, 3), (1, 1), (7, 2)])
def test_the_share_of_passes_that_is_needed_stays(trials: int, passes: int) -> None:
    rules = Rules(trials=trials, passes=passes)
    assert amount(rules, 0) == (trials, passes)
    for failed in (1, 5, 100):
        more, needed = amount(rules, failed)
        assert more > trials and needed / more >= passes / trials


def test_some_trials_may_fail_where_the_hcp_says_so(pool: LivePool, sandbox: Sandbox) -> None:
    digest, many = saved(pool, FRAGILE), Rules(trials=12, passes=1)
    strict, lax = examiner(sandbox), Rules(trials=12, passes=12)
    assert strict.examine(tool(FRAGILE), lax.trials, lax.passes, "test").good
    assert promote(pool, digest, strict, many, session()).needed == 1


def test_the_hcp_has_the_rules() -> None:
    rules = PoolConfig()
    assert amount(rules, 0) == (5, 5)
    assert (rules.demote_after, rules.demote_sessions, rules.retrial_uses) == (1, 3, 20)


def test_a_rewrite_of_the_rules_waits_for_a_person() -> None:
    nano = load_hcp(Path(__file__).parents[2] / "contracts" / "hcp" / "nano.toml")
    for field in PoolConfig.model_fields:
        pool = nano.pool.model_copy(update={field: 4})
        assert touched(nano, nano.model_copy(update={"pool": pool})) == ["the pool's rules"]


def test_a_new_version_takes_the_name_only_when_it_passes(pool: LivePool, sandbox: Sandbox) -> None:
    first = promoted(pool, sandbox, TOTAL)
    assert not promote(pool, saved(pool, WRONG), examiner(sandbox), RULES, session()).good
    assert pool.snapshot().tools["order_total"].digest == first
    longer = TOTAL.replace("sum(", "0 + sum(")
    second = promoted(pool, sandbox, longer)
    assert pool.snapshot().tools["order_total"].digest == second
    assert pool.state().entries[first].status == "replaced"


@pytest.mark.parametrize("name", ["no_such", "order_total"])
def test_there_must_be_a_candidate(pool: LivePool, sandbox: Sandbox, name: str) -> None:
    box = bench(pool, sandbox)
    said = box.call("promote_tool", json.dumps({"name": name}))
    assert said == f"Error: no candidate is named '{name}'; save_tool saves one"


def test_without_references_a_candidate_stays_one(pool: LivePool, sandbox: Sandbox) -> None:
    box = bench(pool, sandbox)
    source = (
        'def halve(x: float, up: bool = False) -> float:\n    """Half of x."""\n    return x / 2\n'
    )
    assert save(box, source).endswith("there are no trials for that name, so that it stays one")
    assert "no trials for halve" in box.call("promote_tool", '{"name": "halve"}')
    made = tool(source)
    assert made.description == "Half of x."
    assert made.parameters == {
        "type": "object",
        "properties": {"x": {"type": "number"}, "up": {"type": "boolean"}},
        "required": ["x"],
        "additionalProperties": False,
    }
    halves = Solved(
        Purpose("halve", "Half.", schema(x={}, up={})), lambda rng: {"x": 1.0, "up": True},
        lambda x, up: x / 2,
    )  # fmt: skip
    later = Workbench(pool, examiner(sandbox, references=halves), RULES, session("s9"))
    assert later.promote("halve").startswith("promoted")


def test_names_that_a_tool_cannot_have(pool: LivePool, sandbox: Sandbox) -> None:
    box = bench(pool, sandbox, taken=("get_order",))
    for name in ("get_order", "save_tool", "promote_tool", "sum", "print", "json", "match"):
        said = save(box, f"def {name}(lines):\n    return 0\n")
        assert said.startswith("Error:"), name
    for name in ("_hidden", "Loud", "a" * 60, "straße"):
        assert "cannot name a tool" in save(box, f"def {name}(lines):\n    return 0\n"), name
    assert "the function is named" in save(box, TOTAL, name="other")
    assert pool.state().entries == {}


def test_a_session_saves_only_so_many(pool: LivePool, sandbox: Sandbox) -> None:
    box = bench(pool, sandbox)
    for n in range(MAX_SAVED):
        assert save(box, f"def order_total(lines):\n    return {n}\n").startswith("saved")
    assert "at most" in save(box, "def order_total(lines):\n    return -1\n")
    assert save(box, "def order_total(lines):\n    return 0\n").startswith("saved"), "known"
    assert save(bench(pool, sandbox, "s2"), TOTAL).startswith("saved")


@pytest.mark.parametrize(
    "arguments", ["{}", '{"source": 3}', '{"source": "x", "more": 1}', "[]", "nonsense", '"x"']
)
def test_wrong_calls_are_answered(pool: LivePool, sandbox: Sandbox, arguments: str) -> None:
    assert bench(pool, sandbox).call("save_tool", arguments).startswith("Error: ")
    assert bench(pool, sandbox).call("promote_tool", arguments).startswith("Error: ")


def test_a_failing_re_trial_demotes_with_the_reason(pool: LivePool, sandbox: Sandbox) -> None:
    """The world changed: what was right is wrong on fresh references."""
    digest = promoted(pool, sandbox, TOTAL)
    assert retry(pool, examiner(sandbox), RULES, session("night")) == {}, "nothing is due"
    uses = Uses()
    for _ in range(RULES.retrial_uses):
        uses.note(digest)
    assert record_uses(pool, uses, RULES, session("s2")) == []
    fine = retry(pool, examiner(sandbox), RULES, session("night"))
    assert fine["order_total"].good and pool.snapshot().tools
    assert retry(pool, examiner(sandbox), RULES, session("night")) == {}, "nor again"
    changed = Solved(TASKS[0].purpose, TASKS[0].make, lambda lines: len(lines) + 1)
    fails = retry(pool, examiner(sandbox, references=changed), RULES, session("night"), every=True)
    assert not fails["order_total"].good
    entry = pool.state().entries[digest]
    assert (entry.status, pool.snapshot().tools) == ("demoted", {})
    assert entry.reason == (
        "a re-trial on fresh references passed 0 of 3 trials, 3 are needed (1 wrong)"
    )
    for source in (TOTAL, TOTAL.replace("price", "price").replace("return", "#\n    return")):
        with pytest.raises(ToolFault, match="demoted"):
            promote(pool, saved(pool, source), examiner(sandbox), RULES, session("s3"))
    renewed = promoted(pool, sandbox, TOTAL.replace("sum(", "0 + sum("))
    assert pool.snapshot().tools["order_total"].digest == renewed


def test_re_trials_never_ask_the_same(pool: LivePool, sandbox: Sandbox) -> None:
    digest = promoted(pool, sandbox, TOTAL)
    for _ in range(3):
        retry(pool, examiner(sandbox), RULES, session(), every=True)
    events = pool.state().entries[digest].events
    seeds = [event["seed"] for event in events if "seed" in event]
    assert len(set(seeds)) == 4


def test_more_failing_re_trials_where_the_hcp_wants_them(pool: LivePool, sandbox: Sandbox) -> None:
    promoted(pool, sandbox, TOTAL)
    rules, other = (
        Rules(demote_after=2),
        examiner(sandbox, references=Solved(TASKS[0].purpose, TASKS[0].make, lambda lines: "no")),
    )
    retry(pool, other, rules, session(), every=True)
    assert pool.snapshot().tools
    retry(pool, other, rules, session(), every=True)
    assert not pool.snapshot().tools


def test_sessions_in_which_every_use_raised_demote(pool: LivePool, sandbox: Sandbox) -> None:
    digest = promoted(pool, sandbox, FRAGILE)
    call = functions(pool.snapshot(), sandbox, uses := Uses())[0].call
    seven = {"lines": [[1, 1]] * 7}
    for _ in range(5):
        with pytest.raises(ToolFault, match="order_total raised ValueError: too many"):
            call(seven)
    assert record_uses(pool, uses, RULES, session("s2")) == [], "one session is one opinion"
    fresh = Uses()
    fresh.note(digest), fresh.note(digest, "ValueError")
    assert record_uses(pool, fresh, RULES, session("s3")) == [], "it returned once"
    for name in ("s4", "s5"):
        again = Uses()
        again.note(digest, "ValueError")
        demoted = record_uses(pool, again, RULES, session(name))
    assert [entry.digest for entry in demoted] == [digest]
    assert demoted[0].reason == "every use raised in 2 sessions in a row (2 ValueError)"
    assert settle(pool, RULES, session()) == []


def test_a_use_that_raised_calls_for_a_re_trial(pool: LivePool, sandbox: Sandbox) -> None:
    digest = promoted(pool, sandbox, TOTAL)
    uses = Uses()
    uses.note(digest), uses.note(digest, "ValueError")
    record_uses(pool, uses, RULES, session())
    assert list(retry(pool, examiner(sandbox), RULES, session())) == ["order_total"]


def test_a_session_that_called_nothing_leaves_nothing(pool: LivePool) -> None:
    assert record_uses(pool, Uses(), RULES, session()) == []
    assert not pool.folder.exists()


@pytest.mark.parametrize("source", ["while True: pass", "return 'x' * 10 ** 7", "[0] * 10 ** 10"])
def test_a_tool_that_harms_is_a_fault_for_the_model(sandbox: Sandbox, source: str) -> None:
    made = tool(f"def order_total(lines):\n    {source}\n")
    uses = Uses()
    call = functions(Snapshot({"order_total": made}), sandbox, uses)[0].call
    with pytest.raises(
        ToolFault, match=r"order_total (took too long|ended its process|returned|used too much)"
    ):
        call(LINES)
    assert uses.tools[made.digest]["raised"] == 1


def test_trials_that_cannot_be_judged_decide_nothing(pool: LivePool, tmp_path: Path) -> None:
    class Dead(Sandbox):
        def _run(self, chunk: list[str]) -> list[Any]:
            self.close()
            return [self._run_again("not a job", "dead") for _ in chunk]

    with Dead() as dead:
        box = bench(pool, dead)
        save(box, TOTAL)
        said = box.call("promote_tool", '{"name": "order_total"}')
    assert said == "Error: the trials could not be run now; nothing is decided"
    assert pool.state().entries[tool(TOTAL).digest].status == "candidate"


def test_a_verifier_that_fails_decides_nothing(pool: LivePool, sandbox: Sandbox) -> None:
    class Checked:
        def purposes(self) -> Any:
            return REFERENCES.purposes()

        def references(self, name: str, rng: Any, n: int) -> list[Reference]:
            return [Reference(LINES, check=lambda value: value["missing"]) for _ in range(n)]

    with pytest.raises(TrialsInvalid, match="a verifier failed: TypeError"):
        examiner(sandbox, references=Checked()).examine(tool(TOTAL), 1, 1, "test")


def test_a_verifier_takes_what_it_finds_right(sandbox: Sandbox) -> None:
    class Checked:
        def purposes(self) -> Any:
            return REFERENCES.purposes()

        def references(self, name: str, rng: Any, n: int) -> list[Reference]:
            return [Reference(LINES, check=lambda value: value in (26, 0)) for _ in range(n)]

    found = [examiner(sandbox, references=Checked()).examine(tool(s), 1, 1, "t") for s in
             (TOTAL, "def order_total(lines):\n    return 0\n", WRONG)]  # fmt: skip
    assert [report.passed for report in found] == [1, 1, 0]


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (1, 1.0), (0, None), ("1", 1), ([], {}), ([1], [1, 2]), ({"a": 1}, {"b": 1}),
     ([True], [1]), (float("nan"), float("nan")), ("", None)],
)  # fmt: skip
def test_values_of_other_types_are_not_the_same(one: Any, other: Any) -> None:
    assert not same(one, other) and not same([one], [other])
    assert same([1, {"a": [0.1 + 0.2]}], [1, {"a": [0.3]}])


def test_what_is_carried_is_the_same_from_the_same_pool(
    pool: LivePool, sandbox: Sandbox, tmp_path: Path
) -> None:
    assert carry(pool, tmp_path / "none") is None and not (tmp_path / "none").exists()
    saved(pool, LONGEST)
    assert carry(pool, tmp_path / "none") is None, "candidates stay behind"
    digest = promoted(pool, sandbox, TOTAL)
    bad = promoted(pool, sandbox, INSIDE)
    demote_by_hand(pool, bad, "by Tests: too wide", session("by hand"))
    one, two = carry(pool, tmp_path / "one"), carry(pool, tmp_path / "two")
    assert one and two
    files = {p.name: p.read_bytes() for p in one.iterdir()}
    assert files == {p.name: p.read_bytes() for p in two.iterdir()}
    assert set(files) == {"pool.json", "evidence.jsonl", f"{digest}.json", f"{bad}.json"}
    packed = load_packed(one)
    assert packed.reasons == {bad: "by Tests: too wide"}
    assert Snapshot.of(packed) == pool.snapshot()
    elsewhere = LivePool(tmp_path / "elsewhere", one, ["p1"])
    assert elsewhere.snapshot() == pool.snapshot()
    with pytest.raises(ToolFault, match="demoted"):
        promote(elsewhere, saved(elsewhere, INSIDE), examiner(sandbox), RULES, session())


def test_a_pair_sees_what_its_ancestors_promoted_and_not_what_others_did(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    parent = live(tmp_path, "p0")
    total = promoted(parent, sandbox, TOTAL)
    child, sibling = live(tmp_path, "p1", "p0"), live(tmp_path, "p2", "p0")
    inside = promoted(child, sandbox, INSIDE)
    assert set(child.snapshot().tools) == {"order_total", "inside"}
    assert set(sibling.snapshot().tools) == {"order_total"} == set(parent.snapshot().tools)
    longest = promoted(sibling, sandbox, LONGEST)
    assert longest not in child.state().tools.values()
    demote_by_hand(child, total, "by Tests", session())
    assert not parent.snapshot().tools, "what is bad is bad for the whole family"
    folder = carry(parent, tmp_path / "tools")
    assert folder and load_packed(folder).reasons == {total: "by Tests"}
    assert set(load_packed(carry(child, tmp_path / "more") or tmp_path).tools) == {"inside"}
    assert child.snapshot().tools["inside"].digest == inside


def test_what_another_pair_promoted_is_no_evidence_for_this_one(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    parent = live(tmp_path, "p0")
    other = TOTAL.replace("sum(", "0 + sum(")
    saved(parent, other)
    first = promoted(parent, sandbox, TOTAL)
    child = live(tmp_path, "p1", "p0")
    promoted(child, sandbox, other)
    demote_by_hand(parent, tool(other).digest, "by Tests", session())
    assert parent.snapshot().tools["order_total"].digest == first
    assert child.snapshot().tools == {}, "it had taken the name"
    folder = carry(parent, tmp_path / "tools")
    assert folder and load_packed(folder).tools["order_total"].digest == first


def test_rollouts_with_pools_of_their_own_are_taken_over(
    pool: LivePool, sandbox: Sandbox, tmp_path: Path
) -> None:
    for number, source in enumerate((TOTAL, TOTAL, WRONG, LONGEST)):
        scratch = LivePool(tmp_path / f"scratch-{number}", None, ["p0"])
        box = bench(scratch, sandbox, f"rollout-{number}")
        save(box, source)
        name = tool(source).name
        box.call("promote_tool", json.dumps({"name": name}))
        absorb(pool, scratch, examiner(sandbox, seed=9), RULES)
    assert set(pool.snapshot().tools) == {"order_total", "longest_word"}
    entry = pool.state().entries[tool(TOTAL).digest]
    assert entry.saved_by == ["rollout-0", "rollout-1"]
    assert len([e for e in entry.events if e["event"] == "tried"]) == 1
    assert pool.state().entries[tool(WRONG).digest].status == "candidate"


def test_a_tool_that_takes_all_its_time_is_run_once(sandbox: Sandbox) -> None:
    class Counted(Sandbox):
        runs = 0

        def run(self, jobs: Any) -> Any:
            self.runs += len(jobs)
            return sandbox.run(jobs)

    counted = Counted()
    report = examiner(counted).examine(tool(SLOW), 9, 9, "test")
    assert (report.passed, sum(report.faults.values()), counted.runs) == (0, 1, 1)
    assert examiner(counted).examine(tool(TOTAL), 9, 9, "test").passed == 9


def test_a_report_reads_as_a_sentence() -> None:
    report = Report(1, 5, 5, 3, {"wrong": 1, "raised": 1})
    assert str(report) == "passed 3 of 5 trials, 5 are needed (1 raised, 1 wrong)"
