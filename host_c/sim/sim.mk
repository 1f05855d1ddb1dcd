# The functional simulator: sources for whoever links it in, flags for programs that run on it.
# Everything is relative to the repository root.

SIM_SOURCES := $(wildcard host_c/sim/*.c)
SIM_HEADERS := $(wildcard host_c/sim/*.h host_c/sim/include/*.h host_c/sim/device/*.h)
SIM_INCLUDE := -Ihost_c/sim/include
SIM_LIBS := -ldl -pthread

# A program: cc $(SIM_PROGRAM_FLAGS) -DNR_TASKLETS=24 ... -o x.sim.so. It holds no state outside
# the simulator's sections, may not take another object's symbols for its own, and is bound when
# it is loaded (binding at the first call needs more stack than a tasklet has).
SIM_PROGRAM_FLAGS := -std=c11 -shared -fPIC -Ihost_c/sim/device -Wl,-Bsymbolic -Wl,-z,now -Wl,-z,defs
# Strict: tasklets switch at basic blocks too, and endless loops end.
SIM_STRICT_FLAGS := -fsanitize-coverage=trace-pc
