# `make up` starts everything, `make test` checks everything; both set up what they need first.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
SETUP := .venv/.ready
PATIENTLY = $(PYTHON) scripts/patiently.py
# All packages; requirements-run.lock has those alone that Carrel runs with, for images of it.
LOCK ?= requirements.lock
LAB := .venv/.lab
FAST := tests/unit tests/cli/test_docs.py tests/service/test_search_catalog.py \
	$(addprefix tests/client/test_,client.py operations.py retries.py files.py reply_streams.py)

# Where it is set, every program that is started would compile all that it imports, which takes most of its start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup up lab test test-all test-fast test-long test-mutations size check format bench bench-peers docs site notebooks pictures lock clean

setup: $(SETUP)

# uv comes from the lock too, by its hash, and installs the rest of it.
$(SETUP): $(LOCK) pyproject.toml client/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Carrel needs Python 3.11 or newer; say which with: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PATIENTLY) "Making .venv" -- $(PYTHON) -m venv .venv || { rm -rf .venv; \
		echo "This Python can't make virtual environments; on Debian and Ubuntu, install python3-venv (or python3.11-venv)"; exit 1; }
	@echo "Setting up .venv from $(LOCK) (once) …"
	@test -x $(BIN)/uv || { \
		awk '/^[^ #]/ { wanted = /^uv==/ } wanted' $(LOCK) > .venv/uv.lock && \
		$(PATIENTLY) "Installing uv" -- $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r .venv/uv.lock; }
	@$(PATIENTLY) "Installing packages" -- $(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes $(LOCK)
	@$(PATIENTLY) "Installing Carrel" -- $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable ./client --editable .
	@touch $(SETUP)

up: setup .env
	@$(BIN)/python -m scripts.up start

# JupyterLab on the notebooks, signed in at the service of `make up`. ARGS are its own: make lab ARGS=--no-browser
lab: setup .env $(LAB)
	@$(BIN)/python -m scripts.lab $(ARGS)

$(LAB): requirements-lab.lock $(SETUP)
	@echo "Adding JupyterLab to .venv (once) …"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes -r requirements-lab.lock
	@touch $(LAB)

.env: | $(SETUP)
	@$(BIN)/python -m sample.environment .env

# Three lanes. This one guards every guarantee on its main path. Three processes are right for two cores: tests wait
# for processes that they start and kill; four are no faster.
JOBS ?= 3
TESTS := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal
test: setup
	@$(TESTS) -m "not slow and not long" $(ARGS)

# All that CI runs: the first lane, and kill loops, state machines, conformance suites and the whole browser.
test-all: setup
	@$(TESTS) -m "not long" $(ARGS)

# While you work: mostly without a service; one is started to see that it does.
test-fast: setup
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not long" $(FAST) $(ARGS)

# Breaks one guarantee of the product at a time, in a copy, and expects the tests that hold it to fail. ARGS name some.
test-mutations: setup
	@$(BIN)/python -m scripts.mutations $(ARGS)

# Alone, by ARGS: tests/faults/test_soak.py (SOAK_SECONDS, SOAK_JSON), "tests/faults -k many_more_moments" (KILL_POINTS,
# KILL_DOCUMENTS), "tests/properties -k ten_thousand" (PERMISSION_STEPS), tests/flows/test_scale.py (FLOW_DOCUMENTS).
test-long: setup
	@$(BIN)/python -m pytest -m long --timeout 7200 $(ARGS)

# How many lines of product and of tests there are, beside their budgets.
size: setup
	@$(BIN)/python -m scripts.size

check: setup
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports

format: setup
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: setup
	@for name in embedding client extraction ingest flows search concurrency words_first row_security permissions quality search_box start app; do $(BIN)/python -m bench.$$name || exit 1; done

# Carrel beside other products on the same texts; some gigabytes of theirs go into .peers. Nothing else needs them.
bench-peers: setup
	@test -x .peers/bin/python || $(BIN)/uv venv --quiet --python $(BIN)/python .peers
	@$(BIN)/uv pip install --quiet --no-config --python .peers/bin/python -r bench/peers/requirements.txt
	@$(BIN)/python -m bench.peers $(ARGS)

# The SDK's resources, and the pages that are made from the code; tests compare them.
docs: setup
	@$(BIN)/python -m scripts.write_resources
	@$(BIN)/python -m scripts.settings_reference
	@$(BIN)/python -m scripts.endpoints_reference
	@$(BIN)/python -m scripts.errors_reference
	@$(BIN)/python -m scripts.openapi_reference

# The documentation as pages for a browser, in .site; slower than `make docs`, and nothing of it is kept.
site: setup
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# What the notebooks show, made anew; look at them before they are kept.
notebooks: setup
	@$(BIN)/python -m scripts.run_notebooks

# The pictures of the workbench's pages in docs/pages, taken while its tests use it.
pictures: setup
	@CARREL_PICTURES=docs/pages $(BIN)/python -m pytest -q tests/browser/test_workbench.py

# Hashes without addresses: any index or mirror can serve what this names.
lock:
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --no-emit-package carrel-sdk --all-extras --group dev \
		pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --no-emit-package carrel-sdk --group build \
		$(addprefix --extra ,service flows app cli) -c requirements.lock pyproject.toml -o requirements-run.lock
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --group lab -c requirements.lock \
		$$(awk -F '[= ]' '/^[a-z0-9]/ { print "--no-emit-package " $$1 }' requirements.lock) -o requirements-lab.lock

# .env stays: the key in it belongs to an organization in the data folder, which stays too.
clean:
	rm -rf .venv
