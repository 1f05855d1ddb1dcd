# The UPMEM backend as plug-ins beside libpybfv.so, and the DPU programs, natively for the
# simulator and, where UPMEM_HOME is set, with the SDK. Included after rules.mk.

include host_c/sim/sim.mk

DPU_FAMILIES := ntt limb1 limb2 limb4 limb8
# Programs hold stacks for this many tasklets; a job may use fewer.
DPU_TASKLETS ?= 24

dpu_sources = dpu/kernels/main.c $(sort $(wildcard dpu/kernels/$(if $(filter ntt,$1),ntt,limb)_*.c))
# The stacks are those of dpu/core/abi.h, which main.c checks.
dpu_defines = $(if $(filter ntt,$1),-DBFV_FAMILY_NTT -DSTACK_SIZE_DEFAULT=1024,-DBFV_LIMBS=$(patsubst limb%,%,$1) -DSTACK_SIZE_DEFAULT=1280) \
  -DNR_TASKLETS=$(DPU_TASKLETS)
DPU_HEADERS := $(wildcard dpu/core/*.h dpu/kernels/*.h)

# Natively: "sim" as fast as it goes, "strict" with a call at every basic block, where the simulator may
# switch tasklets.
DPU_NATIVE := $(C_WARNINGS) $(SIM_PROGRAM_FLAGS) -Idpu/core
DPU_SIM_FLAGS ?= -O3
DPU_STRICT_FLAGS ?= -O1 -g $(SIM_STRICT_FLAGS)
define dpu_native
$(BUILD)/dpu/bfv_$1.$2.so: $$(call dpu_sources,$1) $$(DPU_HEADERS) $$(SIM_HEADERS)
	@mkdir -p $$(@D)
	$$(CC) $$(DPU_NATIVE) $3 $$(call dpu_defines,$1) -o $$@ $$(call dpu_sources,$1)
	@$$(call dpu_check_statics,$$@)
pybfv/native/dpu/bfv_$1.$2.so: $$(BUILD)/dpu/bfv_$1.$2.so
	@mkdir -p $$(@D)
	cp $$< $$@.new
	mv $$@.new $$@
endef
$(foreach f,$(DPU_FAMILIES),$(eval $(call dpu_native,$f,sim,$$(DPU_SIM_FLAGS))))
$(foreach f,$(DPU_FAMILIES),$(eval $(call dpu_native,$f,strict,$$(DPU_STRICT_FLAGS))))

# DPUs of one worker share .data and .bss, so a program keeps none: its state is in sections that the
# simulator changes with the DPU. What the C run time adds itself is allowed.
dpu_check_statics = found=$$(nm $1 | awk '$$2 ~ /^[bBdDcC]$$/ { print $$3 }' | \
  grep -v -x -e 'completed\.[0-9]*' -e '_DYNAMIC' -e '_GLOBAL_OFFSET_TABLE_' -e '__dso_handle' -e '__do_global_dtors_aux_fini_array_entry' -e '__frame_dummy_init_array_entry' -e '__TMC_END__' \
  -e '__\(start\|stop\)_dpu[a-z_]*' -e '__odr_asan\..*' -e 'dpusim_[a-z_]*' -e 'bfv_args' -e 'bfv_report' -e 'meeting' -e 'shared'); \
  test -z "$$found" || { echo "$1: variables outside the annotated sections:" $$found >&2; rm -f $1; exit 1; }

# The plug-in "sim": the backend, what it needs of the library, the simulator.
UPMEM_SOURCES := $(wildcard host_c/src/upmem/*.c)
UPMEM_SHARED := host_c/src/ring.c host_c/src/rns.c host_c/src/lift.c $(wildcard host_c/src/cpu/*.c)
SIM_OBJECTS = $(SIM_SOURCES:%.c=$(BUILD)/%.o) $(UPMEM_SOURCES:%.c=$(BUILD)/%.sim.o)
PLUGIN_LINK = $(CC) -shared -pthread $(CFLAGS) -Wl,-z,defs -Wl,--version-script=host_c/src/upmem/plugin.map

$(SIM_SOURCES:%.c=$(BUILD)/%.o): C_FLAGS += $(SIM_INCLUDE)
$(BUILD)/%.sim.o: %.c
	@mkdir -p $(@D)
	$(CC) $(C_FLAGS) $(SIM_INCLUDE) -c -o $@ $<

$(BUILD)/libpybfv_sim.so: $(SIM_OBJECTS) $(UPMEM_SHARED:%.c=$(BUILD)/%.o) host_c/src/upmem/plugin.map
	$(PLUGIN_LINK) -o $@ $(filter %.o,$^) $(SIM_LIBS) $(LDFLAGS)

pybfv/native/libpybfv_sim.so: $(BUILD)/libpybfv_sim.so
	@mkdir -p $(@D)
	cp $< $@.new
	mv $@.new $@

-include $(SIM_OBJECTS:.o=.d)

.PHONY: sim dpu host check-dpu check-dpu-types check-upmem check-upmem-debug check-upmem-split check-upmem-asan check-upmem-tsan
sim: pybfv/native/libpybfv_sim.so $(foreach f,$(DPU_FAMILIES),pybfv/native/dpu/bfv_$f.sim.so pybfv/native/dpu/bfv_$f.strict.so)

# With the SDK: the programs by its compiler, the plug-in "upmem" against its library.
DPU_CC := $(UPMEM_HOME)/bin/dpu-upmem-dpurte-clang
UPMEM_NEEDS := $(DPU_CC) $(UPMEM_HOME)/include/dpu/dpu.h $(UPMEM_HOME)/lib/libdpu.so
UPMEM_LACKS := $(filter-out $(wildcard $(UPMEM_NEEDS)),$(UPMEM_NEEDS))
ifeq ($(UPMEM_LACKS),)
DPU_PROGRAMS := $(foreach f,$(DPU_FAMILIES),pybfv/native/dpu/bfv_$f.dpu)
define dpu_real
pybfv/native/dpu/bfv_$1.dpu: $$(call dpu_sources,$1) $$(DPU_HEADERS)
	@mkdir -p $$(@D)
	$$(DPU_CC) $$(C_STANDARD) -Wall -Wextra -Os -Idpu/core $$(call dpu_defines,$1) -o $$@ $$(call dpu_sources,$1)
endef
$(foreach f,$(DPU_FAMILIES),$(eval $(call dpu_real,$f)))
dpu: $(DPU_PROGRAMS)

UPMEM_OBJECTS = $(UPMEM_SOURCES:%.c=$(BUILD)/%.upmem.o)
$(BUILD)/%.upmem.o: %.c
	@mkdir -p $(@D)
	$(CC) $(C_FLAGS) -isystem $(UPMEM_HOME)/include/dpu -c -o $@ $<
$(BUILD)/libpybfv_upmem.so: $(UPMEM_OBJECTS) $(UPMEM_SHARED:%.c=$(BUILD)/%.o) host_c/src/upmem/plugin.map
	$(PLUGIN_LINK) -o $@ $(filter %.o,$^) -L$(UPMEM_HOME)/lib -Wl,-rpath,$(UPMEM_HOME)/lib -ldpu -ldl $(LDFLAGS)
pybfv/native/libpybfv_upmem.so: $(BUILD)/libpybfv_upmem.so
	@mkdir -p $(@D)
	cp $< $@.new
	mv $@.new $@
-include $(UPMEM_OBJECTS:.o=.d)
host: pybfv/native/libpybfv_upmem.so dpu

# The backend's tests on the SDK: on DPUs, or with UPMEM_PROFILE_BASE=backend=simulator on the vendor's simulator.
check-dpu: $(VENV)/.ready lib host
	$(PY) -m tests.dpu.sizes $(DPU_PROGRAMS)
	$(PY) -m pytest -p tests.dpu.on_upmem -m "not slow" $(UPMEM_TESTS)
else
dpu host:
	$(error make $@: $(upmem_missing))
check-dpu:
	$(error make $@ was not run: $(upmem_missing))
endif
upmem_missing = $(if $(UPMEM_HOME),UPMEM_HOME=$(UPMEM_HOME) is not the folder of an UPMEM SDK: no $(UPMEM_LACKS),it \
  needs the UPMEM SDK: set UPMEM_HOME to its folder (it holds bin/dpu-upmem-dpurte-clang))

# The DPU's data model without its compiler: 32-bit pointers, 64-bit long, MRAM as its own address space, so
# that mixing MRAM and WRAM pointers, or counting on the host's sizes, is an error. Also with the SDK's macro
# for the DPU defined, which no native build sees: its inline assembly is parsed, not assembled.
DPU_TYPES := clang -target renderscript32-linux-android -fsyntax-only -ffreestanding $(C_STANDARD) -Wall -Wextra -Wconversion -Wshadow \
  -Werror -DDPUSIM_TYPECHECK -Ihost_c/sim/device -Idpu/core
define check_dpu_family
	@for source in $(call dpu_sources,$1); do for machine in -UDPU -DDPU; do \
	  $(DPU_TYPES) $(call dpu_defines,$1) $$machine $$source || exit 1; done; done

endef
check-dpu-types:
	$(foreach f,$(DPU_FAMILIES),$(call check_dpu_family,$f))
	@echo "DPU sources fit the DPU's data model"

# The backend's tests again, in a copy of the package: the ranges of dpu/core asserted; the DPU's split product;
# the sanitizers, whose tasklets are threads and whose programs therefore count no basic blocks.
UPMEM_TESTS ?= tests/test_upmem_ntt.py tests/test_limb_backend.py tests/test_upmem_scaled.py
# Of DPUs that err, which only simulated ones do when asked.
UPMEM_FAULTS := tests/test_dpu_faults.py
# Under the sanitizers, where tasklets are threads, what is quick: a few counts of DPUs and tasklets each;
# no flipped bits, for which an asserted range would end the process.
UPMEM_QUICK := $(UPMEM_TESTS) $(UPMEM_FAULTS) -k "several or only_dpu or transforms_are or naming_both or 1-11 or 3-1 or 7-24 or batches or smaller or limits or rounds or merge or failing or launch or 1-1-1-False or 3-2-2-True or 3-24-7-True or values"
SANITIZE_ADDRESS := -fsanitize=address,undefined -fno-sanitize-recover=all
# $1 name, $2 the library's flags, $3 the programs' flags, $4 what strict adds, $5 library to load first, $6 tests
define upmem_again
	+@$(MAKE) --silent -f $(firstword $(MAKEFILE_LIST)) BUILD=$(BUILD)/upmem-$1 CFLAGS="$2" DPU_SIM_FLAGS="$3" \
	  DPU_STRICT_FLAGS="$3 $4" upmem-copy
	cd $(BUILD)/upmem-$1/python && PYTHONPATH=. LD_PRELOAD="$5" ASAN_OPTIONS=detect_leaks=0 \
	  TSAN_OPTIONS=halt_on_error=1 $(CURDIR)/.venv/bin/python -P -m pytest -m "not slow" $6
endef
upmem-copy: $(BUILD)/libpybfv.so $(BUILD)/libpybfv_sim.so $(foreach f,$(DPU_FAMILIES),$(BUILD)/dpu/bfv_$f.sim.so $(BUILD)/dpu/bfv_$f.strict.so)
	@rm -rf $(BUILD)/python && mkdir -p $(BUILD)/python && cp -r pybfv workloads tests pyproject.toml $(BUILD)/python/
	@cp --parents -r dpu/core host_c/sim/device $(BUILD)/python/
	@mkdir -p $(BUILD)/python/pybfv/native/dpu && cp $(filter $(BUILD)/lib%,$^) $(BUILD)/python/pybfv/native/
	@cp $(filter $(BUILD)/dpu/%,$^) $(BUILD)/python/pybfv/native/dpu/
check-upmem-debug:
	$(call upmem_again,debug,-O1 -g -DPYBFV_DEBUG,-O1 -g -DPYBFV_DEBUG,$(SIM_STRICT_FLAGS),,$(UPMEM_TESTS) $(UPMEM_FAULTS))
check-upmem-split:
	$(call upmem_again,split,-O2,-O2 -DBFV_WIDE_SPLIT -DPYBFV_DEBUG,$(SIM_STRICT_FLAGS),,$(UPMEM_TESTS))
check-upmem-asan:
	$(call upmem_again,asan,-O1 -g $(SANITIZE_ADDRESS),-O1 -g -DPYBFV_DEBUG $(SANITIZE_ADDRESS),,$(shell $(CC) -print-file-name=libasan.so),$(UPMEM_QUICK))
check-upmem-tsan:
	$(call upmem_again,tsan,-O1 -g,-O1 -g -fsanitize=thread,,$(shell $(CC) -print-file-name=libtsan.so),$(UPMEM_QUICK))
check-upmem: check-upmem-debug check-upmem-split check-upmem-asan check-upmem-tsan
.PHONY: upmem-copy
