# Coverage-guided fuzzing; tests/fuzz/README.md tells more. The including Makefile has VENV, PY and host_c/rules.mk.

FUZZ_CC ?= clang
FUZZ_CFLAGS := -O1 -g -DPYBFV_DEBUG -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
FUZZ_BINARIES := $(BUILD)/fuzz/fuzz_backend $(BUILD)/fuzz/fuzz_ring
# Of each of the five fuzzers: in a check, and in a long run (which takes FUZZ_LONG_SECONDS x 5 / jobs).
FUZZ_SECONDS ?= 20
FUZZ_LONG_SECONDS ?= 1200

$(BUILD)/fuzz_%: $(C_OBJECTS) $(BUILD)/tests/fuzz/fuzz_%.o
	$(CC) -pthread $(CFLAGS) -fsanitize=fuzzer -o $@ $^ $(LDFLAGS)

$(VENV)/.fuzz: $(VENV)/.ready
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[fuzz]'
	@touch $@

.PHONY: fuzz-build check-fuzz fuzz-long
fuzz-build: $(VENV)/.fuzz lib
	+@$(MAKE) --silent CC=$(FUZZ_CC) BUILD=$(BUILD)/fuzz CFLAGS="$(FUZZ_CFLAGS)" $(FUZZ_BINARIES)

check-fuzz: fuzz-build
	$(PY) tests/fuzz/run.py --seconds $(FUZZ_SECONDS)

# Goes on from what earlier long runs found; python tests/fuzz/run.py --keep --pack makes that the corpus.
fuzz-long: fuzz-build
	nice -n 19 $(PY) tests/fuzz/run.py --seconds $(FUZZ_LONG_SECONDS) --keep

-include $(wildcard $(BUILD)/tests/fuzz/*.d)
