"""`macaron pairs` and `macaron rollback` over real pairs, with and without MLflow."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from macaron.pair import Pair
from macaron.registry.pairs import PairStore
from macaron.registry.tracking import Tracking
from tests.cli.conftest import Command
from tests.registry.parts import HCP, adapters, make_pair, make_verdict


@pytest.fixture
def family(root: Path, tmp_path: Path) -> list[Pair]:
    """An ancestor, its child, and a grandchild under another harness that was rejected."""
    store = PairStore(root / "models" / "pairs")
    first = make_pair(store, tmp_path, 0.0)
    second = make_pair(store, tmp_path, 1.0, first)
    store.attach_verdict(second.id, make_verdict(True, second.id))
    harness = tmp_path / "other.toml"
    harness.write_text(HCP.read_text().replace("max_tokens = 64", "max_tokens = 32"))
    parts = adapters(tmp_path / "parts-2", 1.0)
    third = store.create("0" * 64, parts, harness, second.id, 2)
    store.attach_verdict(third.id, make_verdict(False, third.id))
    return [first, second, third]


def test_list_is_a_table_for_cut(macaron: Command, family: list[Pair]) -> None:
    lines = [line.split("\t") for line in macaron("pairs", "list").out.splitlines()]
    assert lines[0] == ["pair", "generation", "parent", "verdict", "version", "aliases"]
    assert [line[0] for line in lines[1:]] == [pair.id for pair in family]
    assert [line[3] for line in lines[1:]] == ["", "promoted", "rejected"]
    assert lines[2][2] == family[0].id
    seen = json.loads(macaron("pairs", "list", "--json").out)
    assert [row["verdict"] for row in seen] == [None, "promoted", "rejected"]


def test_no_pairs_is_no_error(macaron: Command) -> None:
    found = macaron("pairs", "list")
    assert (found.code, found.out) == (0, "no pairs yet: `macaron improve` makes the first\n")
    assert macaron("pairs", "list", "--json").out == "[]\n"


def test_show_takes_the_beginning_of_an_id(macaron: Command, family: list[Pair]) -> None:
    pair = family[2]
    found = macaron("pairs", "show", pair.id[:6])
    assert found.code == 0, found.err
    assert all(revision[:12] in found.out for revision in pair.adapters.values())
    assert "rejected under contract" in found.out
    assert "routing" in found.out
    seen = json.loads(macaron("pairs", "show", pair.id, "--json").out)
    assert seen["manifest"] == pair.to_json()
    assert seen["judged"]["decision"] == "rejected"


def test_show_finds_a_changed_part(macaron: Command, root: Path, family: list[Pair]) -> None:
    config = root / "models/pairs" / family[0].id / "adapters" / "L1" / "adapter_config.json"
    config.write_text("{}")
    found = macaron("pairs", "show", family[0].id)
    assert (found.code, found.err.count("\n")) == (4, 1)
    assert "digest" in found.err


def test_diff_names_the_parts(macaron: Command, family: list[Pair]) -> None:
    first, second, third = (pair.id for pair in family)
    parts = [line.split("\t") for line in macaron("pairs", "diff", first, second).out.splitlines()]
    assert [row[0] for row in parts[1:]] == [f"adapters.L{n}" for n in range(4)]
    harness = macaron("pairs", "diff", second, third).out.splitlines()
    assert harness[1:] == ["hcp.specialists.L1.max_tokens\t64\t32"]
    assert macaron("pairs", "diff", first, first).out == "the same pair\n"


@pytest.mark.parametrize("name", ["feedbeef", "champion", "../../etc"])
def test_an_unknown_pair_is_one_line(macaron: Command, family: list[Pair], name: str) -> None:
    found = macaron("pairs", "show", name)
    assert (found.code, found.err.count("\n")) == (7, 1)
    assert "`macaron pairs list`" in found.err


def test_rollback_without_a_champion_is_one_line(macaron: Command, root: Path) -> None:
    found = macaron("rollback")
    assert (found.code, found.err.count("\n")) == (7, 1)
    assert "there is no champion yet" in found.err
    assert not (root / ".macaron").exists(), "nothing was made"


@pytest.fixture
def registered(root: Path, family: list[Pair]) -> Tracking:
    """The first two pairs registered and promoted in turn, the third registered as rejected."""
    state = root / ".macaron" / "mlflow"
    state.mkdir(parents=True)
    registry = Tracking(f"sqlite:///{state / 'mlflow.db'}", "macaron", state / "artifacts")
    registry.prepare()
    for number, pair in enumerate(family):
        run = registry.cycle_run(f"cycle-{number}", {}, {})
        tags = {
            "pair_id": pair.id,
            "generation": str(pair.generation),
            "verdict": "promoted" if number < 2 else "rejected",
        }
        version = registry.register(root / "models" / "pairs" / pair.id, run, tags)
        if number < 2:
            registry.promote(version)
    return registry


@pytest.mark.full
def test_rollback_with_a_registry(
    macaron: Command, root: Path, family: list[Pair], registered: Tracking
) -> None:
    first, second, third = family
    assert json.loads(macaron("status", "--json").out)["champion"]["pair"] == second.id
    rows = json.loads(macaron("pairs", "list", "--json").out)
    assert [row["aliases"] for row in rows] == [["previous"], ["champion"], ["challenger"]]
    assert "version     2 (champion)" in macaron("pairs", "show", "champion").out

    rejected = macaron("rollback", "--to", third.id)
    assert (rejected.code, rejected.err.count("\n")) == (7, 1)
    assert "was rejected" in rejected.err
    assert json.loads(macaron("status", "--json").out)["champion"]["pair"] == second.id

    back = macaron("rollback", "--why", "answers got longer")
    assert back.out == f"pair {first.id}, version 1, is the champion\n", back.err
    left = next(v for v in registered.versions() if v.pair_id == second.id)
    assert left.tags["rolled_back"].endswith("by Tests: answers got longer")
    assert json.loads(macaron("status", "--json").out)["champion"]["since"]
    assert "already" in macaron("rollback", "--to", first.id[:8]).out
    assert "there was no champion before" in macaron("rollback").err

    weights = root / "models/pairs" / second.id / "adapters" / "L0" / "adapter_model.safetensors"
    weights.unlink()
    damaged = macaron("rollback", "--to", second.id)
    assert (damaged.code, damaged.err.count("\n")) == (4, 1)
    assert registered.champion() == replace(registered.champion(), pair_id=first.id)  # type: ignore[type-var]

    assert "is whole" in macaron("pairs", "restore", second.id[:8]).out
    assert weights.exists()
    assert macaron("rollback", "--to", second.id).code == 0
    unknown = macaron("pairs", "restore", "nobody")
    assert (unknown.code, unknown.err.count("\n")) == (7, 1)
