"""A broken night says why in one line and leaves the champion as it was."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project import (
    champion,
    command,
    edit,
    environment,
    last_cycle,
    macaron,
    make_project,
)

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("_server")]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, prefect_server: str) -> Path:
    """A project with a champion: its ancestor, after a night that went wrong early."""
    root = make_project(tmp_path_factory.mktemp("broken") / "house")
    os.environ["PREFECT_API_URL"] = prefect_server
    (root / "data/inbox").mkdir()
    _turns(root / "data/inbox/night.jsonl", good=2, bad=40)
    _fails(macaron(root, "improve"), 5, "40 of 74")
    (root / "data/inbox/night.jsonl").unlink()
    return root


@pytest.fixture(autouse=True)
def _champion_stays(house: Path) -> Iterator[None]:
    before = champion(house)
    yield
    assert champion(house) == before


def _turns(path: Path, good: int, bad: int) -> None:
    turn = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    lines = [json.dumps({"id": f"t{n}", "messages": turn}) for n in range(good)]
    path.write_text("\n".join([*lines, *["{broken"] * bad]) + "\n")


def _fails(done: "subprocess.CompletedProcess[str]", code: int, *words: str) -> None:
    lines = [line for line in done.stderr.splitlines() if line.startswith("macaron: ")]
    assert done.returncode == code, done.stderr
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in lines[0]


def test_a_file_with_40_percent_bad_rows(house: Path, tmp_path: Path) -> None:
    # Rollouts and good turns count as rows too, so that the bad ones are 40 % of all.
    _turns(tmp_path / "night.jsonl", good=28, bad=40)
    done = macaron(house, "improve", "--experience", str(tmp_path / "night.jsonl"))
    _fails(done, 5, "40 of 100 rows", "quarantined on import")
    assert last_cycle(house)["state"] == "failed"


def test_an_exploding_learning_rate(house: Path) -> None:
    profile = house / "models/profiles/nano.toml"
    kept = profile.read_text()
    edit(profile, "grpo", lr=1e30, max_grad_norm=1e30, warmup=0)
    done = macaron(house, "improve")
    profile.write_text(kept)
    _fails(done, 6, "not finite", "step")


def test_a_missing_adapter(house: Path) -> None:
    adapter = house / "models/pairs" / champion(house) / "adapters/L1/adapter_model.safetensors"
    aside = adapter.rename(adapter.with_suffix(".aside"))
    done = macaron(house, "improve")
    aside.rename(adapter)
    _fails(done, 4, "L1")


def test_another_hcp_than_the_champions(house: Path, tmp_path: Path) -> None:
    hcp = tmp_path / "other.toml"
    shipped = (house / "contracts/hcp/nano.toml").read_text()
    hcp.write_text(shipped.replace('system = "agent"', 'system = "Agent"'))
    done = macaron(house, "improve", "--hcp", str(hcp))
    _fails(done, 2, "HCP", champion(house), "leave --hcp out")


def test_a_server_that_does_not_answer(house: Path) -> None:
    nobody = "http://127.0.0.1:9/api"
    _fails(macaron(house, "improve", PREFECT_API_URL=nobody), 10, nobody, "does not answer")


def test_a_broken_hcp(house: Path, tmp_path: Path) -> None:
    hcp = tmp_path / "broken.toml"
    shipped = (house / "contracts/hcp/nano.toml").read_text()
    hcp.write_text(shipped.replace("max_tokens = 48", 'max_tokens = "many"', 1))
    done = macaron(house, "improve", "--hcp", str(hcp))
    _fails(done, 2, "specialists.L0.max_tokens", "many")


def test_a_contract_edited_in_the_middle_of_the_night(house: Path) -> None:
    contract = house / "contracts/v1.toml"
    kept, before = contract.read_text(), last_cycle(house)["id"]
    night = subprocess.Popen(
        command("improve", "--seed", "9"),
        cwd=house,
        env=environment(house),
        stderr=subprocess.PIPE,
        text=True,
    )
    while last_cycle(house)["id"] == before or not _curated(house):
        assert night.poll() is None
        time.sleep(0.05)
    edit(contract, "gates", margin=0.9)
    _, said = night.communicate()
    contract.write_text(kept)
    _fails(subprocess.CompletedProcess([], night.returncode, "", said), 4, "contract changed")


def _curated(root: Path) -> bool:
    cycle = root / ".macaron/cycles" / last_cycle(root)["id"]
    return (cycle / "receipts/curate.json").exists()


@pytest.fixture
def small_disk(house: Path) -> Iterator[Path]:
    """The state folder's cycles on a file system of one mebibyte."""
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    place = house / ".macaron" / "cycles"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "macaron-small", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk(house: Path, small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(bytes(1000 * 1024))
    _fails(macaron(house, "improve"), 9, "full")


def test_too_little_free_disk_is_seen_before_anything_starts(house: Path) -> None:
    done = macaron(house, "improve", MACARON_BUDGETS__MIN_FREE_DISK="99999999")
    _fails(done, 9, "MiB free")
