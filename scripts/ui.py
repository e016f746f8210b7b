"""Opens MLflow on the project's records, at http://127.0.0.1:5000; Ctrl-C ends it."""

import os
import sys
from pathlib import Path

from macaron.cli.environment import make_quiet
from macaron.cli.project import database
from macaron.settings import load_settings

PORT = "5000"


def main() -> int:
    """Becomes the server; 1 where there is nothing to show."""
    settings = load_settings()
    if settings.mlflow_uri.startswith(("http://", "https://")):
        print(f"the records are shown by {settings.mlflow_uri}")
        return 0
    file = database(settings)
    if file is not None and not file.exists():
        print("no records yet: make improve", file=sys.stderr)
        return 1
    make_quiet(settings.state)
    print(f"MLflow opens at http://127.0.0.1:{PORT} in some seconds; choose Model training there.")
    print("Ctrl-C ends it.", flush=True)
    mlflow = str(Path(sys.executable).with_name("mlflow"))
    where = ["--host", "127.0.0.1", "--port", PORT]
    os.execv(mlflow, [mlflow, "ui", *where, "--backend-store-uri", settings.mlflow_uri])


if __name__ == "__main__":
    sys.exit(main())
