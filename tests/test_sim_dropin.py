"""The simulator as a drop-in for the SDK: its compiler and libdpu with programs written for the real machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / "host_c" / "sim" / "bin"
PROGRAMS = ROOT / "tests" / "sim" / "dropin"
COMPILERS = [c for c in ("gcc", "clang") if shutil.which(c)]
MODES = {"faithful": "strict=0", "strict": "strict=1"}
HOST_FLAGS = "-std=gnu11 -Wall -Wextra -Werror -O2 -DNR_TASKLETS=11"


def run(*command: str | Path, cwd: Path, ok: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command with the drop-in's folder on PATH and no other simulator's settings."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("UPMEM_", "DPUSIM_"))}
    environment |= {"PATH": f"{BIN}:{environment['PATH']}", "DPUSIM_BUILD": str(ROOT / "build" / "dpusim")} | variables
    result = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)
    assert not ok or result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]
    return result


def compile_dpu(folder: Path, source: Path, *flags: str, cc: str = COMPILERS[-1], ok: bool = True) -> Path:
    out = folder / f"{source.stem}.{cc}"
    command = ["dpu-upmem-dpurte-clang", "-Wall", "-Wextra", "-Werror", "-O2", *flags, "-o", str(out), str(source)]
    result = run(*command, cwd=folder, DPUSIM_CC=cc, ok=ok)
    if not ok:
        assert result.returncode != 0
        assert not out.exists()
        (folder / "errors").write_text(result.stderr)
    return out


def compile_host(folder: Path, source: str) -> Path:
    out = folder / source.removesuffix(".c")
    flags = "`dpu-pkg-config --cflags --libs dpu`"
    run("sh", "-c", f"cc {HOST_FLAGS} {PROGRAMS / source} {flags} -o {out}", cwd=folder)
    return out


@dataclass(frozen=True)
class Built:
    folder: Path
    host: Path
    mistakes_host: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("dropin")
    built = Built(folder, compile_host(folder, "host.c"), compile_host(folder, "mistakes_host.c"))
    for cc in COMPILERS:
        compile_dpu(
            folder,
            PROGRAMS / "device.c",
            "-DNR_TASKLETS=11",
            "-DSTACK_SIZE_DEFAULT=2048",
            "-DSTACK_SIZE_TASKLET_1=4096",
            cc=cc,
        )
        compile_dpu(folder, PROGRAMS / "mistakes.c", "-DNR_TASKLETS=4", cc=cc)
    return built


@pytest.mark.parametrize("ranks", ["nrDpusPerCI=1", "nrDpusPerCI=4,disabledMask=2"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cc", COMPILERS)
def test_every_header_of_the_run_time(built: Built, cc: str, mode: str, ranks: str) -> None:
    profile = f"{MODES[mode]},{ranks},timeout=60000"
    assert "good" in run(built.host, built.folder / f"device.{cc}", profile, cwd=built.folder).stdout


# name behind the line in mistakes.c, what strict mode says, what the hardware does: error and result
MISTAKES = {
    1: ("odd_size", "mram_write of 12 bytes: not a multiple of 8", "success 1"),
    2: ("large_size", "mram_read of 2056 bytes: not a multiple of 8 from 8 to 2048", "success 1"),
    3: ("unaligned_wram", "the WRAM address is not a multiple of 8", "success 1"),
    4: ("unaligned_mram", "the MRAM address is not a multiple of 8", "success 1"),
    5: ("not_dma_aligned", "'plain' is not __dma_aligned", "success 1"),
    6: ("beyond_mram", "outside MRAM", "dpu is in fault 0"),
    7: ("null_pointer", "access through a null pointer", "dpu is in fault 0"),
    8: ("beyond_wram", "access beyond WRAM", "dpu is in fault 0"),
    9: ("recursion", "stack overflow", "success 1"),
    10: ("large_frame", "stack overflow", "success 1"),
    11: ("wram_exhausted", "mem_alloc of 1024 bytes", "dpu is in fault 0"),
    12: ("nobody_wrote", "64 bytes of MRAM that nobody wrote", "success 1"),
    13: ("blocked", "still blocked at the end, this one by a barrier", "success 0"),
    14: ("endless", "no end after 300 ms", "result timeout 0"),
    15: ("division", "division by zero", "dpu is in fault 0"),
    16: ("assertion", "assert(size == 12345) (fault 3)", "dpu is in fault 0"),
    17: ("halted", "halt (fault 4)", "dpu is in fault 0"),
    18: ("mutex", "still blocked at the end, this one by a mutex", "result timeout 0"),
    19: ("null_memcpy", "access through a null pointer", "dpu is in fault 0"),
    20: ("lost_handshake", "still blocked at the end, this one by a handshake", "success 0"),
}


@pytest.mark.parametrize("number", MISTAKES)
def test_mistake(built: Built, number: int) -> None:
    name, says, hardware = MISTAKES[number]
    program = built.folder / f"mistakes.{COMPILERS[-1]}"
    timeout = ",timeout=300" if number == 14 else ",timeout=60000"
    strict = run(built.mistakes_host, program, str(number), "strict=1,seed=3" + timeout, cwd=built.folder)
    text = (PROGRAMS / "mistakes.c").read_text().splitlines()
    (line,) = (i for i, t in enumerate(text, 1) if f"/* {name} */" in t)
    report = next(t for t in strict.stderr.splitlines() if says in t)
    place = re.search(r"mistakes\.c:(\d+): DPU [01] tasklet 2: ", report)
    # the compiler may tell the lines of a function or a call apart otherwise
    near = 2 if name in ("recursion", "large_frame", "null_memcpy") else 0
    assert place, report
    assert abs(int(place[1]) - line) <= near, report
    assert "seed 3" in report
    assert "success" not in strict.stdout
    faithful = run(built.mistakes_host, program, str(number), "strict=0" + timeout, cwd=built.folder)
    assert faithful.stdout.strip() == hardware


@pytest.mark.skipif("gcc" not in COMPILERS, reason="clang's checks of alignment need large stacks")
def test_misaligned_access_is_a_fault(built: Built, tmp_path: Path) -> None:
    source = tmp_path / "misaligned.c"
    source.write_text(
        "#include <defs.h>\n__host uint32_t mistake, size;\n__host uint64_t result;\n"
        "static uint64_t words[4];\nint main(void) {\n"
        "    result = *(volatile uint64_t *)((uint8_t *)words + size - 4);\n    return 0;\n}\n"
    )
    program = compile_dpu(tmp_path, source, cc="gcc")
    got = run(built.mistakes_host, program, "0", "strict=0", cwd=tmp_path)
    assert got.stdout.startswith("dpu is in fault")
    assert "misaligned.c:6: " in got.stderr


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("uint8_t big[70000];", "WRAM"),
        ("__mram_noinit uint8_t big[65 << 20];", "MRAM"),
        ("__dma_aligned uint8_t b[16]; void f(void) { mram_read(0, b, 12); }", "must be a multiple of 8"),
        ("__dma_aligned uint8_t b[16]; void f(void) { mram_write(b, 0, 4096); }", "must not be higher than 2048"),
        ("#if NR_TASKLETS != 1\n#error\n#endif\nuint32_t f(void) { return missing(); }", "missing"),
    ],
)
def test_what_does_not_fit_does_not_build(tmp_path: Path, body: str, says: str) -> None:
    source = tmp_path / "wrong.c"
    source.write_text(f"#include <defs.h>\n#include <mram.h>\n{body}\nint main(void) {{ return 0; }}\n")
    compile_dpu(tmp_path, source, ok=False)
    assert says in (tmp_path / "errors").read_text()


def test_more_tasklets_or_stack_than_there_are(tmp_path: Path) -> None:
    source = tmp_path / "wrong.c"
    source.write_text("#include <defs.h>\nint main(void) { return 0; }\n")
    for flags, says in (
        (["-DNR_TASKLETS=25"], "NR_TASKLETS should be in the range"),
        (["-DNR_TASKLETS=17", "-mcpu=v1B"], "NR_TASKLETS should be in the range"),
        (["-DSTACK_SIZE_TASKLET_0=100"], "STACK_SIZE_TASKLET_0 should be a multiple of 8"),
        (["-DNR_TASKLETS=16", "-DSTACK_SIZE_DEFAULT=4096"], "WRAM"),
    ):
        compile_dpu(tmp_path, source, *flags, ok=False)
        assert says in (tmp_path / "errors").read_text()


def test_separate_compilation_takes_the_tasklets_of_the_link(built: Built, tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text(
        "#include <defs.h>\n__host uint32_t mistake, size;\n__host uint64_t result;\n"
        "int main(void) { if (me() == 6) result = 1; return 0; }\n"
    )
    (tmp_path / "b.c").write_text("#include <stdint.h>\nuint32_t unused(void);\nuint32_t unused(void) { return 3; }\n")
    for part in "ab":
        run("dpu-upmem-dpurte-clang", "-c", f"{part}.c", "-o", f"{part}.o", cwd=tmp_path)
    run("dpu-upmem-dpurte-clang", "-DNR_TASKLETS=7", "a.o", "b.o", "-o", "program", cwd=tmp_path)
    assert run(built.mistakes_host, tmp_path / "program", "0", cwd=tmp_path).stdout.strip() == "success 1"


PROFILED = """#include <defs.h>
#include <profiling.h>
__host uint32_t mistake, size;
__host uint64_t result;
PROFILING_INIT(section);
int main(void) {
    volatile uint32_t x = 0;
    if (mistake == 2) profiling_stop(&section);
    for (uint32_t i = 0; i < 3; i++) {
        profiling_start(&section);
        if (mistake == 1) profiling_start(&section);
        while (x < 100000 * (i + 1)) x++;
        profiling_stop(&section);
    }
    if (me() == 1) result = section.count[1] != 0 && section.start[1] == UINT32_MAX && section.count[20] == 0;
    return 0;
}
"""


@pytest.mark.parametrize("cc", COMPILERS)
def test_profiled_sections(built: Built, tmp_path: Path, cc: str) -> None:
    source = tmp_path / "profiled.c"
    source.write_text(PROFILED)
    program = compile_dpu(tmp_path, source, "-DNR_TASKLETS=2", "-DDPU_PROFILING", cc=cc)
    assert run(built.mistakes_host, program, "0", cwd=tmp_path).stdout.strip() == "success 1"
    for mistake, says in ((1, "profiling_start within the section"), (2, "profiling_stop outside of the section")):
        got = run(built.mistakes_host, program, str(mistake), cwd=tmp_path)
        assert got.stdout.startswith("dpu is in fault")
        assert f"{says} (fault {5 + mistake})" in got.stderr
    plain = compile_dpu(tmp_path, source, "-DNR_TASKLETS=2", cc=cc)  # the calls are nothing
    assert run(built.mistakes_host, plain, "1", cwd=tmp_path).stdout.strip() == "success 0"


PROBED = """#include <dpu_probe.h>
#include <stdio.h>
int main(void) {
    struct dpu_probe_t probe;
    double all, mean, energy;
    DPU_ASSERT(dpu_probe_init("energy_probe", &probe));
    int wrong = dpu_probe_stop(&probe) == DPU_OK;
    for (int i = 0; i < 2; i++) {
        volatile int x = 0;
        DPU_ASSERT(dpu_probe_start(&probe));
        wrong += dpu_probe_start(&probe) == DPU_OK;
        while (x < 1000000) x++;
        DPU_ASSERT(dpu_probe_stop(&probe));
    }
    DPU_ASSERT(dpu_probe_get(&probe, DPU_TIME, DPU_ACCUMULATE, &all));
    DPU_ASSERT(dpu_probe_get(&probe, DPU_TIME, DPU_AVERAGE, &mean));
    DPU_ASSERT(dpu_probe_get(&probe, DPU_ENERGY, DPU_AVERAGE, &energy));
    DPU_ASSERT(dpu_probe_deinit(&probe));
    printf("%d %d %d %d\\n", wrong, all > 0, all == 2 * mean, energy != energy);
    return 0;
}
"""


def test_probes(tmp_path: Path) -> None:
    source = tmp_path / "probe.c"
    source.write_text(PROBED)
    run("sh", "-c", f"cc {HOST_FLAGS} {source} `dpu-pkg-config --cflags --libs dpu` -o probe", cwd=tmp_path)
    assert run(tmp_path / "probe", cwd=tmp_path).stdout.strip() == "0 1 1 1"


def test_unmodified_makefile_and_environment_script(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(
        "NR_TASKLETS ?= 16\nall: host device\n"
        "host: host.c\n\t$(CC) --std=c99 $< -o $@ -DNR_TASKLETS=${NR_TASKLETS}"
        " `dpu-pkg-config --cflags --libs dpu`\n"
        "device: device.c\n\tdpu-upmem-dpurte-clang -DNR_TASKLETS=${NR_TASKLETS} -o $@ $<\n"
    )
    (tmp_path / "device.c").write_text(
        "#include <defs.h>\n#include <mram.h>\n#include <stdio.h>\nint main() {\n"
        '    if (me() == NR_TASKLETS - 1) printf("hello %u\\n", me());\n    return 0;\n}\n'
    )
    (tmp_path / "host.c").write_text(
        "#include <assert.h>\n#include <dpu.h>\n#include <dpu_log.h>\n#include <stdio.h>\n"
        'DPU_INCBIN(binary, "device")\n'
        "int main(void) {\n    struct dpu_set_t set, dpu, rank; uint32_t i, ranks;\n"
        "    DPU_ASSERT(dpu_alloc(3, NULL, &set));\n"
        "    DPU_ASSERT(dpu_load_from_incbin(set, &binary, NULL));\n"
        "    DPU_ASSERT(dpu_launch(set, DPU_SYNCHRONOUS));\n"
        "    DPU_FOREACH (set, dpu, i) { DPU_ASSERT(dpu_log_read(dpu, stdout)); }\n"
        "    DPU_ASSERT(dpu_get_nr_ranks(set, &ranks));\n"
        '    DPU_RANK_FOREACH (set, rank) printf("rank\\n");\n'
        "    DPU_ASSERT(dpu_free(set));\n    return ranks != 3;\n}\n"
    )
    script = f". {BIN / 'upmem_env.sh'} simulator && make -s device host NR_TASKLETS=5 && ./host"
    result = run("bash", "-c", script, cwd=tmp_path, PATH=os.environ["PATH"])
    assert result.stdout.count("hello 4\n") == 3
    assert result.stdout.count("rank\n") == 3


def test_thread_sanitizer_finds_races(built: Built, tmp_path: Path) -> None:
    source = tmp_path / "race.c"
    source.write_text(
        "#include <defs.h>\n__host uint32_t mistake, size;\n__host uint64_t result;\nstatic uint32_t count;\n"
        "int main(void) {\n    count++;\n    result = count;\n    return 0;\n}\n"
    )
    variables = {"DPUSIM_SANITIZE": "thread", "DPUSIM_CC": "gcc" if "gcc" in COMPILERS else "clang"}
    run("dpu-upmem-dpurte-clang", "-DNR_TASKLETS=4", "-O1", "race.c", "-o", "race", cwd=tmp_path, **variables)
    flags = "`dpu-pkg-config --cflags --libs dpu`"
    host = f"{variables['DPUSIM_CC']} {HOST_FLAGS} {PROGRAMS / 'mistakes_host.c'} {flags} -o host"
    run("sh", "-c", host, cwd=tmp_path, **variables)
    result = run("./host", "./race", "0", cwd=tmp_path, ok=False)
    assert "data race" in result.stderr
    assert "race.c:6" in result.stderr


HOST_FUNCTIONS = """
dpu_alloc dpu_alloc_ranks dpu_free dpu_get_nr_ranks dpu_get_nr_dpus dpu_load dpu_load_from_memory dpu_load_from_incbin
dpu_get_symbol dpu_launch dpu_status dpu_sync dpu_copy_to dpu_copy_from dpu_copy_to_symbol dpu_copy_from_symbol
dpu_prepare_xfer dpu_push_xfer dpu_push_xfer_symbol dpu_broadcast_to dpu_broadcast_to_symbol dpu_push_sg_xfer
dpu_push_sg_xfer_symbol dpu_callback dpu_fifo_prepare_xfer dpu_fifo_push_xfer dpu_log_read dpu_error_to_string
dpu_set_rank_iterator_from dpu_set_rank_iterator_next dpu_set_dpu_iterator_from dpu_set_dpu_iterator_next"""
HOST_MACROS = """
DPU_CHECK DPU_ASSERT DPU_ALLOCATE_ALL DPU_FOREACH DPU_RANK_FOREACH DPU_INCBIN DPU_MRAM_HEAP_POINTER_NAME
DPU_MAX_NR_CIS DPU_MAX_NR_DPUS_PER_CI"""
HOST_VALUES = """
DPU_XFER_TO_DPU DPU_XFER_FROM_DPU DPU_XFER_DEFAULT DPU_XFER_NO_RESET DPU_XFER_ASYNC DPU_XFER_PARALLEL
DPU_SG_XFER_DEFAULT DPU_SG_XFER_ASYNC DPU_SG_XFER_DISABLE_LENGTH_CHECK DPU_CALLBACK_DEFAULT DPU_CALLBACK_ASYNC
DPU_CALLBACK_NONBLOCKING DPU_CALLBACK_SINGLE_CALL DPU_CALLBACK_PARALLEL DPU_ASYNCHRONOUS DPU_SYNCHRONOUS DPU_SET_RANKS
DPU_SET_DPU DPU_OK DPU_ERR_ASYNC_JOBS DPU_ERR_DPU_FAULT DPU_ERR_SG_NOT_MRAM_SYMBOL"""
HOST_TYPES = """
dpu_error_t dpu_xfer_t dpu_xfer_flags_t dpu_sg_xfer_flags_t dpu_callback_flags_t dpu_launch_policy_t get_block_func_t
get_block_t struct~dpu_set_t struct~dpu_symbol_t struct~dpu_incbin_t struct~sg_block_info struct~get_block_t"""
DEVICE_HEADERS = """
alloc assert atomic_bit attributes barrier buddy_alloc built_ins defs dpufault fsb_allocator handshake mram
mram_unaligned mutex mutex_pool perfcounter sem seqread stdio vmutex"""
DEVICE_FUNCTIONS = """
me halt check_stack mram_read mram_write mem_alloc mem_reset fsb_alloc fsb_get fsb_free buddy_init buddy_alloc
buddy_free buddy_realloc buddy_reset barrier_wait mutex_lock mutex_trylock mutex_unlock mutex_pool_lock
mutex_pool_unlock vmutex_lock vmutex_unlock sem_take sem_give handshake_notify handshake_wait_for perfcounter_config
perfcounter_get seqread_alloc seqread_init seqread_get seqread_seek seqread_tell mram_read_unaligned
mram_write_unaligned mram_update_int_atomic mram_write_int_atomic mram_update_byte_atomic mram_write_byte_atomic"""
DEVICE_MACROS = """
NR_TASKLETS DPU_MRAM_HEAP_POINTER __mram_ptr __mram __mram_noinit __mram_keep __mram_noinit_keep __host __dma_aligned
__lower_data __atomic_bit BARRIER_INIT MUTEX_INIT MUTEX_GET MUTEX_POOL_INIT VMUTEX_INIT SEMAPHORE_INIT ATOMIC_BIT_INIT
ATOMIC_BIT_GET STDOUT_BUFFER_INIT SEQREAD_CACHE_SIZE CLOCKS_PER_SEC printf puts putchar assert"""
DEVICE_TYPES = """
thread_id_t sysname_t barrier_t mutex_id_t sem_t perfcounter_t perfcounter_config_t seqreader_t seqreader_buffer_t
fsb_allocator_t struct~mutex_pool struct~vmutex"""


def inventory(headers: str, functions: str, macros: str, values: str, types: str) -> str:
    """A program that needs each of the names."""
    lines = [f"#include <{h}>" for h in headers.split()]
    lines += [f"#ifndef {m}\n#error {m}\n#endif" for m in macros.split()]
    lines += [f"extern {t.replace('~', ' ')} variable_{i};" for i, t in enumerate(types.split())]
    lines += [f"unsigned value_{i} = (unsigned){v};" for i, v in enumerate(values.split())]
    lines += ["void (*functions[])(void) = {", *(f"    (void (*)(void))({f})," for f in functions.split()), "};"]
    return "\n".join([*lines, "int main(void) { return 0; }", ""])


def test_inventory_of_the_host_interface(tmp_path: Path) -> None:
    headers = "dpu.h dpu_error.h dpu_log.h dpu_types.h"
    (tmp_path / "h.c").write_text(inventory(headers, HOST_FUNCTIONS, HOST_MACROS, HOST_VALUES, HOST_TYPES))
    run("sh", "-c", "cc -Wall h.c -o h `dpu-pkg-config --cflags --libs dpu`", cwd=tmp_path)
    run("sh", "-c", "c++ -fsyntax-only -include dpu.h -x c++ /dev/null `dpu-pkg-config --cflags dpu`", cwd=tmp_path)


@pytest.mark.parametrize("cc", COMPILERS)
def test_inventory_of_the_run_time(tmp_path: Path, cc: str) -> None:
    headers = " ".join(f"{h}.h" for h in DEVICE_HEADERS.split())
    text = inventory(headers, DEVICE_FUNCTIONS, DEVICE_MACROS, "", DEVICE_TYPES)
    (tmp_path / "d.c").write_text(text.replace("[])(void)", "[])(void) __attribute__((used))"))
    compile_dpu(tmp_path, tmp_path / "d.c", "-Wno-cast-function-type", cc=cc)


@pytest.mark.parametrize("mode", MODES)
def test_vector_addition(built: Built, mode: str) -> None:
    """The measured program (host_c/sim/README.md), with few elements."""
    host = compile_host(built.folder, "va_host.c")
    program = compile_dpu(built.folder, PROGRAMS / "va_device.c", "-DNR_TASKLETS=16")
    result = run(host, program, "20", cwd=built.folder, UPMEM_PROFILE=MODES[mode])
    assert ": right, " in result.stdout
