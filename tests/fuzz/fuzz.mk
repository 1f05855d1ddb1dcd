# Coverage-guided fuzzing. Included by the Makefile after host_c/rules.mk; tests/fuzz/README.md tells more.

FUZZ_CC ?= clang
FUZZ_CFLAGS := -O1 -g -DPYBFV_DEBUG -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
FUZZ_C := fuzz_backend fuzz_ring
FUZZ_PYTHON := fuzz_files fuzz_text fuzz_binding
# Seconds for each target, and where new inputs go: nowhere in a check, beside the corpus in a long run.
FUZZ_SECONDS ?= 20
FUZZ_LONG_SECONDS ?= 1800
FUZZ_FOUND := $(BUILD)/fuzz/found
FUZZ_OPTIONS := -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0

$(FUZZ_C:%=$(BUILD)/%): $(BUILD)/%: $(C_OBJECTS) $(BUILD)/tests/fuzz/%.o
	$(CC) -pthread $(CFLAGS) -fsanitize=fuzzer -o $@ $^ $(LDFLAGS)
