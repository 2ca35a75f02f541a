# Needs Python 3.11 or newer, make and a C library; everything else comes from requirements.txt.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2
# One thread per test worker: faster in all than workers that fight over the cores.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 \
	XLA_FLAGS=--xla_cpu_multi_thread_eigen=false
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input

export PIP_ROOT_USER_ACTION := ignore
export PYTHONUTF8 := 1

.DEFAULT_GOAL := help
.PHONY: help setup lint test demo bench validate clean

help: ## what there is to make
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' Makefile

setup: $(STAMP) ## create .venv from the lock file and install bulkedge into it

$(STAMP): requirements.txt pyproject.toml
	@echo "setup: $(VENV) with $(PYTHON), packages of requirements.txt"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "bulkedge needs Python 3.11 or newer")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --quiet -r requirements.txt
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
	@echo "setup: done; the command is $(BIN)/bulkedge"

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

test: lint ## format, lint, types, import contract, tests
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS)

demo: setup ## one problem, predicted and measured: leaves demo/index.html
	$(BIN)/python -m bulkedge.cli.demo demo

bench: setup ## measure speed: benchmarks/*.py
	@set -e; for script in benchmarks/*.py; do echo "$$script"; $(BIN)/python $$script; done

validate: setup ## the long checks: validation/*.py
	@set -e; for script in validation/*.py; do echo "$$script"; $(BIN)/python $$script; done

clean: ## remove everything that was made
	rm -rf $(VENV) demo dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
