# make demo: the main job on real data, step by step. make test: every test. More: README.md, tests/README.md.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
BUILD ?= build

.DEFAULT_GOAL := help
.PHONY: help tools lib demo test check check-security check-generated check-binding-asan dpu-counts bench bench-large fmt lint clean

help:
	@echo "make demo | test | check | check-security | check-generated | check-c | check-fuzz | check-ct | check-valgrind | check-sanitize | check-dpu-types | check-upmem |"
	@echo "     check-dpu | dpu-counts | bench | bench-large | fmt | lint | lib | dpu | host | clean"

include host_c/rules.mk
include host_c/upmem.mk
include tests/fuzz/fuzz.mk
include tests/ct/ct.mk

# The C library, next to its binding.
lib: tools pybfv/native/libpybfv.so sim

# Every missing tool in one line, with the packages that bring it.
tools:
	@missing=(); packages=(); \
	need() { missing+=("$$1"); packages+=("$$2"); }; \
	if ! command -v $(CC) >/dev/null 2>&1; then need "the C compiler $(CC)" gcc; \
	elif ! echo '#include <pthread.h>' | $(CC) -E - >/dev/null 2>&1; then need "C headers" libc6-dev; fi; \
	if ! command -v $(PYTHON) >/dev/null 2>&1; then need "$(PYTHON)" "python3 python3-venv"; \
	elif ! $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then need "Python 3.11 or later" python3; \
	elif ! $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then need "Python's venv" python3-venv; fi; \
	if [ $${#missing[@]} -gt 0 ]; then \
	  printf -v list '%s, ' "$${missing[@]}"; \
	  echo "missing: $${list%, }; run: apt-get install $${packages[*]}" >&2; exit 1; fi

# Two steps, as the demo needs neither the tests' packages nor SEAL.
$(VENV)/.installed: pyproject.toml setup.py | tools
	@echo "setting up $(VENV) (pip downloads what pyproject.toml names)" >&2
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.ready: $(VENV)/.installed
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[test,lint]'
	@touch $@

demo: $(VENV)/.installed lib
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(PY) demo/demo.py

# Two workers, as files of tests share nothing; the ten slowest are printed.
test: $(VENV)/.ready lib check-c
	$(PY) -m pytest -n 2 --dist loadfile --durations=10

# The fast half: no SEAL, no slow tests; under a minute.
check: $(VENV)/.ready lib
	$(PY) -m pytest -n 2 --dist loadfile -m "not slow" --ignore tests/seal

# SECURITY.md's promises and the tests that show them; SLOW=1 runs the slow ones too.
check-security: $(VENV)/.ready lib
	@$(PY) -m tests.security $(if $(SLOW),--all)

check-generated: $(VENV)/.ready
	$(PY) -m tests.security --check
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

# Instructions of the DPU's assembly blocks, by the tests' interpreter.
dpu-counts: $(VENV)/.ready
	@$(PY) -m tests.dpu.counts

bench: $(VENV)/.ready lib
	$(PY) -m pybfv.bench

# 100,000 random jobs against exact rationals, about an hour; LARGE="--first N" resumes, LARGE="--minutes M" ends early.
bench-large: $(VENV)/.ready lib
	$(PY) -m pybfv.bench.random_jobs $(LARGE)

fmt: $(VENV)/.ready
	$(VENV)/bin/ruff check --quiet --fix . ; $(VENV)/bin/ruff format --quiet .
	$(VENV)/bin/clang-format -i $$(git ls-files '*.c' '*.h' ':!*_gen.h')

lint: $(VENV)/.ready
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/clang-format --dry-run -Werror $$(git ls-files '*.c' '*.h' ':!*_gen.h')

clean:
	rm -rf $(BUILD) build-* pybfv/native/*.so pybfv/native/dpu demo_out .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
