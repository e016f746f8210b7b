"""A project of its own for a test: a git repository with the house's documents and flows."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import tomlkit

from macaron.cli.environment import cycle_environment
from macaron.mindforge.stores import tracking
from macaron.settings import load_settings

HOUSE = Path(__file__).parents[1]
PARTS = ("flows", "tasks", "contracts", "data", "models/profiles", "macaron.toml", "prefect.yaml")

# No warm-up: two steps have to move an adapter by more than rounding.
SMALL_GRPO = {
    "warmup": 0,
    "steps": 2,
    "prompts": 4,
    "group": 4,
    "routing_batch": 4,
    "experience_batch": 4,
}
SMALL_ITEMS = 24


def make_project(
    folder: Path, *, base: Path | None = None, inbox: bool = False, **grpo: float
) -> Path:
    """A project whose cycles are small: few steps, few rollouts, few sealed items.

    Args:
        folder: made; becomes the root.
        base: base model; the shipped nano by default.
        inbox: whether to keep the shipped sample of turns.
        grpo: fields of the profile's [grpo] to change further.
    """
    for part in PARTS:
        source, target = HOUSE / part, folder / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    shutil.copy(HOUSE / ".gitignore", folder)
    shutil.rmtree(folder / "data" / "experience", ignore_errors=True)
    if not inbox:
        shutil.rmtree(folder / "data" / "inbox", ignore_errors=True)
    edit(folder / "models/profiles/nano.toml", rollouts=8, base=str(base or HOUSE / "models/nano"))
    edit(folder / "models/profiles/nano.toml", "grpo", **SMALL_GRPO | grpo)
    contract = tomlkit.parse((folder / "contracts/v1.toml").read_text())
    for suite in contract["suites"]:
        suite["items"] = SMALL_ITEMS
    (folder / "contracts/v1.toml").write_text(tomlkit.dumps(contract))
    for command in ("init -q", "add -A", "commit -qm start"):
        subprocess.run(["git", *command.split()], cwd=folder, check=True)
    return folder


def edit(path: Path, *table: str, **values: Any) -> None:
    """Changes values in a table of a TOML file."""
    document = tomlkit.parse(path.read_text())
    node: Any = document
    for name in table:
        node = node[name]
    node.update(values)
    path.write_text(tomlkit.dumps(document))


def macaron(root: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Runs the command line in the project, as a person would."""
    return subprocess.run(
        command(*arguments),
        cwd=root,
        env=environment(root, **variables),
        capture_output=True,
        text=True,
        check=False,
    )


def command(*arguments: str) -> list[str]:
    """The command line's command."""
    return [sys.executable, "-m", "macaron.cli.main", *arguments]


def environment(root: Path, **variables: str) -> dict[str, str]:
    """A person's environment in the project, with Prefect's server where a test started one."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("MACARON_")}
    home = {} if "PREFECT_API_URL" in os.environ else {"PREFECT_HOME": str(root / ".prefect")}
    return cycle_environment(root / ".macaron", inherited | home) | variables


def last_cycle(root: Path) -> dict[str, Any]:
    """The record of the project's latest cycle."""
    records = sorted((root / ".macaron" / "cycles").glob("*/cycle.json"))
    value: dict[str, Any] = json.loads(records[-1].read_text())
    return value


def champion(root: Path) -> str:
    """Id of the champion's pair, from the registry."""
    settings = load_settings(root)
    found = tracking(settings, settings.model_name).champion()
    assert found is not None
    return found.pair_id
