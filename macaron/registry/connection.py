"""A connection to MLflow: made once, quiet, and with every fault as one line.

Importing this module does not import MLflow, which takes seconds.
"""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from macaron.errors import RegistryError, StorageError
from macaron.registry.lock import exclusive

P = ParamSpec("P")
R = TypeVar("R")

_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # Seven tries by default, which is minutes of silence when the server is down.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
}


def one_line(function: Callable[P, R]) -> Callable[P, R]:
    """MLflow's and the database's faults, as one line naming the store."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError

        try:
            return function(*args, **kwargs)
        except (MlflowException, SQLAlchemyError) as error:
            where = getattr(args[0], "uri", "MLflow")
            words = str(error).strip().splitlines()[0]
            if "disk is full" in str(error):
                raise StorageError("the disk is full", where=where, mend="free space") from error
            raise RegistryError(
                f"MLflow: {words:.200}", where=where, mend="check stores.mlflow in macaron.toml"
            ) from error

    return wrapped


class Connection:
    """One MLflow store.

    Args:
        uri: absolute tracking URI, which also holds the registry.
        model_name: the registered model, and the experiment.
        artifacts: local folder for artifacts; a remote server keeps its own, and then only the
            lock beside this folder is used.
    """

    def __init__(self, uri: str, model_name: str, artifacts: Path) -> None:
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        self.uri, self.model_name, self.artifacts = uri, model_name, artifacts.resolve()
        self.lock_file = self.artifacts.parent / f"{model_name}.lock"

    @functools.cached_property
    def client(self) -> Any:
        """MLflow's client; made under the lock, since it creates the database."""
        import logging

        from mlflow import MlflowClient

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        return MlflowClient(self.uri, self.uri)

    @functools.cached_property
    def experiment(self) -> str:
        """Id of the experiment, created if need be."""
        found = self.client.get_experiment_by_name(self.model_name)
        if found is None:
            remote = self.uri.startswith(("http://", "https://"))
            location = None if remote else self.artifacts.as_uri()
            return str(self.client.create_experiment(self.model_name, location))
        if found.lifecycle_stage == "deleted":
            self.client.restore_experiment(found.experiment_id)
        return str(found.experiment_id)

    @one_line
    def prepare(self) -> None:
        """Creates the database and the experiment, once, whoever else tries at the same time."""
        with exclusive(self.lock_file):
            _ = self.experiment
