"""The routing set: what is held out is in no training, and the rule is that of the harness."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from macaron.environments import environment, environments
from macaron.environments.bank import bank, load_bank
from macaron.environments.base import Task
from macaron.environments.entities import names
from macaron.environments.routes import DEFAULT, LABELS, LANGUAGES, Language, language
from macaron.environments.routing_set import SIZES, digest, whole
from macaron.errors import ConfigError
from macaron.hcp.document import load_hcp
from macaron.profile import parse_text
from tests.project import HOUSE

DIGEST = "aa4d9878249d765e"
"""Of the set of record: whoever changes a template changes what was measured."""


@pytest.fixture(scope="module")
def parts() -> dict[tuple[str, str], list[Task]]:
    return {(part, code): tasks for part, code, tasks in whole()}


def text(task: Task) -> str:
    return task.messages[0]["content"]


def test_it_is_the_set_of_record(parts: dict[tuple[str, str], list[Task]]) -> None:
    assert digest()[:16] == DIGEST
    counts = {key: len({text(t) for t in tasks}) for key, tasks in parts.items()}
    assert counts == {
        (part, code): SIZES[part][code != "en"]
        for part in SIZES
        for code in LANGUAGES
        if SIZES[part][code != "en"]
    }
    assert sum(counts.values()) > 4000


def test_no_held_out_text_template_or_family_is_trained_on(
    parts: dict[tuple[str, str], list[Task]],
) -> None:
    trained = [t for (part, _), tasks in parts.items() if part == "train" for t in tasks]
    trained += [t for t in load_bank(HOUSE / "data/bank.jsonl") if "template" in t.data]
    held = [t for (part, _), tasks in parts.items() if part == "held" for t in tasks]
    places = {(t.data["language"], t.data["family"], t.data["template"]) for t in trained}
    families = {place[:2] for place in places}
    for task in held:
        # The kinds of other environments' tasks are no templates; their texts are held out.
        if task.kind != "own":
            place = (task.data["language"], task.data["family"], task.data["template"])
            assert place not in places
            assert (place[:2] in families) == (task.data["slice"] == "template")
    everything = {text(t) for t in trained}
    assert everything.isdisjoint(
        text(t) for (part, _), tasks in parts.items() if part != "train" for t in tasks
    )


def test_no_held_out_text_is_said_anywhere_in_the_bank(
    parts: dict[tuple[str, str], list[Task]],
) -> None:
    said = {m["content"] for t in load_bank(HOUSE / "data/bank.jsonl") for m in t.messages}
    held = {text(t) for (part, _), tasks in parts.items() if part != "train" for t in tasks}
    assert len(held) > 4000
    assert said.isdisjoint(held)


def test_a_name_is_in_one_split_only(parts: dict[tuple[str, str], list[Task]]) -> None:
    sealed = set(names("sealed"))
    for (part, code), tasks in parts.items():
        # "Suma" is a name, and Spanish for an ask.
        said = "\n".join(map(text, tasks)).replace("Suma los", "")
        found = {name for name in sealed if name in said}
        assert bool(found) == (part != "train"), (part, code, found)


def test_unseen_wording_is_unseen(parts: dict[tuple[str, str], list[Task]]) -> None:
    asks = [ask for each in language("en").unseen.values() for ask in each]
    trained = "\n".join(text(t).lower() for t in parts["train", "en"])
    assert not [ask for ask in asks if ask in trained]
    assert all(any(ask in text(t).lower() for ask in asks) for t in parts["wording", "en"])


@pytest.mark.parametrize("path", sorted((HOUSE / "contracts/hcp").glob("*.toml")), ids=str)
def test_vague_turns_are_the_harness_defaults(path: Path) -> None:
    hcp = load_hcp(path)
    if {s.name for s in hcp.specialists.values()} == set(LABELS):
        assert hcp.specialists[hcp.router.default].name == DEFAULT


@pytest.mark.parametrize("name", ["routing", "routing-languages"])
@pytest.mark.parametrize("split", ["train", "sealed"])
def test_every_label_is_asked_for_in_every_language(name: str, split: str) -> None:
    import random

    rng, made = random.Random(1), environment(name)
    tasks = [made.sample(rng, split) for _ in range(800)]  # type: ignore[arg-type]
    counts = Counter((t.data["language"], t.reference) for t in tasks)
    codes = {t.data["language"] for t in tasks}
    assert codes == ({"en"} if name == "routing" else set(LANGUAGES) - {"en"})
    assert min(counts[code, label] for code in codes for label in LABELS) > 15


def test_what_a_turn_is_about_and_quotes_does_not_decide(
    parts: dict[tuple[str, str], list[Task]],
) -> None:
    """A cue that shows up as often for every label says nothing by itself."""
    things = {label: [x.replace("{n}", "").strip() for x in language("en").things[label]]
              for label in LABELS}  # fmt: skip
    held = [t for t in parts["held", "en"] if t.kind == "about"]
    for task in held:
        about = [label for label in LABELS if any(x in text(task) for x in things[label])]
        assert task.reference not in about


def test_the_bank_has_four_times_as_many_english_turns() -> None:
    counts = Counter(t.environment for t in bank(per_environment=15, seed=2))
    assert (counts.pop("routing"), counts.pop("routing-languages")) == (60, 3)
    assert set(counts.values()) == {15}
    assert set(counts) == set(environments()) - {"routing", "routing-languages"}


def test_there_is_no_other_language() -> None:
    with pytest.raises(ConfigError, match=r"no language 'fr'.*there are en, zh"):
        language("fr")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"asks": {"chat": ["say"]}}, "asks should have the labels"),
        ({"families": [{"id": "a", "kind": "ask", "label": "poem", "held": ["x"]}]}, "poem"),
        ({"families": [{"id": "a", "kind": "ask", "train": ["x"], "held": ["x"]}]}, "more than"),
        ({"families": [{"id": "a", "kind": "ask", "train": ["x"]}]}, "held"),
    ],
)
def test_a_document_that_is_not_whole_is_one_line(change: dict[str, object], says: str) -> None:
    import tomlkit

    whole_one = json.loads(language("en").model_dump_json())
    with pytest.raises(ConfigError, match=says):
        parse_text(tomlkit.dumps(whole_one | change), Language, "x.toml")


@pytest.mark.parametrize("code", LANGUAGES)
def test_no_held_out_template_is_an_instance_of_a_trained_one(code: str) -> None:
    """With its slots filled in, a trained template must not read like a held-out one."""
    words = language(code)

    def pattern(template: str) -> str:
        found = re.escape(template)
        for slot, choices in words.slots.items():
            found = found.replace(
                re.escape(f"{{{slot}}}"), f"(?:{'|'.join(map(re.escape, choices))})"
            )
        return found

    held = [t for family in words.families for t in family.held]
    trained = "|".join(pattern(t) for family in words.families for t in family.train)
    assert [t for t in held if re.fullmatch(trained, t, re.IGNORECASE)] == []
