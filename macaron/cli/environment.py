"""The environment of a quiet cycle: no telemetry, no network look-ups, warnings only.

Telemetry is off whatever the user's environment says; every other value gives way to theirs.
"""

import os
from collections.abc import Mapping
from pathlib import Path

TELEMETRY = {
    "DO_NOT_TRACK": "1",
    "DVC_NO_ANALYTICS": "1",
    "GX_ANALYTICS_ENABLED": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "ITERATIVE_DO_NOT_TRACK": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
}
"""Every part's switch, off."""

QUIET = {
    "DS_LOG_LEVEL": "error",
    "GIT_TERMINAL_PROMPT": "0",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_OFFLINE": "1",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MPLBACKEND": "Agg",
    "PREFECT_CLI_PROMPT": "false",
    # The run's log goes to Prefect's API; the terminal has the cycle's own lines.
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_LEVEL": "INFO",
    "PREFECT_LOGGING_SERVER_LEVEL": "ERROR",
    # Leases in memory are lost with a killed worker, and its slot with them.
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": (
        "prefect.server.concurrency.lease_storage.filesystem"
    ),
    # A temporary server takes 20 s to start on two busy cores; Prefect gives up after 20.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PYTHONUNBUFFERED": "1",
    "PYTHONWARNINGS": "ignore",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
}
"""Defaults that a user's own variables override."""


def cycle_environment(state: Path, inherited: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a process that runs a cycle.

    Args:
        state: the project's state folder; Prefect's home is kept in it.
        inherited: variables to start from; the process's own by default.
    """
    base = os.environ if inherited is None else inherited
    home = {"PREFECT_HOME": str(state / "prefect")}
    return {**QUIET, **home, **base, **TELEMETRY}


def make_quiet(state: Path) -> None:
    """Makes this process's environment that of a cycle; call it before Prefect is imported."""
    os.environ.update(cycle_environment(state))
