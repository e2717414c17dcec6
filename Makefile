# `make ablate` and `make test` set up what they need by themselves.
STUDY ?= quick
RESULTS ?= results
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FINDINGS := matching_2
LANGUAGES := zh
POT := .messages.pot
CONTROLS := $(basename $(notdir $(wildcard ablations/controls_*.toml)))

.DEFAULT_GOAL := ablate

.PHONY: help ablate report dashboard test test-long test-exhaustive check setup bench calibrate controls publish messages clean deps-debian

help:  ## this list
	@grep -hE '^[a-z-]+:.*  ## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*  ## (.*)/\1\t\2/' | expand -t 16

ablate: $(VENV)/ready  ## run a study and report on it
	@$(BIN)/knockout run ablations/$(STUDY).toml --results $(RESULTS); code=$$?; \
	if [ $$code -ne 2 ]; then $(BIN)/knockout report $(RESULTS)/$(STUDY) || code=$$?; fi; exit $$code

report: $(VENV)/ready  ## report on a study that has run
	@$(BIN)/knockout report $(RESULTS)/$(STUDY)

dashboard: $(VENV)/ready  ## a study in the browser, while it runs or afterwards; Ctrl-C ends it
	@$(BIN)/knockout dashboard $(RESULTS)/$(STUDY)

check: $(VENV)/ready  ## what a study runs, and what its seeds can show
	@$(BIN)/knockout check ablations/$(STUDY).toml

test: $(VENV)/ready-dev  ## ruff, mypy, import-linter, and all tests but the long ones
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 2 --dist worksteal -m "not long and not exhaustive"

test-long: $(VENV)/ready-dev  ## the tests that train models, or kill and restart processes
	$(BIN)/pytest -n 2 --dist worksteal -m "long and not exhaustive"

test-exhaustive: $(VENV)/ready-dev  ## every kind of damage to every file of a study, of which test-long tries some
	$(BIN)/pytest -n 2 --dist worksteal -m exhaustive

setup: $(VENV)/ready  ## the environment, with the exact versions of constraints.txt

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV): some minutes the first time"
	$(BIN)/pip install --disable-pip-version-check --constraint constraints.txt --editable .
	touch $@

$(VENV)/ready-dev: $(VENV)/ready
	@echo "installing into $(VENV): some minutes the first time"
	$(BIN)/pip install --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

$(VENV)/ready-bench: $(VENV)/ready
	@echo "installing into $(VENV): some minutes the first time"
	$(BIN)/pip install --disable-pip-version-check --constraint constraints.txt --editable '.[bench]'
	touch $@

bench: $(VENV)/ready-bench  ## ratios within one run, into results/benchmarks/
	$(BIN)/python -m benchmarks

calibrate: $(VENV)/ready  ## simulate whether the plan keeps its error rates, into results/calibration/
	$(BIN)/python -m analysis.calibration

# Exit code 1 if a claim is not supported, but for FINDINGS, which the page names. The table is committed: git add results/controls.
controls: $(VENV)/ready  ## run the studies whose answers are known, into results/controls/
	@for study in $(CONTROLS); do \
		$(BIN)/knockout run ablations/$$study.toml --results $(RESULTS) --quiet || exit $$?; \
		$(BIN)/knockout report $(RESULTS)/$$study --quiet || exit $$?; \
	done
	@$(BIN)/python -m knockout.analysis.controls $(CONTROLS:%=$(RESULTS)/%) --into $(RESULTS)/controls \
		$(FINDINGS:%=--finding %)

publish: $(VENV)/ready  ## commit the report of a complete study, with packed records, under results/reference/
	$(BIN)/knockout publish $(RESULTS)/$(STUDY)
	git add results/reference/$(STUDY)
	git commit --message "Publish the report of $(STUDY)" -- results/reference/$(STUDY)

messages: $(VENV)/ready-dev  ## collect the texts of reports into the catalogues of translations, and compile them
	$(BIN)/pybabel --quiet extract --keywords "tr marked plural:2" --no-location --sort-output --omit-header \
		--output $(POT) src/knockout
	@for language in $(LANGUAGES); do \
		$(BIN)/pybabel --quiet update --no-fuzzy-matching --ignore-obsolete --domain knockout --locale $$language \
			--input-file $(POT) --output-file src/knockout/locale/$$language/LC_MESSAGES/knockout.po || exit $$?; \
	done
	$(BIN)/pybabel --quiet compile --directory src/knockout/locale --domain knockout --statistics

deps-debian:  ## the Debian packages that some tests use where they find them
	apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium

clean:  ## the environment and all caches; never results
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
