# Every target works on a fresh clone with nothing but Python 3.11: it makes what it needs.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# The organizers' baselines run with the same versions here as in their images.
LOCKS := -c images/_base/requirements.lock -c images/attack_cw_l2/requirements.lock
OUT ?= demo

.PHONY: demo test test-all soak check format bench images schemas clean

demo: $(VENV)/.demo
	$(BIN)/sparring demo --out $(OUT)

# What needs no engine and no root, in minutes; test-all is everything, which CI runs.
test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not docker and not slow"

test-all: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadgroup

soak: $(VENV)/.dev
	SPARRING_SOAK=1 $(BIN)/python -m pytest -n 2 --dist loadgroup --timeout 3600

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev
	$(BIN)/python bench/wire.py
	$(BIN)/python bench/round.py
	$(BIN)/python bench/replay.py
	$(BIN)/python bench/scale.py
	$(BIN)/python bench/cluster.py

images: $(VENV)/.demo
	images/build.sh

schemas: $(VENV)/.dev
	$(BIN)/python -m orchestrator.schemas schemas

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || python3 -m venv $(VENV)

$(VENV)/.demo: pyproject.toml images/_base/requirements.lock images/attack_cw_l2/requirements.lock | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet $(LOCKS) -e '.[demo]'
	touch $@

$(VENV)/.dev: pyproject.toml images/_base/requirements.lock images/attack_cw_l2/requirements.lock | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet $(LOCKS) -e '.[dev]'
	touch $@ $(VENV)/.demo
