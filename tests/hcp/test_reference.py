"""The page on HCP says what the schema says."""

import subprocess
import sys
from pathlib import Path

from scripts.hcp_reference import reference

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_in_the_docs_is_up_to_date() -> None:
    command = [sys.executable, "scripts/hcp_reference.py", "--check"]
    found = subprocess.run(
        command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr


def test_every_field_says_what_it_is_and_what_it_may_be() -> None:
    rows = [line.strip("| ").split(" | ") for line in reference().splitlines()[2:]]
    assert len(rows) > 50
    assert all(row[-1] and row[-1] != "None" for row in rows)
    assert {row[0] for row in rows} >= {"`specialists.<name>.result_chars`", "`pool.passes`"}
