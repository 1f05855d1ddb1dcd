# make demo: the main job on real data, step by step. make test: every test. More: README.md, tests/README.md.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
BUILD ?= build

.DEFAULT_GOAL := help
.PHONY: help tools lib demo test check check-generated check-binding-asan bench fmt lint clean

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

# The binding's tests against a sanitized library, in a copy of the package: they reach what the C
# tests don't (sampling, encoding, the secret key's code).
ASAN_CFLAGS := -O1 -g -DPYBFV_DEBUG -fsanitize=address,undefined -fno-sanitize-recover=all
ASAN_TESTS := tests/test_native.py tests/test_native_backend.py tests/test_encoder.py tests/test_secret_native.py \
  tests/test_totals.py tests/test_workload_suite.py
check-binding-asan: $(VENV)/.ready
	@$(MAKE) --silent BUILD=$(BUILD)/asan CFLAGS="$(ASAN_CFLAGS)" $(BUILD)/asan/libpybfv.so
	@rm -rf $(BUILD)/asan/python && mkdir -p $(BUILD)/asan/python && cp -r pybfv $(BUILD)/asan/python/
	@cp $(BUILD)/asan/libpybfv.so $(BUILD)/asan/python/pybfv/native/libpybfv.so
	PYTHONPATH=$(BUILD)/asan/python LD_PRELOAD="$$($(CC) -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 \
	  $(PY) -P -m pytest -k "not library and not declarations" $(ASAN_TESTS)

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
