"""The environment of a cycle: telemetry is off whatever is set, the rest gives way."""

from pathlib import Path

from macaron.cli.environment import TELEMETRY, cycle_environment


def test_telemetry_is_off_whatever_is_set() -> None:
    loud = dict.fromkeys(TELEMETRY, "please")
    found = cycle_environment(Path("/state"), loud)
    assert found["DO_NOT_TRACK"] == "1"
    assert found["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert found["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
    assert found["GX_ANALYTICS_ENABLED"] == "false"
    assert "please" not in found.values()


def test_a_users_variable_wins_over_a_default() -> None:
    found = cycle_environment(Path("/state"), {"PREFECT_LOGGING_LEVEL": "INFO", "MINE": "1"})
    assert (found["PREFECT_LOGGING_LEVEL"], found["MINE"]) == ("INFO", "1")
    assert found["HF_HUB_OFFLINE"] == "1"
    assert found["PREFECT_HOME"] == "/state/prefect"
    assert cycle_environment(Path("/state"), {"PREFECT_HOME": "/x"})["PREFECT_HOME"] == "/x"
