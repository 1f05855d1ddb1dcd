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
ifeq ($(shell uname -m),x86_64)
$(BUILD)/host_c/src/cpu/avx2.o: C_FLAGS += -mavx2 -mbmi2
$(BUILD)/host_c/src/cpu/avx512.o: C_FLAGS += -mavx2 -mbmi2 -mavx512f -mavx512dq -mavx512bw -mavx512vl -mprefer-vector-width=512
endif

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(C_FLAGS) -c -o $@ $<

$(BUILD)/libpybfv.so: $(C_OBJECTS)
	$(CC) -shared -pthread $(CFLAGS) -Wl,-z,defs -o $@ $(C_OBJECTS) $(LDFLAGS)

-include $(C_OBJECTS:.o=.d) $(C_TEST_OBJECTS:.o=.d)

# Where the Python binding looks. Moved into place, so that a running process keeps its own.
pybfv/native/libpybfv.so: $(BUILD)/libpybfv.so
	@mkdir -p $(@D)
	cp $< $@.new
	mv $@.new $@
