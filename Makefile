# One door for people and CI: every target makes what it needs in a fresh clone (Python 3.11+ and make).

PYTHON ?= $(shell command -v python3.11 || command -v python3.13 || command -v python3.12 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help demo serve test check clients bench lock clean

help:            ## say what each target does
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' $(MAKEFILE_LIST)

demo: $(STAMP)   ## the main job: a controller, a bridge, two agents of two eras
	@$(BIN)/bascule demo

serve: $(STAMP)  ## a controller on this machine (settings: ./bascule.toml or the configuration folder)
	@$(BIN)/bascule serve

test: $(STAMP)   ## every test that needs Python alone
	@$(PYTEST)

check: $(STAMP)  ## format, lint, types, borders
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

clients: $(STAMP) ## journeys with the official TypeScript SDKs
	@$(BIN)/python tests/clients/run.py

bench: $(STAMP)  ## ratios against the bare SDK, side by side in one run
	@$(BIN)/python -m benchmarks

lock:            ## renew the hashed locks (needs uv)
	uv pip compile --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 pyproject.toml -o requirements/run.txt
	uv pip compile --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 pyproject.toml --group dev -o requirements/dev.txt
	uv pip compile --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 --group clients -o requirements/clients.txt

clean:           ## remove what make made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist build

$(STAMP): requirements/dev.txt
	@test -n "$(PYTHON)" || { echo "make: no python3.11 or newer on PATH; install it, or say make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $(PYTHON) is older than 3.11; say make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) || { echo "make: this Python cannot make a venv; on Debian: apt install python3.11-venv" >&2; exit 1; }
	@echo "installing locked requirements into $(VENV) (once, about half a minute)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index --editable .
	@touch $@
