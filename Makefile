# Every target works on a fresh clone with nothing but Python 3.11: it makes what it needs.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# The organizers' baselines run with the same versions here as in their images.
LOCKS := -c images/_base/requirements.lock -c images/attack_cw_l2/requirements.lock
INSTALL := $(BIN)/python tools/install.py
# What players import; training adds torch._dynamo. Players write no bytecode, so each would compile it again: importing it once
# after the installation writes it. Compiling all that is installed would take ten times as long.
OF_PLAYERS := foolbox, gradient_attacks, sparring_torch
OUT ?= demo
# Half of the time a test waits for other processes, so there are more workers than processors.
WORKERS ?= 4
SELECTED ?= -m "not docker and not slow"
# What two databases could do differently: unique fields, transactions, conflicts, times, the order of rows.
ACCOUNTS := $(addprefix tests/web/test_,accounts.py session_security.py uploads.py housekeeping.py contest_site.py health.py)
# Workers take groups of tests in the order of tests/conftest.py, the longest first. A test that runs `make` is no part of
# this one, whose jobs its own would warn about. Linear algebra has one thread in each process: threads of several workers
# wait for each other, and the processors work while they do.
PYTEST := env --unset=MAKEFLAGS OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
# Tests start thousands of interpreters: without bytecode on disk each would compile the package again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all test-postgresql soak check format bench images schemas docs clean

demo: $(VENV)/.demo
	$(BIN)/sparring demo --out $(OUT)

# What needs no engine and no root, in minutes.
test: $(VENV)/.dev
	$(PYTEST) $(SELECTED)

# Everything, which CI runs. All tests are in one run: while some wait, others use the processors.
test-all: $(VENV)/.dev
	$(MAKE) --jobs=2 --keep-going SELECTED= test test-postgresql

# Its output is printed whole, beside what the other tests print.
test-postgresql: $(VENV)/.dev
	@output=$$(SPARRING_TEST_DATABASE=postgresql $(BIN)/python -m pytest $(ACCOUNTS) 2>&1); status=$$?; echo "$$output"; exit $$status

soak: $(VENV)/.dev
	SPARRING_SOAK=1 $(PYTEST) --timeout 3600
	SPARRING_SOAK=1 SPARRING_TEST_BACKEND=runc $(PYTEST) --timeout 3600 tests/sandbox_selftest/test_programs.py
	SPARRING_SOAK=1 SPARRING_TEST_BACKEND=runc $(PYTEST) --timeout 3600 tests/cheats

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
	$(BIN)/python bench/broker.py
	$(BIN)/python bench/round.py
	$(BIN)/python bench/questions.py
	$(BIN)/python bench/replay.py
	$(BIN)/python bench/scale.py
	$(BIN)/python bench/cluster.py
	$(BIN)/python bench/web.py
	$(BIN)/python bench/unrestricted.py

images: $(VENV)/.demo
	images/build.sh

schemas: $(VENV)/.dev
	$(BIN)/python -m orchestrator.schemas schemas

# Any warning is an error: a broken link, a missing anchor, a page without a place in the navigation.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --fresh-env --quiet -c docs/site -d build/site-pages . build/site
	@echo "build/site/index.html"

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	$(PYTHON) -m venv --without-pip $(VENV) || python3 -m venv --without-pip $(VENV)

# uv installs, and where it cannot, pip: the newest one, since that of Python 3.11 takes twice the time to choose versions.
# Both are in the main index; an extra one that does not answer would be waited for. pip ignores an empty variable.
$(VENV)/bin/pip: | $(VENV)/bin/python
	PIP_EXTRA_INDEX_URL=" " $(PYTHON) -m pip --python $(BIN)/python install --quiet --no-compile pip uv 2>/dev/null || \
	{ $(BIN)/python -m ensurepip --default-pip >/dev/null && $(BIN)/python -m pip install --quiet --no-compile --upgrade pip uv; }

$(VENV)/.demo: pyproject.toml images/_base/requirements.lock images/attack_cw_l2/requirements.lock | $(VENV)/bin/pip
	$(INSTALL) $(LOCKS) -e '.[demo]'
	PYTHONPATH=images/_base/python $(BIN)/python -c 'import $(OF_PLAYERS)' & \
	$(BIN)/python -c 'import orchestrator.cli.rounds' && wait $$!
	touch $@

$(VENV)/.docs: pyproject.toml images/_base/requirements.lock | $(VENV)/bin/pip
	$(INSTALL) -c images/_base/requirements.lock -e '.[docs]'
	touch $@

$(VENV)/.dev: pyproject.toml images/_base/requirements.lock images/attack_cw_l2/requirements.lock | $(VENV)/bin/pip
	$(INSTALL) $(LOCKS) -e '.[dev]'
	PYTHONPATH=images/_base/python $(BIN)/python -c 'import $(OF_PLAYERS), torch._dynamo'
	touch $@ $(VENV)/.demo $(VENV)/.docs
