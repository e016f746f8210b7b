"""A pair's tools: part of its name, whole or refused, and handed on."""

import json
import shutil
from pathlib import Path

import pytest

from macaron.errors import DigestError
from macaron.files import digest_tree, read_json
from macaron.harness.pool.carry import carry
from macaron.harness.pool.live import LivePool, Snapshot
from macaron.pair import MANIFEST, TOOLS, Pair, load_pool
from macaron.pool.packed import load_packed
from macaron.registry import checks
from macaron.registry.audit import audit
from macaron.registry.pairs import PairStore
from macaron.registry.tracking import Tracking
from tests.registry.parts import HCP, adapters, make_pair, make_tools, make_verdict
from tests.registry.project import Project, make_project

SCHEMA_1 = {
    "schema": 1,
    "id": "c7bb6b36ef90636f",
    "base": "b" * 64,
    "adapters": {"L0": "0" * 64, "L1": "1" * 64},
    "hcp": "c" * 64,
    "parent": "feedfeedfeedfeed",
    "generation": 3,
}


@pytest.fixture
def store(tmp_path: Path) -> PairStore:
    return PairStore(tmp_path / "pairs")


def test_a_manifest_of_schema_1_reads_and_keeps_its_id() -> None:
    pair = Pair.from_json(SCHEMA_1, "manifest.json")
    assert (pair.pool, pair.pool_files) == (None, None)
    assert pair.to_json() == SCHEMA_1


def test_a_pair_without_tools_is_written_as_ever(store: PairStore, tmp_path: Path) -> None:
    pair = make_pair(store, tmp_path, 1.0)
    assert set(read_json(store.folder(pair.id) / MANIFEST)) == set(SCHEMA_1)
    assert store.pool(pair.id) is None and not store.has_pool(pair.id)


def test_tools_are_part_of_a_pairs_name(store: PairStore, tmp_path: Path) -> None:
    plain = make_pair(store, tmp_path, 1.0)
    one = make_pair(store, tmp_path, 1.0, tools=make_tools(tmp_path / "one", "add", "sort"))
    two = make_pair(store, tmp_path, 1.0, tools=make_tools(tmp_path / "two", "add"))
    less = make_pair(
        store, tmp_path, 1.0, tools=make_tools(tmp_path / "3", "add", demoted=("sort",))
    )
    assert len({plain.id, one.id, two.id, less.id}) == 4
    manifest = read_json(store.folder(one.id) / MANIFEST)
    assert manifest["schema"] == 2
    assert manifest["pool_files"] == digest_tree(store.folder(one.id) / TOOLS)
    assert Pair.from_json(manifest, "") == one == store.get(one.id)
    pool = load_pool(store.folder(one.id))
    assert pool and set(pool.tools) == {"add", "sort"} and pool.digest == manifest["pool"]


def test_who_made_a_tool_and_when_does_not_change_what_a_pair_is(
    store: PairStore, tmp_path: Path
) -> None:
    one = make_pair(store, tmp_path, 1.0, tools=make_tools(tmp_path / "one", "add", pair="p1"))
    two = make_pair(store, tmp_path, 1.0, tools=make_tools(tmp_path / "two", "add", pair="p2"))
    assert one == two and one.id == two.id, "the pair that is there is given"


@pytest.mark.parametrize(
    "change",
    [
        {"pool": "d" * 64},
        {"pool": None, "pool_files": None},
        {"schema": 1},
        {"schema": 3},
        {"pool_files": "d" * 64},
    ],
)
def test_a_manifest_that_says_another_pool_is_refused(
    store: PairStore, tmp_path: Path, change: dict[str, object]
) -> None:
    pair = make_pair(store, tmp_path, 1.0, tools=make_tools(tmp_path / "tools", "add"))
    path = store.folder(pair.id) / MANIFEST
    path.write_text(json.dumps(read_json(path) | change))
    with pytest.raises(DigestError) as found:
        store.get(pair.id)
    assert "\n" not in str(found.value)


def test_a_flipped_byte_in_any_file_of_the_tools_is_found(store: PairStore, tmp_path: Path) -> None:
    tools = make_tools(tmp_path / "tools", "add", demoted=("sort",))
    pair = make_pair(store, tmp_path, 1.0, tools=tools)
    files = sorted((store.folder(pair.id) / TOOLS).iterdir())
    assert len(files) == 4
    for path in files:
        whole = path.read_bytes()
        for place in range(0, len(whole), 7):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            with pytest.raises(DigestError):
                store.get(pair.id)
        path.write_bytes(whole)
    assert store.get(pair.id) == pair


@pytest.mark.parametrize("fault", ["missing", "one more", "removed", "added to a pair without"])
def test_a_missing_or_added_file_is_found(store: PairStore, tmp_path: Path, fault: str) -> None:
    tools = make_tools(tmp_path / "tools", "add")
    pair = make_pair(store, tmp_path, 1.0, tools=None if "without" in fault else tools)
    folder = store.folder(pair.id) / TOOLS
    if fault == "missing":
        (folder / "evidence.jsonl").unlink()
    elif fault == "one more":
        (folder / "more.json").write_text("{}")
    elif fault == "removed":
        shutil.rmtree(folder)
    else:
        shutil.copytree(tools, folder)
    with pytest.raises(DigestError):
        store.get(pair.id)


def test_tools_without_evidence_make_no_pair(store: PairStore, tmp_path: Path) -> None:
    """A folder that was put together by hand is refused before anything is copied."""
    tools = make_tools(tmp_path / "tools", "add", "sort")
    evidence = (tools / "evidence.jsonl").read_text().splitlines()
    lines = {
        "never tried": [line for line in evidence if "sort tried" not in line],
        "demoted": [*evidence, evidence[0].replace('"saved"', '"demoted"').replace("saved", "x")
                    .replace('"task"', '"reason"')],
        "nothing": [],
        "nonsense": ["{}"],
    }  # fmt: skip
    for what, kept in lines.items():
        (tools / "evidence.jsonl").write_text("".join(f"{line}\n" for line in kept))
        with pytest.raises(DigestError):
            make_pair(store, tmp_path, 1.0, tools=tools)
        assert store.list() == [], what


def test_diff_names_tools(store: PairStore, tmp_path: Path) -> None:
    first = make_pair(store, tmp_path, 1.0, tools=make_tools(tmp_path / "1", "add", "sort"))
    tools = make_tools(tmp_path / "2", "add", "trim", demoted=("sort",))
    second = make_pair(store, tmp_path, 1.0, tools=tools)
    lost = next(iter(load_packed(tools).demoted))
    assert [(d.part, d.old is None, d.new is None) for d in store.diff(first.id, second.id)] == [
        (f"demoted.sort.{lost[:12]}", True, False),
        ("tools.sort", False, True),
        ("tools.trim", True, False),
    ]


def test_ancestry_is_the_line_as_far_as_it_is_here(store: PairStore, tmp_path: Path) -> None:
    first = make_pair(store, tmp_path, 1.0)
    second = make_pair(store, tmp_path, 2.0, first)
    third = make_pair(store, tmp_path, 3.0, second)
    make_pair(store, tmp_path, 4.0, second)
    assert store.ancestry(third.id[:6]) == (third.id, second.id, first.id)
    shutil.rmtree(store.folder(first.id))
    assert store.ancestry(third.id) == (third.id, second.id, first.id)
    assert store.ancestry(second.id) == (second.id, first.id)


def test_a_challenger_inherits_the_pool_and_what_was_promoted_meanwhile(
    store: PairStore, tmp_path: Path
) -> None:
    parent = make_pair(store, tmp_path, 1.0, tools=make_tools(tmp_path / "tools", "add", "sort"))
    live = _live(tmp_path, store, parent)
    late = make_tools(tmp_path / "late", "trim", pair=parent.id)
    _replay(live, late)
    folder = carry(live, tmp_path / "carried")
    child = make_pair(store, tmp_path, 2.0, parent, tools=folder)
    assert set(store.pool(child.id).tools) == {"add", "sort", "trim"}  # type: ignore[union-attr]
    assert _live(tmp_path, store, child).snapshot() == live.snapshot()
    # On a machine that has the pair and not the live pool:
    clone = LivePool(tmp_path / "elsewhere", store.folder(child.id) / TOOLS, [child.id])
    assert clone.snapshot() == live.snapshot()
    again = carry(clone, tmp_path / "again")
    assert again and digest_tree(again) == digest_tree(store.folder(child.id) / TOOLS)


def _live(tmp_path: Path, store: PairStore, pair: Pair) -> LivePool:
    inherited = store.folder(pair.id) / TOOLS
    return LivePool(tmp_path / "pool", inherited, store.ancestry(pair.id))


def _replay(live: LivePool, tools: Path) -> None:
    """Sessions' doings, written as they write them."""
    from macaron.pool.candidate import write_candidate

    packed = load_packed(tools)
    for made in packed.tools.values():
        write_candidate(live.folder, made)
    with live.writing():
        live._log.append(packed.events)
    assert Snapshot(dict(packed.tools)).tools.items() <= live.snapshot().tools.items()


@pytest.fixture
def night(tmp_path: Path, tracking: Tracking) -> tuple[Project, Pair]:
    """A parent with a tool and a challenger with one more, recorded in git and DVC."""
    project = make_project(tmp_path / "project")
    one = make_tools(tmp_path / "one", "add", "sort")
    two = make_tools(tmp_path / "two", "add", "trim", demoted=("sort",))
    parent = make_pair(project.pairs, tmp_path, 1.0, tools=one)
    project.record(parent)
    pair = make_pair(project.pairs, tmp_path, 2.0, parent, tools=two)
    project.pairs.attach_verdict(pair.id, make_verdict(True, pair.id))
    project.record(pair)
    return project, pair


@pytest.mark.full
def test_a_record_carries_the_tools_and_an_audit_reads_them(
    night: tuple[Project, Pair], tmp_path: Path
) -> None:
    project, pair = night

    def faults() -> list[str]:
        return [f.text for f in audit(pair.id, project.pairs, project.lineage) if not f.ok]

    found = [finding.text for finding in audit(pair.id, project.pairs, project.lineage)]
    assert "pool: every tool passed its trials" in found
    # The verdict is of the tests' own contract.
    assert [text for text in faults() if not text.startswith("verdict")] == []
    kept = project.lineage.workspace / "models" / "pairs" / pair.id / TOOLS
    assert load_packed(kept) == project.pairs.pool(pair.id)
    tools = project.pairs.folder(pair.id) / TOOLS
    tool = next(path for path in tools.glob("*.json") if path.name != "pool.json")
    whole = tool.read_bytes()
    for change in (whole.replace(b"return x", b"return 0"), None):
        if change is None:
            tool.unlink()
        else:
            tool.write_bytes(change)
        assert any(text.startswith("pair:") and tool.name in text for text in faults())
        assert any(text.startswith("pool:") for text in faults())
        tool.write_bytes(whole)
    record = project.lineage.find(pair.id)
    assert record is not None
    lock = project.lineage.lock(pair.id)
    case = checks.Case(pair.id, record, lock, project.pairs, project.lineage)
    assert list(checks.folder(case)) == list(checks.pool(case)) == []


def test_create_copies_the_tools_and_leaves_the_source_alone(
    store: PairStore, tmp_path: Path
) -> None:
    tools = make_tools(tmp_path / "tools", "add")
    before = digest_tree(tools)
    pair = store.create("0" * 64, adapters(tmp_path / "parts", 1.0), HCP, None, 0, tools=tools)
    assert digest_tree(tools) == before == pair.pool_files
    shutil.rmtree(tools)
    assert store.get(pair.id) == pair
