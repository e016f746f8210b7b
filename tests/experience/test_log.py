"""The turn log, and what a kill leaves of it."""

import json
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from macaron.errors import BusyError, ExperienceError, StorageError
from macaron.experience.log import CURRENT, TurnLog
from macaron.experience.redaction import Redactions
from macaron.experience.schema import Feedback, Trajectory
from macaron.experience.segment import parse_segment, turn_line
from macaron.experience.store import ExperienceStore
from macaron.experience.table import from_table
from tests.experience.rows import chat, turn

ROOT = Path(__file__).parents[2]


@pytest.fixture
def log(tmp_path) -> TurnLog:
    return TurnLog(tmp_path / "turns")


@pytest.fixture
def store(tmp_path) -> ExperienceStore:
    return ExperienceStore(tmp_path / "experience")


def line_of(row: Trajectory) -> bytes:
    return turn_line(Redactions((row,)))


def _ids(store: ExperienceStore) -> set[str]:
    return {row.id for row in from_table(store.read())}


def _python(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *(str(a) for a in arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_turns_and_later_feedback_become_rows(log, store) -> None:
    log.append(turn("a"))
    log.append_feedback("a", Feedback(rating=1, at="2026-11-29T11:00:00+00:00"))
    log.append(turn("b"))
    log.append_feedback("a", Feedback(correction="four", at="2026-11-29T12:00:00+00:00"))
    report = log.compact(store)
    assert (report.segments, report.turns, report.feedback, report.set_aside) == (1, 2, 2, 0)
    at = "2026-11-29T12:00:00+00:00"
    said = Feedback(rating=1, correction="four", at=at)
    assert from_table(store.read()) == [turn("a", feedback=said), turn("b")]
    assert {p.suffix for p in log.folder.iterdir()} == {".lock"}


def test_feedback_finds_a_turn_that_was_compacted_before(log, store) -> None:
    log.append(turn("a"))
    log.compact(store)
    log.append_feedback("a", Feedback(outcome="failure"))
    assert log.compact(store).feedback == 1
    (row,) = from_table(store.read())
    assert row.feedback.outcome == "failure" and row.feedback.at is not None


def test_feedback_for_a_turn_nobody_logged_is_set_aside(log, store) -> None:
    log.append(turn("a"))
    log.append_feedback("ghost", Feedback(rating=1))
    report = log.compact(store)
    assert (report.turns, report.feedback, report.set_aside) == (1, 0, 1)
    (line,) = Path(report.set_aside_files[0]).read_text().splitlines()
    assert json.loads(line)["reason"] == "feedback for an unknown turn"


def test_compacting_nothing_does_nothing(log, store) -> None:
    assert log.compact(store).segments == 0
    log.append(turn("a"))
    log.compact(store)
    assert log.compact(store).segments == 0
    assert not (log.folder / CURRENT).exists()


def test_segments_are_closed_by_size(log, store) -> None:
    small = TurnLog(log.folder, segment_bytes=1)
    for key in "abc":
        small.append(turn(key))
    small.append_feedback("a", Feedback(rating=-1))
    assert len(list(log.folder.glob("segment-*.log"))) == 4
    assert small.compact(store).segments == 4
    assert _ids(store) == set("abc")
    assert from_table(store.read())[0].feedback.rating == -1


def test_a_bad_sampler_s_numbers_are_logged_for_validation_to_see(log, store) -> None:
    log.append(turn("a", logprobs=(0.0, 0.0, float("nan"), float("-inf"))))
    assert log.compact(store).turns == 1


@pytest.mark.parametrize("row", [turn(session=None), turn(messages=chat("half \ud800"))])
def test_a_turn_that_does_not_fit_is_refused_at_once(log, row) -> None:
    with pytest.raises(ExperienceError):
        log.append(row)
    with pytest.raises(ExperienceError):
        log.append_feedback("a", Feedback(correction="half \ud800"))
    assert not (log.folder / CURRENT).exists()


def test_a_row_that_stopped_fitting_is_set_aside_not_fatal(log, store) -> None:
    log.append(turn("a"))
    with (log.folder / CURRENT).open("ab") as file:
        file.write(line_of(turn("odd", session=None)))
    report = log.compact(store)
    assert (report.turns, report.set_aside) == (1, 1) and _ids(store) == {"a"}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 4), st.floats(0, 1))
def test_wherever_the_last_line_is_torn_the_lines_before_it_live(whole, share) -> None:
    lines = [line_of(turn(str(i))) for i in range(whole + 1)]
    cut = int(share * (len(lines[-1]) - 1))
    segment = parse_segment(b"".join(lines[:-1]) + lines[-1][:cut])
    complete = cut == len(lines[-1]) - 1
    assert list(segment.turns) == [str(i) for i in range(whole + complete)]
    assert len(segment.bad) == (0 < cut < len(lines[-1]) - 1)
    assert all("torn" in bad["reason"] for bad in segment.bad)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=3))
def test_damage_costs_only_the_lines_it_touches(position, junk) -> None:
    data = b"".join(line_of(turn(str(i))) for i in range(5))
    start = position % len(data)
    damaged = data[:start] + junk + data[start + len(junk) :]
    segment = parse_segment(damaged)
    first = data[:start].count(b"\n")
    last = data[: start + len(junk)].count(b"\n")
    untouched = [str(i) for i in range(5) if not first - 1 <= i <= last + 1]
    assert set(untouched) <= set(segment.turns) <= {str(i) for i in range(5)}
    assert all(segment.turns[key] == turn(key) for key in segment.turns)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_crash_the_reader(data) -> None:
    assert not parse_segment(data).turns


def test_a_torn_line_does_not_swallow_the_next(log, store) -> None:
    log.append(turn("a"))
    with (log.folder / CURRENT).open("ab") as file:
        file.write(line_of(turn("torn"))[:40])
    log.append(turn("b"))
    report = log.compact(store)
    assert (report.turns, report.set_aside) == (2, 1) and _ids(store) == {"a", "b"}


def test_a_full_disk_leaves_no_half_line(log, store, monkeypatch) -> None:
    log.append(turn("a"))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("macaron.experience.log.os.fsync", full)
        with pytest.raises(StorageError, match="disk is full"):
            log.append(turn("lost"))
    log.append(turn("b"))
    report = log.compact(store)
    assert report.set_aside == 0 and _ids(store) == {"a", "b"}


def test_two_compactions_at_once_are_refused(log, store) -> None:
    log.append(turn("a"))
    with log._lock("compact.lock"), pytest.raises(BusyError):
        log.compact(store)
    assert log.compact(store).turns == 1


def test_threads_share_a_log(log, store) -> None:
    def write(name: str) -> None:
        for i in range(10):
            log.append(turn(f"{name}{i}"))

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log.compact(store).turns == 40


WRITER = """
import sys
from pathlib import Path
from macaron.experience.log import TurnLog
from tests.experience.rows import turn
log = TurnLog(Path(sys.argv[1]))
for i in range(int(sys.argv[3])):
    log.append(turn(f"{sys.argv[2]}{i}", messages=({"role": "user", "content": "x" * 20000},)))
    print(f"{sys.argv[2]}{i}", flush=True)
"""


def test_what_a_killed_process_logged_is_there(log, store) -> None:
    killed = _python(WRITER, log.folder, "killed", 100_000)
    other = _python(WRITER, log.folder, "other", 30)
    logged = {killed.stdout.readline().strip() for _ in range(20)}
    killed.send_signal(signal.SIGKILL)
    logged |= {line.strip() for line in killed.stdout if line.endswith("\n")}
    logged |= {line.strip() for line in other.stdout}
    assert killed.wait() == -signal.SIGKILL and other.wait() == 0
    log.append(turn("after"))
    report = log.compact(store)
    assert logged | {"after"} <= _ids(store)
    # A turn may be on the disk whose writer died before it could say so.
    assert len(_ids(store)) <= len(logged) + 2 and report.set_aside <= 1


COMPACTOR = """
import os, signal, sys
from pathlib import Path
from macaron.experience.log import TurnLog
from macaron.experience.store import ExperienceStore

def compact(folder, syncs):
    sync, done = os.fsync, 0
    def killing(handle):
        nonlocal done
        done += 1
        if done > syncs:
            os.kill(os.getpid(), signal.SIGKILL)
        sync(handle)
    os.fsync = killing
    TurnLog(folder / "turns").compact(ExperienceStore(folder / "experience"))
    os._exit(0)

for folder in map(Path, sys.argv[1:]):
    syncs = int(folder.name)
    # This process has run no Arrow code yet, so that a fork of it is whole.
    for allowed in (syncs, 10**9):
        if (child := os.fork()) == 0:
            compact(folder, allowed)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_a_compaction_killed_anywhere_and_run_again_ends_the_same(tmp_path) -> None:
    log = TurnLog(tmp_path / "before", segment_bytes=3000)
    for i in range(4):
        log.append(turn(str(i), created_at=f"2026-11-2{7 + i % 2}T10:00:00+00:00"))
        log.append_feedback(str(i // 3), Feedback(rating=1, at=f"2026-11-29T10:00:0{i}+00:00"))
    with (log.folder / CURRENT).open("ab") as file:
        file.write(line_of(turn("torn"))[:40])
    assert list(log.folder.glob("segment-*.log"))
    points = 14
    folders = [tmp_path / str(n) for n in range(points)]
    for folder in folders:
        shutil.copytree(log.folder, folder / "turns")
    process = _python(COMPACTOR, *folders)
    codes = [int(line) for line in process.stdout]
    assert process.wait() == 0 and len(codes) == 2 * points
    kills = codes[::2].count(-signal.SIGKILL)
    assert 8 < kills < points and set(codes[1::2]) == {0}
    ends = [_end(folder) for folder in folders]
    assert all(end == ends[-1] for end in ends)
    rows = from_table(ExperienceStore(folders[0] / "experience").read())
    assert sorted(row.id for row in rows) == list("0123")
    assert {row.id for row in rows if row.feedback.rating == 1} == {"0", "1"}


def _end(folder: Path) -> tuple[list[str], list[str], str]:
    """The store's files, the log's, and what was set aside."""
    stored = sorted(str(p.relative_to(folder)) for p in (folder / "experience").rglob("*.parquet"))
    logged = sorted(p.name for p in (folder / "turns").iterdir() if p.is_file())
    aside = "".join(p.read_text() for p in (folder / "turns" / "set-aside").glob("*.jsonl"))
    return stored, logged, aside
