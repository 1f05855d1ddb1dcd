# Constant time, by valgrind; the including Makefile has host_c/rules.mk. tests/ct/ct.c says what is checked.

CT_BUILD := $(BUILD)/ct
CT_VALGRIND := valgrind --quiet --error-exitcode=9
# As shipped but for the marks: the compiler's optimisations are what may bring branches in.
CT_CFLAGS := -O3 -gdwarf-4 -DPYBFV_CT

$(BUILD)/ct_tests: $(C_OBJECTS) $(BUILD)/tests/ct/ct.o
	$(CC) -pthread $(CFLAGS) -o $@ $^ $(LDFLAGS)

# All but those that take minutes there.
VALGRIND_QUICK := arguments arguments_texts arguments_ring arguments_random arguments_encrypt arguments_encoder \
  arguments_secret arguments_lift arguments_lift64 handles out_of_memory put_checks_residues ring_refuses arithmetic \
  from_int64 arguments_many arguments_switching switching bodies_agree acc_splits acc_strides crc_bodies limb_pairs limb_conversion

.PHONY: check-ct check-ct-one check-valgrind check-valgrind-quick
check-ct:
	+@$(MAKE) --silent check-ct-one CC=$(CC) CT_BUILD=$(CT_BUILD)/cc
	+@$(MAKE) --silent check-ct-one CC=clang CT_BUILD=$(CT_BUILD)/clang
check-ct-one:
	+@$(MAKE) --silent BUILD=$(CT_BUILD) CFLAGS="$(CT_CFLAGS)" $(CT_BUILD)/ct_tests
	@for body in portable avx2; do $(CT_VALGRIND) $(CT_BUILD)/ct_tests $$body || exit 1; done
	@for leak in leak-branch leak-index; do \
	  $(CT_VALGRIND) $(CT_BUILD)/ct_tests $$leak >/dev/null 2>$(CT_BUILD)/$$leak.txt; \
	  if [ $$? -ne 9 ]; then echo "check-ct did not see $$leak" >&2; exit 1; fi; done; \
	echo "$(CC): both planted leaks were seen"

# The C tests under valgrind: uninitialised memory, which address sanitizers don't see.
check-valgrind-quick:
	+@$(MAKE) --silent check-valgrind VALGRIND_TESTS="$(VALGRIND_QUICK)"
check-valgrind: $(BUILD)/c_tests
	valgrind --quiet --error-exitcode=9 --leak-check=full $(BUILD)/c_tests $(VALGRIND_TESTS)

-include $(wildcard $(BUILD)/tests/ct/*.d)
