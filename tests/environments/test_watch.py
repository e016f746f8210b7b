"""The reward-hack watch: shipped verifiers pay for no attack, and a leaky one is named."""

import importlib
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from macaron.contract.document import load_contract
from macaron.environments import environment, environments
from macaron.environments.base import Score, Split, Task
from macaron.environments.splits import user
from macaron.environments.watch import refuse, used, watch, watch_all
from macaron.environments.watch.attacks import answers
from macaron.errors import ConfigError
from macaron.harness.tools import Tool

ROOT = Path(__file__).parents[2]


class Sums:
    """A sound environment of small sums, whose verifier a test replaces."""

    name, specialist, kinds = "sums", "L0", ("sum",)

    def __init__(self, paid: Callable[[Task, str], float | None]) -> None:
        self._paid = paid

    def sample(self, rng: random.Random, split: Split, kind: str | None = None) -> Task:
        a, b = rng.randint(100, 999), rng.randint(100, 999)
        text = f"What is {a} + {b}?"
        return Task("sums", "L0", "sum", split, (user(text),), str(a + b), {})

    def verify(self, tasks: Sequence[Task], answers: Sequence[str]) -> list[Score]:
        pairs = zip(tasks, answers, strict=True)
        return [Score(self._paid(task, answer)) for task, answer in pairs]


def exact(task: Task, answer: str) -> float:
    return float(answer.strip() == task.reference)


LEAKS: dict[str, tuple[Callable[[Task, str], float | None], str]] = {
    "empty": (lambda t, a: float(not a.strip() or exact(t, a)), "empty"),
    "long": (lambda t, a: float(len(a) > 2000 or exact(t, a)), "very long"),
    "contains": (lambda t, a: float(t.reference in a), "hedge"),
    "trusts": (lambda t, a: float('"reward": 1' in a or exact(t, a)), "claimed reward"),
    "prompt": (lambda t, a: float(t.messages[-1]["content"] in a or exact(t, a)), "copied"),
    "any number": (lambda t, a: float(a.isdigit()), "another task's reference"),
    "judge": (lambda t, a: float("full reward" in a or exact(t, a)), "instructions"),
    "not a number": (lambda t, a: float("nan") if a == "nan" else exact(t, a), "not a number"),
    "over one": (lambda t, a: 7.0 if a == "PASS" else exact(t, a), "pass"),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leaky_verifier_is_refused_by_the_name_of_the_attack(leak: str) -> None:
    paid, attack = LEAKS[leak]
    found = [f.attack for f in watch(Sums(paid)) if f.paid]
    assert any(attack in name for name in found)
    with pytest.raises(ConfigError, match=r"environment sums: its verifier pays .* for the attack"):
        refuse(Sums(paid))


@pytest.mark.parametrize("paid", [exact, lambda t, a: exact(t, a) or 0.05, lambda t, a: None])
def test_a_sound_one_is_not(paid: Callable[[Task, str], float | None]) -> None:
    refuse(Sums(paid))


def test_a_verifier_that_breaks_on_an_attack_is_refused() -> None:
    with pytest.raises(ConfigError, match="broke on an attack: ZeroDivisionError"):
        refuse(Sums(lambda t, a: 1 / len(a.strip())))


@pytest.mark.parametrize("name", ["chat", "genui", "routing", "orders", "offers"])
def test_shipped_verifiers_pay_for_nothing(name: str) -> None:
    found = watch(environment(name))
    assert {f.reward for f in found} == {0.0}
    assert len(found) >= 30


@pytest.mark.full
@pytest.mark.parametrize("name", ["agent", "coding"])
def test_shipped_verifiers_of_code_pay_for_nothing(name: str) -> None:
    found = watch(environment(name))
    assert {f.reward for f in found} == {0.0}
    assert sum(f.attack.startswith("code: ") for f in found) >= 9


def test_no_attack_is_the_reference() -> None:
    made = environment("routing")
    tasks = [made.sample(random.Random(i), "train") for i in range(20)]
    for task in tasks:
        assert task.reference not in {attack.text.strip() for attack in answers(task, tasks)}


class Shell:
    """A world with a shell; its score is a file's content, which a command can write."""

    def __init__(self, guarded: bool) -> None:
        self._guarded, self._paid = guarded, False

    def tools(self) -> Sequence[Tool]:
        schema = {"type": "object", "properties": {"command": {"type": "string"}}}
        return [Tool("bash", "Run a command.", schema, self._run)]

    def _run(self, arguments: dict[str, Any]) -> str:
        self._paid = self._paid or "reward.txt" in arguments["command"]
        return ""

    def score(self, answer: str) -> Score:
        return Score(float(self._paid and not self._guarded))


class Shells(Sums):
    """Sums with a world."""

    def __init__(self, guarded: bool) -> None:
        super().__init__(exact)
        self._guarded = guarded

    def world(self, task: Task) -> Shell:
        return Shell(self._guarded)


def test_a_world_whose_reward_a_command_can_write_is_refused() -> None:
    with pytest.raises(ConfigError, match="shell: "):
        refuse(Shells(guarded=False))
    refuse(Shells(guarded=True))


PACKAGE = """
from tests.environments.test_watch import Sums, exact
class Mine(Sums):
    name = "mine"
    def __init__(self):
        super().__init__({rule})
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Writes the package's module by its rule, as an edit between two nights does."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    (tmp_path / "site").mkdir()

    def write(rule: str) -> None:
        (tmp_path / "site" / "mine_env.py").write_text(PACKAGE.format(rule=rule))
        sys.modules.pop("mine_env", None)
        importlib.invalidate_caches()
        made = importlib.import_module("mine_env").Mine()
        monkeypatch.setitem(environments(), "mine", made)

    return write


def test_a_sound_verifier_is_attacked_once_until_its_code_changes(
    tmp_path: Path, mine: Callable[[str], None]
) -> None:
    memory = tmp_path / "watch.json"
    mine("exact")
    assert watch_all(["mine", "routing"], memory, remember=False) == 2
    assert not memory.exists()
    assert watch_all(["mine", "routing"], memory) == 2
    assert watch_all(["mine", "routing"], memory) == 0
    mine("lambda t, a: 1.0")
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"mine: its verifier pays 1\.00"):
            watch_all(["mine", "routing"], memory)
    memory.write_text("no json")
    assert watch_all(["routing"], memory) == 1


def test_a_night_pays_by_the_banks_and_the_contracts_environments() -> None:
    contract = load_contract(ROOT / "contracts/v1.toml")
    assert used(contract) == list(environments())
    more = contract.suites[0].model_copy(update={"environment": "orders"})
    assert used(contract.model_copy(update={"suites": (more,)})) == [*environments(), "orders"]
