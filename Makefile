# make demo: the main job on real data, step by step. make test: every test. More: README.md, tests/README.md.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
BUILD ?= build

.DEFAULT_GOAL := help
.PHONY: help tools lib demo test check check-generated check-c check-sanitize bench fmt lint clean

help:
	@echo "make demo | test | check | check-generated | check-c | check-sanitize | bench | fmt | lint | lib | clean"

include host_c/rules.mk

# The C library, next to its binding.
lib: pybfv/native/libpybfv.so

# Every missing tool in one line, with the package that brings it.
tools:
	@missing=""; \
	command -v $(CC) >/dev/null || missing="$$missing $(CC) (package gcc)"; \
	command -v $(PYTHON) >/dev/null || missing="$$missing $(PYTHON) (package python3)"; \
	if command -v $(PYTHON) >/dev/null; then \
	  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || missing="$$missing Python 3.11 or later (package python3)"; \
	  $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || missing="$$missing venv (package python3-venv)"; \
	fi; \
	echo '#include <stdint.h>' | $(CC) -E -include pthread.h - >/dev/null 2>&1 || missing="$$missing C headers (package libc6-dev)"; \
	if [ -n "$$missing" ]; then echo "missing:$$missing: install with apt-get install" >&2; exit 1; fi



$(VENV)/.ready: pyproject.toml setup.py | tools
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[test,lint]'
	@touch $@

demo: $(VENV)/.ready lib
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(PY) demo/demo.py

# Two workers, as files of tests share nothing; the ten slowest are printed.
test: $(VENV)/.ready lib check-c
	$(PY) -m pytest -n 2 --dist loadfile --durations=10

# The fast half: no SEAL, no slow tests; under a minute.
check: $(VENV)/.ready lib
	$(PY) -m pytest -n 2 --dist loadfile -m "not slow" --ignore tests/seal

check-generated: $(VENV)/.ready
	$(PY) -m pybfv.params.gen --check
	$(PY) -m pybfv.native.gen --check

bench: $(VENV)/.ready lib
	$(PY) -m bench

fmt: $(VENV)/.ready
	$(VENV)/bin/ruff check --quiet --fix . ; $(VENV)/bin/ruff format --quiet .
	$(VENV)/bin/clang-format -i $$(git ls-files '*.c' '*.h' ':!*_gen.h')

lint: $(VENV)/.ready
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/clang-format --dry-run -Werror $$(git ls-files '*.c' '*.h' ':!*_gen.h')

clean:
	rm -rf $(BUILD) build-* pybfv/native/libpybfv.so demo_out .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
