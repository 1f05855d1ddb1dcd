# The C library and its tests. The including Makefile may set CC, BUILD and CFLAGS;
# everything here is relative to the repository root.

BUILD ?= build
CC ?= cc
CFLAGS ?= -O3
C_WARNINGS := -Wall -Wextra -Wconversion -Wshadow -Werror
C_STANDARD := -std=c11
C_FLAGS = $(C_STANDARD) $(C_WARNINGS) -fPIC -fvisibility=hidden -pthread -MMD -MP $(CFLAGS)

C_SOURCES := $(wildcard host_c/src/*.c host_c/src/cpu/*.c)
C_OBJECTS = $(C_SOURCES:%.c=$(BUILD)/%.o)
C_TESTS := $(wildcard tests/c/*.c)
C_TEST_OBJECTS = $(C_TESTS:%.c=$(BUILD)/%.o)

# Bodies for wider instruction sets; select.c asks the CPU for the same features.
ifneq ($(filter x86_64%,$(shell $(CC) -dumpmachine)),)
C_AVX2 := -mavx2 -mbmi2
C_AVX512 := $(C_AVX2) -mavx512f -mavx512dq -mavx512bw -mavx512vl -mprefer-vector-width=512
$(BUILD)/host_c/src/cpu/avx2.o: C_FLAGS += $(C_AVX2)
$(BUILD)/host_c/src/cpu/avx512.o: C_FLAGS += $(C_AVX512)
endif

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(C_FLAGS) -c -o $@ $<

$(BUILD)/libpybfv.so: $(C_OBJECTS)
	$(CC) -shared -pthread $(CFLAGS) -Wl,-z,defs -o $@ $(C_OBJECTS) $(LDFLAGS)

# The tests see the library's private symbols, and its calls for memory and threads go
# through the faults of tests/c/main.c.
C_TEST_WRAPS := -Wl,--wrap=pthread_create,--wrap=malloc,--wrap=calloc,--wrap=aligned_alloc
$(BUILD)/c_tests: $(C_OBJECTS) $(C_TEST_OBJECTS)
	$(CC) -pthread $(CFLAGS) $(C_TEST_WRAPS) -o $@ $^ $(LDFLAGS)

.PHONY: check-c check-c-debug check-c-asan check-c-tsan check-c-clang check-sanitize
check-c: $(BUILD)/c_tests
	$<

# The same tests with the ranges of dpu/core asserted, under the sanitizers, by the other compiler.
C_AGAIN = $(MAKE) -f $(firstword $(MAKEFILE_LIST)) check-c
C_CHECKED := -O1 -g -DPYBFV_DEBUG
check-c-debug:
	+$(C_AGAIN) BUILD=$(BUILD)/debug CFLAGS="$(C_CHECKED)"
check-c-asan:
	+$(C_AGAIN) BUILD=$(BUILD)/asan CFLAGS="$(C_CHECKED) -fsanitize=address,undefined -fno-sanitize-recover=all"
check-c-tsan:
	+$(C_AGAIN) BUILD=$(BUILD)/tsan CFLAGS="$(C_CHECKED) -fsanitize=thread"
check-c-clang:
	+$(C_AGAIN) BUILD=$(BUILD)/clang CC=clang
check-sanitize: check-c-asan check-c-tsan check-c-clang check-binding-asan check-dpu-types check-upmem

-include $(C_OBJECTS:.o=.d) $(C_TEST_OBJECTS:.o=.d)

# Where the Python binding looks. Moved into place, so that a running process keeps its own.
pybfv/native/libpybfv.so: $(BUILD)/libpybfv.so
	@mkdir -p $(@D)
	cp $< $@.new
	mv $@.new $@
