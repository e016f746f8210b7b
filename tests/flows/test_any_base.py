"""`--base` runs the same cycle on any causal LM with a chat template, to an honest rejection."""

from pathlib import Path

import pytest

from tests.project import last_cycle, macaron, make_project
from tests.tiny import Architecture, tiny_base

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("_server")]


@pytest.mark.parametrize("architecture", ["llama", "qwen3_moe"])
def test_a_random_base_is_rejected_honestly(tmp_path: Path, architecture: Architecture) -> None:
    base = tiny_base(tmp_path / architecture, architecture)
    root = make_project(tmp_path / "house", inbox=True)
    done = macaron(root, "improve", "--base", str(base))
    assert done.returncode == 3, done.stderr
    assert "no improve suite gained" in done.stderr
    assert last_cycle(root)["state"] == "rejected"


def test_a_folder_that_is_no_base_is_one_line(tmp_path: Path) -> None:
    root = make_project(tmp_path / "house")
    done = macaron(root, "improve", "--base", str(tmp_path))
    assert done.returncode == 2, done.stderr
    assert "config.json" in done.stderr
    assert "Traceback" not in done.stderr
