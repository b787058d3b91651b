# The two commands to know are `make demo` and `make test`; both set up what they need on a fresh machine.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check install --quiet -c constraints.txt

.PHONY: help demo test check format bench schema clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/demo.stamp  ## Train two real jobs on the sandbox cloud: interrupted, resumed, stopped below a cap
	@$(BIN)/frugald demo

test: $(VENV)/dev.stamp  ## Run every test
	@$(BIN)/pytest -n 2 --dist loadgroup

check: $(VENV)/dev.stamp  ## Check format, lint, types and imports
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(VENV)/dev.stamp  ## Format the code and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(VENV)/dev.stamp  ## Measure, side by side; the last line of each benchmark is JSON
	@for file in benchmarks/*.py; do $(BIN)/python $$file || exit 1; done

schema: $(VENV)/dev.stamp  ## Write the published JSON schema of job files again
	@$(BIN)/python -m daemon.jobfile.schema > docs/jobfile.schema.json

clean:  ## Remove what make has made
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@echo "Making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

# torch goes in first and by its exact version: a range may bring gigabytes that this needs nothing of.
$(VENV)/torch.stamp: | $(VENV)/bin/python
	@echo "Installing torch (once, about half a minute)"
	@$(PIP) torch==2.13.0 numpy
	@touch $@

$(VENV)/demo.stamp: pyproject.toml constraints.txt $(VENV)/torch.stamp
	@echo "Installing frugald"
	@$(PIP) --editable '.[torch,demo]' torch==2.13.0
	@touch $@

$(VENV)/dev.stamp: $(VENV)/demo.stamp
	@echo "Installing the tools that tests and checks need"
	@$(PIP) --editable '.[torch,demo,dev]' torch==2.13.0
	@touch $@
