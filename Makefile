# outlast: what a newcomer runs. Everything happens in .venv, which the first command makes.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: help demo test gpu frameworks lint rules bench clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /make \1\t/' | expand -t 14

demo: $(VENV)/.demo ## Prove it: rehearse a real training job under Cloud Run's interruptions
	@# By PATH, since the job runs in a copy of this folder, which has no .venv.
	PATH="$(CURDIR)/$(BIN):$$PATH" outlast rehearse --platform cloud-run --interruptions 6 --seed 7 \
	  --result digits-result.json -- python examples/digits.py

# Four workers on two cores: many tests wait for processes, signals and graces rather than compute.
test: lint ## Run every check and every test
	@status=0; \
	$(BIN)/python -m pytest -n 4 --dist worksteal -m "not serial and not gpu and not frameworks" || status=$$?; \
	$(BIN)/python -m pytest -m "serial and not gpu and not frameworks" || status=$$?; \
	exit $$status

gpu: $(VENV)/.dev ## Run the tests that need a CUDA device
	$(BIN)/python -m pytest -m gpu

frameworks: $(VENV)/.frameworks ## Test the callbacks, and rehearse the examples, with the Hugging Face Trainer and Lightning
	$(BIN)/python -m pytest -m frameworks

lint: $(VENV)/.dev ## Run the linter, the formatter's check and the type checker
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

rules: $(VENV)/.dev ## Write docs/lint-rules.md anew, from the rules of `outlast lint`
	$(BIN)/python tests/lint/rule_page.py > docs/lint-rules.md

bench: $(VENV)/.bench ## Run the benchmarks, side by side with peers (BENCH="--rounds 1 --scale 0.05": a try)
	$(BIN)/python -m benchmarks $(BENCH)

clean: ## Remove the environment and everything that was built
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis outlast-checkpoints outlast-report*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp per extra: a second run installs nothing, unless pyproject.toml changed.
$(VENV)/.made: scripts/make-venv
	@scripts/make-venv $(VENV)
	@touch $@

$(VENV)/.%: pyproject.toml $(VENV)/.made
	@echo "installing outlast[$*] into $(VENV) (a minute or more)"
	@$(PIP) install --editable '.[$*]'
	@# Once, and not in each of the thousands of processes that tests start, where Python may not write what it compiles.
	@$(BIN)/python -m compileall -q src
	@touch $@
