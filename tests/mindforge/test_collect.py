"""What waits to be learned from: new turns, and old ones that got other feedback since."""

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from macaron.experience.schema import Feedback, Trajectory
from macaron.experience.store import ExperienceStore
from macaron.files import write_json
from macaron.mindforge.collect import ancestry, waiting
from macaron.mindforge.cycle import open_cycle
from macaron.pair import MANIFEST, Pair
from macaron.settings import Settings, load_settings
from tests.mindforge.test_cycle import inputs


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "macaron.toml").write_text("")
    return load_settings(tmp_path)


def turn(name: str, **changes: object) -> Trajectory:
    messages = [{"role": "user", "content": name}, {"role": "assistant", "content": "Yes."}]
    return replace(
        Trajectory(
            id=name,
            session=name,
            source="import",
            created_at="2026-11-30T08:00:00+00:00",
            specialist="L0",
            messages=messages,  # type: ignore[arg-type]
        ),
        **changes,  # type: ignore[arg-type]
    )


def pair(settings: Settings, hcp: str, parent: str | None) -> str:
    made = Pair("b" * 64, {}, hcp * 64, parent, 0 if parent is None else 1)
    write_json(settings.pairs / made.id / MANIFEST, made.to_json())
    return made.id


def learn(settings: Settings, store: ExperienceStore, challenger: str, state: str) -> None:
    """A judged cycle that collected all that waited."""
    cycle = open_cycle(settings, inputs(seed=len(challenger)), run="a", fresh=True)
    folder = cycle.dir / "experience"
    folder.mkdir()
    pq.write_table(store.read(sources=("served", "import")), folder / "collected.parquet")
    cycle.update(state=state, challenger=challenger)


def ids(settings: Settings, store: ExperienceStore, champion: str) -> list[str]:
    return sorted(waiting(settings, store, champion)["id"].to_pylist())


def test_a_champion_and_its_descendants_do_not_learn_a_turn_twice(settings: Settings) -> None:
    store = ExperienceStore(settings.experience)
    ancestor = pair(settings, "0", None)
    child = pair(settings, "1", ancestor)
    store.append([turn("a")])
    learn(settings, store, child, "promoted")
    store.append([turn("b")])
    assert ids(settings, store, child) == ["b"]
    assert ids(settings, store, pair(settings, "2", child)) == ["b"]


def test_after_a_rollback_turns_wait_again(settings: Settings) -> None:
    store = ExperienceStore(settings.experience)
    ancestor = pair(settings, "0", None)
    store.append([turn("a")])
    learn(settings, store, pair(settings, "1", ancestor), "promoted")
    assert ids(settings, store, ancestor) == ["a"]


def test_a_rejected_night_uses_nothing_up(settings: Settings) -> None:
    store = ExperienceStore(settings.experience)
    ancestor = pair(settings, "0", None)
    store.append([turn("a")])
    learn(settings, store, pair(settings, "1", ancestor), "rejected")
    assert ids(settings, store, ancestor) == ["a"]


def test_late_feedback_makes_a_turn_wait_again(settings: Settings) -> None:
    store = ExperienceStore(settings.experience)
    child = pair(settings, "1", pair(settings, "0", None))
    store.append([turn("a"), turn("b")])
    learn(settings, store, child, "promoted")
    late = Feedback(correction="No.", at="2026-12-01T08:00:00+00:00")
    store.append([turn("a", feedback=late)])
    assert ids(settings, store, child) == ["a"]


def test_ancestry_is_youngest_first_and_ends_where_records_end(settings: Settings) -> None:
    ancestor = pair(settings, "0", None)
    child = pair(settings, "1", ancestor)
    assert ancestry(settings.pairs, child) == [child, ancestor]
    assert ancestry(settings.pairs, "unknown") == ["unknown"]
