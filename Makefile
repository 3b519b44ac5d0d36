.DEFAULT_GOAL := help
SHELL := /bin/bash
PY := .venv/bin/python
N ?= 500
BENCH ?= quick
MINUTES ?= 30
REPEATS ?= 50
FILES ?= tests/scenarios

.PHONY: help setup demo test check lint types imports pytest slow scenarios matrix fuzz soak bench docs clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  \033[1mmake %-9s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv, install Freshlake and what it needs (Java, Delta jars); does nothing when all is there
	@scripts/setup.sh

demo: setup ## a small shop with live stream tables, in under three minutes
	@.venv/bin/freshlake demo

test: setup ## everything CI checks: lint, types, import rules, tests
	@scripts/postgres.sh
	@$(MAKE) --no-print-directory lint types imports pytest

lint: ## ruff: rules and formatting
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: ## mypy --strict
	$(PY) -m mypy

imports:
	.venv/bin/lint-imports

# Two workers, each with a Spark of its own; a file's tests stay together, since they share a lake, and unit tests come
# last, so that no worker is left with a long story at the end. See also `slow`.
pytest:
	$(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" $(ARGS)

slow: setup ## tests that take minutes each: the command, several processes, a standalone cluster
	$(PY) -m pytest -n 2 --dist loadfile -m slow $(ARGS)

scenarios: setup ## the stories in tests/scenarios (FILES=tests/scenarios/duplicates.slt, ARGS="-k padding")
	$(PY) -m pytest -n 2 --dist loadfile $(FILES) $(ARGS)

matrix: setup ## execute every cell of the support matrix and write its page
	$(PY) -m tests.matrix

fuzz: setup ## N random query and change histories against recomputation (N=500)
	$(PY) -m tests.property.fuzz --count $(N) --processes 2

soak: setup ## two daemons under load, one killed every minute; PostgreSQL captured by processes that die (MINUTES=30 REPEATS=50)
	$(PY) -m tests.soak --minutes $(MINUTES)
	$(PY) -m tests.soak.captures --repeats $(REPEATS)

bench: setup ## measure refreshes against recompute, MERGE and a plain append (BENCH=quick or full)
	$(PY) -m bench --$(BENCH)

docs: setup ## check that the documentation's examples and references hold
	$(PY) -m pytest tests/architecture tests/docs $(ARGS)

clean: ## remove caches and everything the commands made, keep .venv
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist demo-lake spark-warehouse metastore_db derby.log artifacts
	find . -name __pycache__ -not -path './.venv/*' -type d -prune -exec rm -rf {} +
