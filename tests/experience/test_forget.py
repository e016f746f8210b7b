"""Forgetting: exactly the named sessions go, whatever is killed or runs meanwhile."""

import json
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from macaron.errors import DigestError
from macaron.experience.forget import ForgetReport, forget_sessions
from macaron.experience.forgotten import FILE
from macaron.experience.log import CURRENT, TurnLog
from macaron.experience.redaction import Redactions
from macaron.experience.schema import Feedback
from macaron.experience.segment import parse_segment, turn_line
from macaron.experience.store import ExperienceStore
from macaron.experience.table import from_table, to_table
from tests.experience.rows import turn

ROOT = Path(__file__).parents[2]
DAYS = ("2026-11-27", "2026-11-28")
SESSIONS = st.sampled_from("abc")


@pytest.fixture
def log(tmp_path: Path) -> TurnLog:
    return TurnLog(tmp_path / "turns", segment_bytes=3000)


@pytest.fixture
def store(tmp_path: Path) -> ExperienceStore:
    return ExperienceStore(tmp_path / "experience")


def fill(log: TurnLog, store: ExperienceStore) -> None:
    """Six turns of sessions "go" and "stay": stored, in segments, in the current log, torn."""
    for n in range(6):
        session = "go" if n % 2 else "stay"
        at = f"{DAYS[n % 4 // 2]}T10:00:0{n}+00:00"
        log.append(turn(f"{session}-{n}", session=session, created_at=at))
        if n == 1:
            log.append_feedback("nobody-go", Feedback(correction="lost"))
            log.append_feedback("nobody-stay", Feedback(correction="kept"))
        if n == 3:
            log.compact(store)
    # Feedback on turns that are stored already.
    for session in ("go-1", "stay-0"):
        log.append_feedback(session, Feedback(rating=1, correction=f"better {session}"))
    with (log.folder / CURRENT).open("ab") as file:
        file.write(turn_line(Redactions((turn("go-torn", session="go"),)))[:120])
        file.write(b"\n" + turn_line(Redactions((turn("stay-torn", session="stay"),)))[:120])


def everything(folder: Path) -> str:
    """All text that the files of both folders hold."""
    found = [
        path.read_text(errors="replace")
        for path in (folder / "turns").rglob("*")
        if path.is_file() and path.name != FILE
    ]
    rows = from_table(ExperienceStore(folder / "experience").read())
    return "\n".join(found) + "\n".join(repr(row) for row in rows)


def logged(log: TurnLog) -> list[str]:
    """Ids of the turns in the log, and of the turns that feedback speaks of."""
    found = []
    for path in (*log.closed(), log.folder / CURRENT):
        segment = parse_segment(path.read_bytes() if path.exists() else b"")
        found += [*segment.turns, *(f"said of {key}" for key, _ in segment.feedback)]
    return found


def test_a_session_is_gone_from_every_place_and_another_is_whole(tmp_path, log, store) -> None:
    fill(log, store)
    assert '"go"' in everything(tmp_path) and "better go-1" in everything(tmp_path)
    report = forget_sessions(log, store, [], {"go"})
    # One turn that is logged, feedback on one that is stored, and the torn line.
    assert report == ForgetReport(sessions=1, log_lines=3, stored_turns=2, stored_files=2)
    left = everything(tmp_path)
    assert "go-" not in left.replace("nobody-go", "") and '"go"' not in left
    assert "stay-torn" in left
    assert logged(log) == ["stay-4", "said of stay-0"]
    log.compact(store)
    rows = {row.id: row for row in from_table(store.read())}
    assert sorted(rows) == ["stay-0", "stay-2", "stay-4"]
    assert rows["stay-0"].feedback.correction == "better stay-0"


def test_counting_changes_nothing(tmp_path, log, store) -> None:
    fill(log, store)
    files = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    counted = forget_sessions(log, store, [], {"go"}, dry_run=True)
    assert (counted.log_lines, counted.stored_turns, counted.stored_files) == (3, 2, 0)
    after = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert {p: b for p, b in after.items() if p.suffix != ".lock"} == {
        p: b for p, b in files.items() if p.suffix != ".lock"
    }


def test_what_a_server_still_holds_does_not_come_back(log, store) -> None:
    server = TurnLog(log.folder)
    server.append(turn("a", session="go"))
    forget_sessions(log, store, [], {"go"})
    server.append(turn("b", session="go"))
    server.append_feedback("a", Feedback(correction="late"))
    server.append(turn("c", session="stay"))
    assert logged(log) == ["c"]
    # Nor does a later start, which reads the ids from the disk.
    TurnLog(log.folder).append(turn("d", session="go"))
    assert logged(log) == ["c"]


def test_a_torn_tombstone_hides_no_later_one(log, store) -> None:
    log.append(turn("a", session="go"))
    with (log.folder / FILE).open("w") as file:
        file.write('{"sessions": ["to')
    forget_sessions(log, store, [], {"go"})
    assert TurnLog(log.folder).forgotten.sessions == set()
    reader = TurnLog(log.folder).forgotten
    reader.refresh()
    assert (reader.sessions, reader.turns) == ({"go"}, {"a"})


def test_quarantines_lose_the_sessions_lines_and_rows(tmp_path, log, store) -> None:
    lines = [
        {"line": n, "reason": "bad", "raw": json.dumps({"session": session, "messages": []})}
        for n, session in enumerate(("go", "stay", "gone"))
    ]
    text = tmp_path / "chats.jsonl"
    text.write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = tmp_path / "quarantine.parquet"
    pq.write_table(to_table([turn("a", session="go"), turn("b", session="stay")]), table)
    report = forget_sessions(log, store, [text, table, tmp_path / "none.jsonl"], {"go"})
    assert report.quarantined == 2
    assert [json.loads(line) for line in text.read_text().splitlines()] == lines[1:]
    assert [row.id for row in from_table(pq.read_table(table))] == ["b"]


def test_a_damaged_file_of_the_store_is_left_and_named(log, store) -> None:
    (path,) = store.append([turn("a", session="go")])
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(DigestError, match=r"part-"):
        forget_sessions(log, store, [], {"go"})
    assert path.exists()


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(SESSIONS, st.booleans()), max_size=8), st.sets(SESSIONS))
def test_exactly_the_other_sessions_turns_stay(tmp_path_factory, turns, gone) -> None:
    folder = tmp_path_factory.mktemp("any")
    log, store = TurnLog(folder / "turns", 700), ExperienceStore(folder / "experience")
    for n, (session, compact) in enumerate(turns):
        log.append(turn(str(n), session=session))
        if compact:
            log.compact(store)
    forget_sessions(log, store, [], gone)
    log.compact(store)
    found = {row.id for row in from_table(store.read())}
    assert found == {str(n) for n, (session, _) in enumerate(turns) if session not in gone}


def test_beside_writers_compactions_and_readers_no_other_turn_is_lost(log, store) -> None:
    faults: list[BaseException] = []

    def guarded(work) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                faults.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def write(name: str) -> None:
        own = TurnLog(log.folder, 2000)
        for n in range(40):
            session = "go" if n % 2 else "stay"
            own.append(turn(f"{name}-{n}-{session}", session=session))

    def compact() -> None:
        for _ in range(6):
            TurnLog(log.folder).compact(store)

    def read() -> None:
        for _ in range(20):
            ExperienceStore(store.folder).read()

    log.append(turn("first", session="go"))
    threads = [guarded(lambda: write("x")), guarded(lambda: write("y"))]
    threads += [guarded(compact), guarded(read)]
    for _ in range(5):
        forget_sessions(TurnLog(log.folder), store, [], {"go"})
    for thread in threads:
        thread.join()
    assert faults == []
    log.compact(store)
    forget_sessions(log, store, [], {"go"})
    expected = {f"{name}-{n}-stay" for name in "xy" for n in range(0, 40, 2)}
    assert {row.id for row in from_table(store.read())} == expected


FORGETTER = """
import os, signal, sys
from pathlib import Path
from macaron.experience.forget import forget_sessions
from macaron.experience.log import TurnLog
from macaron.experience.store import ExperienceStore

def forget(folder, syncs):
    sync, done = os.fsync, 0
    def killing(handle):
        nonlocal done
        done += 1
        if done > syncs:
            os.kill(os.getpid(), signal.SIGKILL)
        sync(handle)
    os.fsync = killing
    log, store = TurnLog(folder / "turns"), ExperienceStore(folder / "experience")
    forget_sessions(log, store, [], {"go"})
    os._exit(0)

for folder in map(Path, sys.argv[1:]):
    # This process has run no Arrow code yet, so that a fork of it is whole.
    for allowed in (int(folder.name), 10**9):
        if (child := os.fork()) == 0:
            forget(folder, allowed)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.full
def test_a_forgetting_killed_anywhere_and_run_again_ends_the_same(tmp_path) -> None:
    start = tmp_path / "before"
    fill(TurnLog(start / "turns", 3000), ExperienceStore(start / "experience"))
    points = 24
    folders = [tmp_path / str(n) for n in range(points)]
    for folder in folders:
        shutil.copytree(start, folder)
    command = [sys.executable, "-c", FORGETTER, *map(str, folders)]
    process = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    codes = [int(line) for line in process.stdout.splitlines()]
    assert len(codes) == 2 * points and set(codes[1::2]) == {0}
    assert 10 < codes[::2].count(-signal.SIGKILL) < points
    ends = [end(folder) for folder in folders]
    assert all(found == ends[-1] for found in ends)
    assert "go-" not in everything(folders[0]).replace("nobody-go", "")


def end(folder: Path) -> tuple[list[str], list[str], list[str]]:
    """The store's files, the log's turns, and what else there is."""
    stored = sorted(str(p.relative_to(folder)) for p in (folder / "experience").rglob("*.parquet"))
    others = sorted(p.name for p in (folder / "turns").rglob("*") if "segment" not in p.name)
    return stored, logged(TurnLog(folder / "turns")), others
