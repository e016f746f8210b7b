# Two commands, each complete on a fresh machine: make improve, make test.
# PYTHON=python3.12 picks the interpreter; ARGS="--seed 3" is handed to the command.
PYTHON ?=
export PYTHON
BIN := .venv/bin
# Files of tests that start services take turns in two processes.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile

.PHONY: help improve ui test fast lint format env verifiers lock clean

help:
	@echo "make improve  make the environment and run one improvement cycle"
	@echo "make ui       look at the cycles and versions in MLflow"
	@echo "make test     make the environment and run all tests that this machine can"
	@echo "make fast     only the tests that start no service and train nothing"
	@echo "make lint     style, types and the direction of imports"
	@echo "make format   rewrite the code in the project's style"
	@echo "make env      only the environment, .venv"
	@echo "make verifiers  the environment for tasksets of the verifiers package, .venv-verifiers"
	@echo "make lock     resolve the dependencies again into requirements.lock"
	@echo "make clean    remove caches and builds; .venv, .macaron and data stay"

improve: env
	@$(BIN)/macaron improve $(ARGS)

ui: env
	@$(BIN)/python scripts/ui.py

test: env
	@MACARON_FULL=1 $(PYTEST) -rs $(ARGS)

fast: env
	@$(PYTEST) $(ARGS)

lint: env
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo >.venv/lint-imports.log || (cat .venv/lint-imports.log; exit 1)
	@echo "style, types and imports are clean"

format: env
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

env:
	@scripts/bootstrap.sh

verifiers: env
	@$(BIN)/python -m venv .venv-verifiers
	@.venv-verifiers/bin/python -m pip install --quiet --disable-pip-version-check "verifiers==0.4.*"

lock: env
	@scripts/lock.sh $(ARGS)

clean:
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
