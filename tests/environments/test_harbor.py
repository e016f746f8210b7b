"""Task folders in Harbor's format: what is read, what is refused, and what the box holds."""

import logging
import os
import random
import shutil
from pathlib import Path

import pytest

from benchmarks.surface_policies import Script, call, play
from macaron.environments import environment, verify
from macaron.environments.base import Task
from macaron.environments.box import lacking
from macaron.environments.harbor import HarborTasks, Workplace, read_reward
from macaron.environments.harbor_task import NeedsContainerError, read_folder
from macaron.errors import ConfigError, DigestError
from macaron.harness.session import Session
from macaron.harness.tools import ToolBox
from macaron.hcp.document import parse_hcp

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / "harbor_tasks"
NAME = f"harbor:{FOLDER}"
RIGHT = """echo '{"north": 42, "south": 14, "east": 1}' > totals.json"""

boxed = pytest.mark.skipif(bool(lacking()), reason=lacking() or "there are boxes")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the task that can be changed."""
    return shutil.copytree(FOLDER / "tally", tmp_path / "tally")


def attempt() -> tuple[Task, Workplace, ToolBox]:
    made = environment(NAME)
    assert isinstance(made, HarborTasks)
    task = made.tasks()[0]
    world = made.world(task)
    return task, world, ToolBox(world.tools())


def shell(box: ToolBox, command: str) -> str:
    return str(box.run("bash", {"command": command}))


def test_a_folder_is_read_and_what_needs_a_container_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, logger="macaron.environments"):
        made = HarborTasks(FOLDER, "harbor:here")
    assert [record.getMessage() for record in caplog.records] == [
        f"left out: {FOLDER}/needs-image: needs a container: "
        "its Dockerfile has RUN apt-get update && apt-get install -y"
    ]
    (task,) = made.tasks()
    assert (task.kind, task.data["name"]) == ("easy", "macaron/tally")
    assert task.messages[0]["content"].startswith("The file `/app/sales.csv`")
    assert made.sample(random.Random(0), task.split) == task
    with pytest.raises(ConfigError, match="of kind hard"):
        made.sample(random.Random(0), task.split, "hard")


@boxed
def test_the_solution_passes_and_doing_nothing_does_not() -> None:
    task, world, _ = attempt()
    assert verify([task], ["42 14 1"])[0].reward == 0.0
    world.solve()
    assert world.score("").reward == 1.0


@boxed
def test_a_command_works_in_the_tasks_files_and_later_ones_see_what_it_did() -> None:
    _, world, box = attempt()
    assert shell(box, "pwd; ls; echo $SHOPS $TZ") == "/app\nnotes\nsales.csv\nsales.csv UTC\n"
    assert shell(box, "ls nothing").endswith("[exit status 2]")
    shell(box, RIGHT)
    assert shell(box, "cut -c1-10 totals.json") == '{"north": \n'
    assert world.score("").reward == 1.0
    _, other, _ = attempt()
    assert other.score("").reward == 0.0


@boxed
def test_the_box_holds_neither_tests_nor_rewards_nor_the_host() -> None:
    os.environ["SECRET_TOKEN"] = "s3cret"
    _, world, box = attempt()
    for path in ("/tests", "/logs", "/solution", "/work", "/home", "/etc/passwd", str(FOLDER)):
        assert "No such file" in shell(box, f"ls {path}")
    assert "s3cret" not in shell(box, "env; cat /proc/*/environ")
    assert "unreachable" in shell(box, "exec 3<>/dev/tcp/10.0.0.1/80")
    shell(box, "mkdir -p /logs/verifier /tests; echo 1 > /logs/verifier/reward.txt")
    assert world.score("").reward == 0.0


@boxed
def test_nothing_that_a_command_started_outlives_it_and_a_large_file_is_cut() -> None:
    _, _, box = attempt()
    shell(box, "(sleep 0.3; echo late > late.txt) & echo started")
    assert shell(box, "sleep 0.6; ls late.txt 2>&1").startswith("ls: cannot access")
    shell(box, "head -c 90M /dev/zero > big; true")
    assert shell(box, "stat -c %s big") == f"{64 << 20}\n"
    assert "MemoryError" in shell(box, "python3 -c 'bytearray(3 << 30)'")


@pytest.mark.parametrize(
    ("files", "reward", "error"),
    [
        ({"reward.txt": "1\n"}, 1.0, ""),
        ({"reward.txt": "0.25"}, 0.25, ""),
        ({"reward.json": '{"a": 1, "b": 0.5}'}, 0.75, ""),
        ({"reward.json": '{"a": 1, "reward": 0.5}', "reward.txt": "1"}, 0.5, ""),
        ({}, None, "left no reward"),
        ({"reward.txt": ""}, None, "reward.txt: "),
        ({"reward.txt": "nan"}, None, "reward.txt: "),
        ({"reward.txt": "NaN"}, None, "should be a number in"),
        ({"reward.txt": "1e999"}, None, "should be a number in"),
        ({"reward.txt": "7"}, None, "should be a number in"),
        ({"reward.txt": "true"}, None, "should be a number in"),
        ({"reward.json": '{"a": "1"}'}, None, "a should be a number in"),
        ({"reward.json": "{}"}, None, "there is no reward"),
    ],
)
def test_a_reward_file_is_a_number_or_the_score_is_invalid(
    tmp_path: Path, files: dict[str, str], reward: float | None, error: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    score = read_reward(tmp_path)
    assert score.reward == reward
    assert error in score.error


def test_a_reward_file_that_is_a_link_is_none(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("1")
    (tmp_path / "reward.txt").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "reward.json")
    assert read_reward(tmp_path).reward is None


@boxed
def test_tests_that_do_not_end_or_leave_nothing_are_invalid(folder: Path) -> None:
    config = (folder / "task.toml").read_text()
    (folder / "task.toml").write_text(config.replace("60.0\nenv", "1.0\nenv"))
    for script, error in (("sleep 20", "did not end in 1 s"), ("exit 0", "left no reward")):
        (folder / "tests/test.sh").write_text(script)
        made = HarborTasks(folder, "harbor:copy")
        score = made.world(made.tasks()[0]).score("")
        assert score.reward is None
        assert error in score.error


def test_files_that_changed_are_noticed(folder: Path) -> None:
    made = HarborTasks(folder, "harbor:copy")
    task = made.tasks()[0]
    (folder / "tests/check.py").write_text("")
    with pytest.raises(DigestError, match="its files have changed"):
        made.world(task)


@pytest.mark.parametrize(
    ("file", "old", "new", "lack"),
    [
        ("task.toml", "TZ", "TZ", ""),
        ("task.toml", "[solution]", "[[steps]]\nname = 'one'\n[solution]", "several steps"),
        ("task.toml", "build_", 'docker_image = "x/y"\nbuild_', "environment.docker_image is set"),
        ("task.toml", "build_", 'os = "windows"\nbuild_', "environment.os is windows"),
        ("task.toml", "WANTED = \"3\"", 'WANTED = "${KEY}"', "WANTED is taken from the host"),
        ("task.toml", "60.0\nenv", "60.0\nenvironment_mode = 'separate'\nenv", "of its own"),
        ("environment/Dockerfile", "WORKDIR /app", "RUN make\nWORKDIR /app", "has RUN make"),
        ("environment/Dockerfile", "python:3.12-slim", "nginx:1", "its image is from nginx:1"),
        ("environment/Dockerfile", "WORKDIR /app", "", "sets no WORKDIR"),
        ("environment/Dockerfile", "/app/notes", "/usr/notes", "it writes to /usr/notes"),
        ("environment/Dockerfile", "COPY notes", "COPY --from=x notes", "has COPY --from=x"),
        ("tests/test.sh", "mkdir", "pip3 install pytest\nmkdir", "installs or downloads (pip3)"),
    ],
)  # fmt: skip
def test_what_needs_a_container_is_one_line(
    folder: Path, file: str, old: str, new: str, lack: str
) -> None:
    text = (folder / file).read_text()
    assert old in text or not lack
    (folder / file).write_text(text.replace(old, new))
    if not lack:
        assert read_folder(folder).name == "macaron/tally"
        return
    with pytest.raises(NeedsContainerError) as found:
        read_folder(folder)
    assert lack in str(found.value)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("file", "text", "error"),
    [
        ("task.toml", "[a", "not TOML"),
        ("task.toml", "verifier = 1", "verifier should be a table"),
        ("instruction.md", None, "there is no instruction.md"),
        ("tests/test.sh", None, "there is no tests/test.sh"),
        ("environment/sales.csv", None, r"COPY sales.csv: there is no such file"),
    ],
)
def test_a_broken_folder_is_one_line(folder: Path, file: str, text: str | None, error: str) -> None:
    (folder / file).unlink()
    if text is not None:
        (folder / file).write_text(text)
    with pytest.raises(ConfigError, match=error):
        read_folder(folder)


def test_no_folder_and_no_task_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        environment(f"harbor:{tmp_path}/none")
    with pytest.raises(ConfigError, match=r"no task\.toml"):
        environment(f"harbor:{tmp_path}")
    with pytest.raises(NeedsContainerError):
        HarborTasks(FOLDER / "needs-image", "harbor:one")


HARNESS = """
version = "1.1"
[router]
system = "route"
default = "L1"
[specialists.L1]
name = "agent"
system = "agent"
max_tokens = 512
temperature = 0.0
tools = ["bash"]
[tools.bash]
description = "Run a command."
source = "environment"
[tools.bash.parameters]
type = "object"
required = ["command"]
properties.command.type = "string"
"""


@boxed
def test_a_session_solves_a_task_through_the_harness() -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(ROOT / "models/nano")
    task, world, _ = attempt()

    def policy(_: Task) -> Script:
        (listed,) = yield call("bash", command="ls")
        assert listed == "notes\nsales.csv\n"
        yield call("bash", command=RIGHT)
        yield "done"

    session = Session(
        tokenizer,
        parse_hcp(HARNESS, "test").hcp,
        {"environment": world.tools()},
        window=8192,
    )
    turn = play(session, tokenizer, task, policy)
    assert (turn.stop_reason, turn.rounds, turn.calls) == ("answer", 3, 2)
    assert world.score(turn.answer).reward == 1.0
