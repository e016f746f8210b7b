"""What every test runs in: a quiet, offline, single-threaded process without the user's settings.

Tiers: unmarked tests take seconds; `full` start services or train and run with MACARON_FULL=1
(`make test` sets it); `slow` take minutes and run with MACARON_SLOW=1; `gpu` need CUDA. A test
that doesn't run is shown as skipped, with how to run it.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from macaron.cli.environment import make_quiet

FULL = bool(os.environ.get("MACARON_FULL"))
SLOW = bool(os.environ.get("MACARON_SLOW"))
HOME = Path(tempfile.mkdtemp(prefix="macaron-tests-"))


TIERS = ("MACARON_FULL", "MACARON_SLOW")


def _settings_of_the_user() -> list[str]:
    names = ("MLFLOW_TRACKING_URI", "PREFECT_API_URL", "PREFECT_HOME", "PREFECT_PROFILE")
    ours = [n for n in os.environ if n.startswith("MACARON_") and n not in TIERS]
    return ours + [n for n in names if n in os.environ]


# At import: libraries read these when test modules import them.
for _name in _settings_of_the_user():
    del os.environ[_name]
make_quiet(HOME)
os.environ["OMP_NUM_THREADS"] = "1"
# Git of its own, so that neither a user's configuration nor its absence matters.
(HOME / "gitconfig").write_text(
    "[user]\nname = Tests\nemail = tests@example.com\n[init]\ndefaultBranch = main\n"
)
os.environ |= {"GIT_CONFIG_GLOBAL": str(HOME / "gitconfig"), "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.fixture(autouse=True)
def _own_environment() -> Iterator[None]:
    """What a test sets in the environment ends with it."""
    before = dict(os.environ)
    yield
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips the tiers that were not asked for or cannot run here."""
    for item in items:
        if item.get_closest_marker("slow") and not SLOW:
            item.add_marker(pytest.mark.skip(reason="slow: run with MACARON_SLOW=1"))
        if item.get_closest_marker("full") and not FULL:
            item.add_marker(pytest.mark.skip(reason="full: run with make test, or MACARON_FULL=1"))
        if item.get_closest_marker("gpu") and not _cuda():
            item.add_marker(pytest.mark.skip(reason="gpu: no CUDA device here"))


def _cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def pytest_unconfigure() -> None:
    """Removes what services of the tests kept at home."""
    shutil.rmtree(HOME, ignore_errors=True)
