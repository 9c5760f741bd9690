# `make help` lists the targets. Everything is set up from this repository's own files.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
# Tests start hundreds of processes: Python may keep what it has compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo quick test durations test-spark test-spark-4.0 test-spark-doors test-others test-pythons \
  test-sparks campaigns lint fuzz histories merges bench docs lock proto clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

setup: $(STAMP) ## make .venv with the exact versions of requirements.lock

# Of 7,900 modules an eighth is ever imported, and compiled then.
$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) scripts/check_python.py
	$(PYTHON) -m venv $(VENV)
	@echo "installing the packages of requirements.lock, which takes a minute or two"
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

DEMO ?= .demo/photos
demo: setup ## a photo library, loaded by Spark, checked and published; into DEMO=.demo/photos
	$(BIN)/python examples/photos/demo.py $(DEMO)

BASE ?=
quick: setup ## the tests that your change can affect, for five minutes at most; BASE=main~3 looks further back
	$(BIN)/python -m tests.quick --base "$(BASE)"

# Of Spark, interop, laws and histories a half runs, which goes by the commit; TURN= is all of them.
TURN ?= $(shell git rev-parse HEAD 2> /dev/null)
test: setup ## all tests, those of Spark beside the others
	LANCEWOOD_TURN="$(TURN)" $(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync=target \
	  test-spark test-others

ARCHIVE := build/spark.jsa
$(ARCHIVE): $(STAMP)
	$(BIN)/python -m tests.spark.archive

# Groups keep the order of tests/spark/conftest.py: the longest first. Spark gives up on a Python
# that does not answer within ten seconds, and has no setting for that.
ON_SPARK := -n 2 --dist loadgroup --no-loadscope-reorder \
  --reruns 2 --only-rerun "Python worker failed to connect back"
test-spark: setup $(ARCHIVE)
	$(BIN)/python -m pytest $(ON_SPARK) --durations=25 tests/spark
	LANCEWOOD_SPARK_COLUMNAR=0 $(BIN)/python -m pytest -q tests/spark/test_source_entries.py

test-spark-doors: setup $(ARCHIVE) ## the tests of Spark without the columnar door, which `make test` has
	LANCEWOOD_SPARK_COLUMNAR=0 $(BIN)/python -m pytest $(ON_SPARK) tests/spark

# Nicer than Spark, which has less time. pylance gives up a commit after thirty seconds. Collecting
# once compiles the tests, which each worker would do. Many of them wait, so that there are three.
test-others: setup
	nice -n 15 $(BIN)/python -m pytest --collect-only -qq --ignore tests/spark > /dev/null
	nice -n 15 $(BIN)/python -m pytest -n 3 --dist worksteal --durations=25 \
	  --reruns 2 --only-rerun "failed on retry_timeout" --ignore tests/spark

durations: setup ## all tests, and how long each takes, by which `make quick` chooses
	rm -rf build/durations
	LANCEWOOD_DURATIONS=$(CURDIR)/build/durations PYTEST_ADDOPTS="-p tests.quick.measure" \
	  $(MAKE) --no-print-directory test TURN=
	$(BIN)/python -m tests.quick.durations build/durations

# Both doors and streams on the oldest Spark 4, too.
test-spark-4.0: setup
	SPARKS=4.0 bash scripts/test_sparks.sh tests/spark/test_read.py tests/spark/test_source.py \
	  tests/spark/test_streaming.py

test-pythons: ## the tests without Spark, and a walk with it, on Python 3.12 and 3.13 where they are
	bash scripts/test_pythons.sh

TESTS ?=
test-sparks: setup ## a slice of tests/spark on SPARKS="3.5 4.0 4.1 4.2"; TESTS=tests/spark is all of it
	bash scripts/test_sparks.sh $(TESTS)

campaigns: setup ## every case and every step of the tests that take a slice every day
	LANCEWOOD_EVERY_CASE=1 LANCEWOOD_EVERY_STEP=1 LANCEWOOD_LAW_EXAMPLES=300 \
	  $(BIN)/python -m pytest -n 3 --dist worksteal -o timeout=3600 -o faulthandler_timeout=3500 \
	  --ignore tests/spark
	LANCEWOOD_EVERY_CASE=1 $(BIN)/python -m pytest -n 2 --dist loadgroup --no-loadscope-reorder \
	  -o timeout=3600 -o faulthandler_timeout=3500 tests/spark
	$(MAKE) --no-print-directory test-spark-doors test-spark-4.0

lint: setup ## ruff and mypy over everything
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

MINUTES ?= 10
SEED ?= 0
fuzz: setup ## hostile bytes and texts for MINUTES=10 from SEED=0; counts at the end
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) --seed $(SEED)

histories: setup ## random histories against a model and pylance for MINUTES=10 from SEED=0
	$(BIN)/python -m tests.histories --minutes $(MINUTES) --seed $(SEED)

merges: setup ## MERGE beside Delta's and Iceberg's, which are fetched; SEED=7 for random ones alone
	$(BIN)/python -m tests.merges --seed $(SEED)

bench: setup ## medians and ratios against pylance; rewrites docs/benchmarks.md
	$(BIN)/python -m bench

docs: setup ## write docs/cli.md and docs/reference/api.md anew from the code
	$(BIN)/python scripts/cli_reference.py
	$(BIN)/python scripts/api_reference.py

lock: ## resolve pyproject.toml into requirements.lock anew (needs uv)
	uv pip compile pyproject.toml --extra spark --extra connect --extra postgresql --extra dynamodb --group dev --universal --python-version 3.11 \
	  --no-header --no-annotate --no-emit-index-url --no-emit-find-links -o requirements.lock --upgrade

proto: ## compile the .proto files (protoc 31.1: its code runs on protobuf 6.31 to 7)
	$(PYTHON) -m venv build/protoc
	build/protoc/bin/pip install --quiet grpcio-tools==1.76.0
	cd src && ../build/protoc/bin/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. lancewood/proto/*.proto

clean: ## remove what the other targets made
	rm -rf $(VENV) .java build dist .mypy_cache .ruff_cache .hypothesis .demo
