"""One MLflow database a session, copied for each test: creating one takes seven seconds."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from macaron.registry.tracking import Tracking


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with MLflow's tables and no experiment of ours."""
    from mlflow import MlflowClient

    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(f"sqlite:///{path}", f"sqlite:///{path}").search_experiments()
    with sqlite3.connect(path) as database:
        database.execute("pragma wal_checkpoint(truncate)")
    return path


@pytest.fixture
def tracking(tmp_path: Path, empty_database: Path) -> Tracking:
    """A prepared store of the test's own."""
    folder = tmp_path / "mlflow"
    folder.mkdir()
    shutil.copy(empty_database, folder / "mlflow.db")
    store = open_tracking(tmp_path)
    store.prepare()
    return store


def open_tracking(tmp_path: Path) -> Tracking:
    """A new connection to the test's store, as another process would have."""
    uri = f"sqlite:///{tmp_path / 'mlflow' / 'mlflow.db'}"
    return Tracking(uri, "macaron", tmp_path / "mlflow" / "artifacts")
