# Every target sets up what it needs in .venv, from requirements.lock, on a machine with Python 3.11+ and nothing else.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
UV_VERSION := 0.13.8

.DEFAULT_GOAL := help
.PHONY: help env demo test test-fast audit bench docs lint format lock clean

help: ## what there is to make
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-10s %s\n", $$1, $$2}'

env: $(STAMP) ## the environment, from the lock file

$(STAMP): requirements.lock setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(f"Python {sys.version.split()[0]} is too old: 3.11 or newer is needed; name one with PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip sync --quiet --require-hashes requirements.lock
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip install --quiet --no-deps --editable .
	@touch $@

demo: $(STAMP) ## a real DAG releases a private ROC curve; the budget holds the next release back
	$(BIN)/python -m dp_operators.demo

test: $(STAMP) ## everything CI runs
	$(MAKE) --no-print-directory lint
	$(BIN)/python -m pytest

test-fast: $(STAMP) ## the inner loop: no Spark, no Airflow, no database server
	$(BIN)/python -m pytest -q -m "not spark and not cluster and not airflow and not postgres and not slow"

audit: $(STAMP) ## the long privacy audits
	DP_AUDIT=long $(BIN)/python -m pytest tests/audit

bench: $(STAMP) ## speed and accuracy benchmarks
	$(BIN)/python -m benchmarks

docs: $(STAMP) ## the documentation site, into site/
	$(BIN)/mkdocs build --strict --quiet

lint: $(STAMP) ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## put the code in order
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: $(STAMP) ## resolve requirements.lock anew
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip compile --quiet setup.cfg --extra demo --extra s3 --group dev \
		--universal --python-version 3.11 --generate-hashes --no-header --output-file requirements.lock

clean: ## remove what these targets made
	rm -rf $(VENV) .demo site build dist *.egg-info
