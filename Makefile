# Every target sets up what it needs in .venv, from requirements.lock, on a machine with Python 3.11+ and nothing else.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
UV_VERSION := 0.13.8
UV = VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv
# The first Python on the path that is new enough; PYTHON=... names another.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for name in python3 python3.11 python3.12 python3.13; do \
	"$$name" -c '$(NEW_ENOUGH)' 2> /dev/null && { echo "$$name"; exit; }; done; echo python3)

# The environment of `make extras`. Airflow's other providers need other versions of some of what the lock file holds, so
# only what the product is built on is held at its version.
EXTRAS := .venv-extras
HELD := apache-airflow|apache-airflow-core|apache-airflow-task-sdk|great-expectations|opendp|pyspark
EXTRA_TESTS := tests/backends tests/contract/test_store_contract.py tests/hooks/test_stores.py tests/operators/test_events.py tests/operators/test_runners.py tests/plugins/test_fab_permission.py

# The environment of `make older-airflow`. Below 3.3 Airflow does not run with the newest of these packages; whoever installs
# it with its own constraints has older ones.
AIRFLOW ?= 3.2.2
OLDER := .venv-airflow-$(AIRFLOW)
OLDER_NEED := 'apache-airflow-core==$(AIRFLOW)' 'cadwyn<7' 'fastapi<0.136' 'pydantic<2.13' 'starlette<1.1' 'svcs<26'
# One test compares sources with what the locked formatter makes of them.
OLDER_TESTS := --deselect tests/operators/test_diagnostic_operators.py::test_the_sources_are_what_the_options_make_of_them tests/operators tests/sensors tests/hooks tests/triggers tests/notifications tests/plugins tests/test_policies.py tests/dags/test_release_dag.py tests/dags/test_release_by_day.py

# Where `make images` keeps bases and images.
IMAGES ?= build/images

# One process more than processors, up to four: it fills the time in which the others wait for Airflow, Spark and
# databases. Each file runs in one process; all files that need Spark run in the same one.
PARALLEL = --numprocesses=$$(($$(nproc 2>/dev/null || echo 2) + 1)) --maxprocesses=4 --dist=loadfile
# Java maps the classes of Spark from this file in half of the time in which it reads them.
CLASSES := $(VENV)/spark-classes.jsa
# In the inner loop nothing waits, so a process more would only import everything once more.
INNER = --numprocesses=logical --maxprocesses=4 --dist=loadfile
# Ledgers and stores wait for the disk after each change; in a folder in memory, where there is a gigabyte, they do not.
IN_MEMORY = $(shell [ -w /dev/shm ] && df -Pk /dev/shm 2> /dev/null | awk 'NR == 2 && $$4 > 1048576 { print "TMPDIR=/dev/shm" }')
# Matrices are small: a thread of the linear algebra for each processor only keeps the other tests waiting.
export OMP_NUM_THREADS ?= 1
# The tests start hundreds of processes; without compiled modules, each would compile everything that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help env demo demo-federation test modules test-fast verify audit storm extras older-airflow soak bench bench-honesty images docs lint format lock wheels clean

help: ## the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-15s %s\n", $$1, $$2}'

env: $(STAMP) ## the environment, from the lock file

# One make at a time builds it (flock, where there is one); what an interrupted make left behind is built again.
$(STAMP): requirements.lock setup.cfg spark_jobs/setup.cfg pyproject.toml
	@command -v $(PYTHON) > /dev/null || { echo "no $(PYTHON) on the path: install Python 3.11 or newer, or name it with PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c '$(NEW_ENOUGH)' || { echo "$$($(PYTHON) -V 2>&1) is too old: 3.11 or newer is needed; name one with PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || { echo "$$($(PYTHON) -V) has no venv module: install it (Debian: apt install python3-venv), or name another Python with PYTHON=..." >&2; exit 1; }
	@set -e; exec 9< Makefile; ! command -v flock > /dev/null || flock 9; \
	if [ -z "$$(find $^ -newer $@ 2>&1)" ]; then exit; fi; \
	echo "setting up $(VENV) with $$($(PYTHON) -V)"; \
	if [ -e $@ ]; then rm $@; else rm -rf $(VENV); $(PYTHON) -m venv $(VENV); fi; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION); \
	$(UV) pip sync --quiet --require-hashes requirements.lock; \
	$(UV) pip install --quiet --no-deps --editable ./spark_jobs --editable .; \
	touch $@

demo: $(STAMP) ## real DAGs release a private ROC curve and a stream of hourly counts; the budget blocks the next curve
	$(BIN)/python -m examples.demo

demo-federation: $(STAMP) ## three silos and two servers release one private ROC curve together
	$(BIN)/python -m examples.demo.federation

test: $(STAMP) ## lint, and every test but those of verify and soak: about twelve minutes on two processors
	$(MAKE) --no-print-directory --jobs=2 lint modules $(CLASSES)
	$(BIN)/python -m pytest $(PARALLEL) -m "not verify and not soak"

# Every process of the tests would compile all modules for itself; here one does, while mypy leaves a processor idle.
# What it cannot import the tests report.
modules: $(STAMP)
	@$(BIN)/python -m pytest -p no:xdist --collect-only -qq > /dev/null || true

# Where Spark does not start, the tests say so.
$(CLASSES): $(STAMP)
	-@$(BIN)/python -m tests.support.java_classes 2> /dev/null

test-fast: $(STAMP) ## the inner loop: no engine, nothing slow, and at most three cases of a test; about a minute
	$(IN_MEMORY) $(BIN)/python -m pytest -q $(INNER) -m "not spark and not cluster and not airflow and not postgres and not browser and not slow and not audit and not verify and not soak"

verify: $(STAMP) $(CLASSES) ## the rest of what CI runs: kills, storms, simulations of coverage, sampled audits
	$(BIN)/python -m pytest $(PARALLEL) -m "verify and not soak"

audit: $(STAMP) ## the long privacy audits, and their table of results
	DP_AUDIT=long DP_AUDIT_TABLE=docs/contributing/audit-results.md $(BIN)/python -m pytest -o timeout=7200 $(or $(FILES),tests/audit)

storm: $(STAMP) ## what soak repeats: storms on the ledger, kills of streams and of federated releases; FILES=... for some
	$(BIN)/python -m pytest -m "soak" -o timeout=7200 $(FILES)

extras: $(STAMP) ## the tests that need Airflow's providers for clouds, lineage and FAB, with these providers, in .venv-extras
	$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python $(EXTRAS)
	grep -oE '^($(HELD))==[^ ]+' requirements.lock > $(EXTRAS)/held.txt
	VIRTUAL_ENV=$(abspath $(EXTRAS)) $(BIN)/uv pip install --quiet --constraint $(EXTRAS)/held.txt --group dev \
		--editable './spark_jobs[spark,java,s3,gcs,azure,connect,embedded,iceberg,expectations]' \
		--editable '.[accounting,databricks,dataproc,emr,kubernetes,openlineage]' 'apache-airflow-providers-fab>=3' \
		apache-airflow-providers-microsoft-azure databricks-sdk
	! command -v npm > /dev/null || npm install --silent --no-save --prefix $(EXTRAS) azurite
	$(EXTRAS)/bin/python -m pytest $(or $(FILES),$(EXTRA_TESTS))

older-airflow: $(STAMP) ## the tests of the Airflow side, and the demo's DAG runs, with AIRFLOW=3.1.8 or 3.2.2, in .venv-airflow-VERSION
	$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python $(OLDER)
	VIRTUAL_ENV=$(abspath $(OLDER)) $(BIN)/uv pip install --quiet --group dev 'apache-airflow==$(AIRFLOW)' $(OLDER_NEED) \
		--editable './spark_jobs[spark,java,expectations]' --editable '.[accounting]'
	$(OLDER)/bin/python -m pytest $(or $(FILES),$(OLDER_TESTS)) -m "not soak"

soak: $(STAMP) ## hours, in parts: storm, audit, extras, older-airflow, images, each Python; PARTS=... for some; results go to docs/contributing/soak-results.md
	$(BIN)/python -m tests.soak $(PARTS)

bench: $(STAMP) ## speed and accuracy benchmarks
	$(BIN)/python -m benchmarks

bench-honesty: $(STAMP) ## coverage of the intervals of every kind and regret of every automatic choice; RELEASES=500 in each cell of the law; goes on where it stopped with RESUME=1
	$(BIN)/python -m benchmarks.honesty --releases $(or $(RELEASES),500) $(if $(RESUME),--resume)

images: ## both images of docker/Dockerfile, on bases made from Debian's packages (as root, with buildah and debootstrap)
	docker/build-images $(IMAGES)

docs: $(STAMP) ## the documentation site, into site/VERSION/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: $(STAMP) ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Fewest: one version of each package for every Python, so that types are checked with the versions that run.
lock: $(STAMP) ## resolve requirements.lock again
	printf '%s\n' './spark_jobs[spark,java,s3,gcs,azure,connect,embedded,iceberg,expectations]' '.[accounting]' | $(UV) pip compile --quiet - --group dev \
		--no-emit-package dp-diagnostics --no-emit-package airflow-provider-dp-diagnostics \
		--universal --fork-strategy fewest --python-version 3.11 --generate-hashes --no-header --output-file requirements.lock
	grep -oE '^[a-z0-9._-]+==[^\]+[^\ ]' requirements.lock > constraints.txt

wheels: $(STAMP) ## the wheel of the Spark side and that of the Airflow side, into dist/
	rm -rf build/lib build/spark_jobs  # setuptools would pack what an earlier build left there
	$(UV) build --quiet --wheel --out-dir dist spark_jobs
	$(UV) build --quiet --wheel --out-dir dist .

clean: ## remove what these targets made
	rm -rf $(VENV) .venv-* .demo site build dist *.egg-info
