#!/bin/sh
# Resolves the dependencies into requirements.lock. `make lock ARGS=--upgrade` takes newer ones.
set -eu
cd "$(dirname "$0")/.."
export UV_CUSTOM_COMPILE_COMMAND="uv pip compile pyproject.toml --extra dev --universal \
--python-version 3.11 --no-annotate --output-file requirements.lock"
.venv/bin/uv pip compile pyproject.toml --extra dev --universal \
    --python-version 3.11 --no-annotate --output-file requirements.lock --quiet "$@"
