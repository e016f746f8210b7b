"""A killed training goes on where it was and ends in the same bits."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from macaron.errors import TrainingError
from tests.learner.conftest import EXAMPLES, config, data, state

SETTINGS = config(steps=7, checkpoint_every=3, experience_batch=2)
GIVEN = data(examples=EXAMPLES)


class KilledError(Exception):
    pass


def kill_after(step: int) -> Callable[[dict[str, Any]], None]:
    def hook(metrics: dict[str, Any]) -> None:
        if metrics["step"] == step:
            raise KilledError

    return hook


@pytest.fixture(scope="module")
def unbroken() -> dict[str, Any]:
    return {}


def whole_run(train: Callable[..., Any], unbroken: dict[str, Any]) -> tuple[bytes, Any]:
    if not unbroken:
        engine, summary, _ = train(GIVEN, SETTINGS)
        unbroken.update(state=state(engine, "one"), summary=summary)
    return unbroken["state"], unbroken["summary"]


@pytest.mark.parametrize("killed", [1, 3, 4, 6, 7])
def test_resumed_is_unbroken_bit_for_bit(
    train: Callable[..., Any], unbroken: dict[str, Any], tmp_path: Path, killed: int
) -> None:
    expected, summary = whole_run(train, unbroken)
    with pytest.raises(KilledError):
        train(GIVEN, SETTINGS, checkpoint=tmp_path, on_step=kill_after(killed))
    engine, found, steps = train(GIVEN, SETTINGS, checkpoint=tmp_path)
    assert state(engine, "one") == expected
    assert found == summary
    done = {1: 0, 3: 3, 4: 3, 6: 6, 7: 7}[killed]
    assert [m["step"] for m in steps] == list(range(done + 1, 8))


def test_killed_again_and_again(
    train: Callable[..., Any], unbroken: dict[str, Any], tmp_path: Path
) -> None:
    for step in (2, 4, 5):
        with pytest.raises(KilledError):
            train(GIVEN, SETTINGS, checkpoint=tmp_path, on_step=kill_after(step))
    assert (
        state(train(GIVEN, SETTINGS, checkpoint=tmp_path)[0], "one")
        == whole_run(train, unbroken)[0]
    )


def test_checkpoint_every_so_many_steps(train: Callable[..., Any], tmp_path: Path) -> None:
    seen: list[int] = []

    def look(_: dict[str, Any]) -> None:
        file = tmp_path / "state.json"
        seen.append(json.loads(file.read_text())["step"] if file.exists() else 0)

    train(GIVEN, SETTINGS, checkpoint=tmp_path, on_step=look)
    assert seen == [0, 0, 3, 3, 3, 6, 7]
    kept = sorted(p.name for p in tmp_path.iterdir())
    assert kept == ["adapter-7.safetensors", "optimizer-7-0.safetensors", "state.json"]


def test_a_half_written_checkpoint_is_not_seen(
    train: Callable[..., Any], unbroken: dict[str, Any], tmp_path: Path
) -> None:
    """Killed between the tensors of step 6 and the file that names them."""
    with pytest.raises(KilledError):
        train(GIVEN, SETTINGS, checkpoint=tmp_path, on_step=kill_after(4))
    (tmp_path / "optimizer-6-0.safetensors").write_bytes(b"half")
    (tmp_path / ".adapter-6.safetensors.x1").write_bytes(b"")
    engine, _, steps = train(GIVEN, SETTINGS, checkpoint=tmp_path)
    assert steps[0]["step"] == 4
    assert state(engine, "one") == whole_run(train, unbroken)[0]


@pytest.mark.parametrize("change", ["seed", "config", "prompts", "examples", "start"])
def test_a_checkpoint_of_another_run_is_refused(
    train: Callable[..., Any], make_engine: Callable[..., Any], tmp_path: Path, change: str
) -> None:
    with pytest.raises(KilledError):
        train(GIVEN, SETTINGS, checkpoint=tmp_path, on_step=kill_after(3))
    given: dict[str, Any] = {"given": GIVEN, "settings": SETTINGS}
    if change == "seed":
        given["seed"] = 2
    elif change == "config":
        given["settings"] = SETTINGS.model_copy(update={"lr": 1e-3})
    elif change == "prompts":
        given["given"] = data(examples=EXAMPLES).__class__([[1]], GIVEN.score, EXAMPLES)
    elif change == "examples":
        given["given"] = data(examples=EXAMPLES[1:])
    else:
        given["engine"] = make_engine()
        from tests.engines.conftest import stir

        stir(given["engine"], "one", 0.2)
    with pytest.raises(TrainingError, match="checkpoint is of another run"):
        train(checkpoint=tmp_path, **given)


@pytest.mark.parametrize("name", ["adapter-3.safetensors", "optimizer-3-0.safetensors"])
@pytest.mark.parametrize("fault", ["flipped", "missing"])
def test_a_damaged_checkpoint_is_refused(
    train: Callable[..., Any], tmp_path: Path, name: str, fault: str
) -> None:
    with pytest.raises(KilledError):
        train(GIVEN, SETTINGS, checkpoint=tmp_path, on_step=kill_after(3))
    file = tmp_path / name
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.unlink()
    if fault == "flipped":
        file.write_bytes(content)
    with pytest.raises(TrainingError, match=f"{name} is damaged"):
        train(GIVEN, SETTINGS, checkpoint=tmp_path)


SCRIPT = """
import sys
from pathlib import Path
from macaron.engines.local import load_local
from macaron.learner.trainer import train_specialist
from tests.learner.conftest import config, data, state
engine = load_local(Path(sys.argv[1]), {})
engine.create("one", 4, 8, 0)
settings = config(steps=40, checkpoint_every=3)
train_specialist(
    engine, "one", data(), settings, specialist="L0", seed=1, checkpoint=Path(sys.argv[2]),
    on_step=lambda m: print(m["step"], flush=True),
)
Path(sys.argv[3]).write_bytes(state(engine, "one"))
"""


@pytest.mark.full
def test_sigkill_in_the_middle(bases: dict[str, Path], tmp_path: Path) -> None:
    def start(name: str) -> subprocess.Popen[str]:
        paths = [bases["qwen3"], tmp_path / name, tmp_path / f"{name}.bin"]
        command = [sys.executable, "-c", SCRIPT, *map(str, paths)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    unbroken = start("a")
    for killed_after in (7, 14):
        process = start("b")
        assert process.stdout
        for line in process.stdout:
            if int(line) >= killed_after:
                time.sleep(0.01)
                os.kill(process.pid, signal.SIGKILL)
                break
        process.wait()
        process.stdout.close()
    last = start("b")
    first, _ = last.communicate()
    assert int(first.split()[0]) > 1
    unbroken.communicate()
    assert (last.returncode, unbroken.returncode) == (0, 0)
    assert (tmp_path / "a.bin").read_bytes() == (tmp_path / "b.bin").read_bytes()
