/* Every header of the SDK's run time, in a program written for the DPU: it checks itself. */
#include <alloc.h>
#include <atomic_bit.h>
#include <attributes.h>
#include <barrier.h>
#include <buddy_alloc.h>
#include <built_ins.h>
#include <defs.h>
#include <dpufault.h>
#include <fsb_allocator.h>
#include <handshake.h>
#include <mram.h>
#include <mram_unaligned.h>
#include <mutex.h>
#include <mutex_pool.h>
#include <perfcounter.h>
#include <sem.h>
#include <seqread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <vmutex.h>

#include "parts.h"

#if !defined(DPU) || !defined(__DPU__) || !(defined(__dpu_v1A__) || defined(__dpu_v1B__))
#error "the compiler's macros"
#endif

__host struct order order;
__host struct outcome outcome;
__host uint64_t totals[NR_TASKLETS];
__mram_noinit uint32_t numbers[WORDS];
__mram uint32_t constants[4] = {11, 22, 33, 44};
__mram_noinit uint64_t words[64];

BARRIER_INIT(all, NR_TASKLETS);
MUTEX_INIT(guard);
MUTEX_POOL_INIT(pool, 4);
VMUTEX_INIT(virtual, 64, 4);
SEMAPHORE_INIT(tickets, 2);
ATOMIC_BIT_INIT(bits)[2];
STDOUT_BUFFER_INIT(4096)

static uint32_t launches;
uint32_t preset = 7;
static uint32_t counts[8];
static volatile uint32_t flag;
static fsb_allocator_t blocks;
static uint32_t inside, most_inside;

static void check(bool good, uint32_t line) {
    mutex_lock(guard);
    if (!good && outcome.line == 0) {
        outcome.line = line;
        outcome.tasklet = me();
    }
    mutex_unlock(guard);
}
#define CHECK(condition) check((condition), __LINE__)

static void allocators(void) {
    if (me() == 0) {
        uint8_t *a = mem_alloc(5), *b = mem_alloc(16);
        CHECK(((uintptr_t)a & 7) == 0 && ((uintptr_t)b & 7) == 0 && b - a == 8);
        CHECK((uint8_t *)mem_alloc(0) == b + 16);
        blocks = fsb_alloc(12, 3 * NR_TASKLETS);
        buddy_init(4096);
    }
    barrier_wait(&all);
    uint32_t *mine[3];
    for (uint32_t i = 0; i < 3; i++) {
        mine[i] = fsb_get(blocks);
        CHECK(mine[i] != NULL);
        mine[i][0] = me();
        mine[i][3] = i;
    }
    barrier_wait(&all);
    if (me() == 0)
        CHECK(fsb_get(blocks) == NULL);
    barrier_wait(&all);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(mine[i][0] == me() && mine[i][3] == i);
        fsb_free(blocks, mine[i]);
    }
    barrier_wait(&all);
    if (me() != 0)
        return;
    CHECK(fsb_get(blocks) != NULL);
    uint8_t *p = buddy_alloc(2048), *q = buddy_alloc(1025);
    CHECK(p != NULL && q != NULL && p != q && buddy_alloc(16) == NULL);
    CHECK(buddy_alloc(0) == NULL && buddy_alloc(40000) == NULL);
    buddy_free(p);
    p = buddy_alloc(17);
    uint8_t *r = buddy_alloc(1);
    CHECK(p != NULL && r != NULL && (r - p == 32 || p - r == 16));
    memset(p, 5, 17);
    p = buddy_realloc(p, 500);
    CHECK(p != NULL && p[0] == 5 && p[16] == 5);
    buddy_free(p);
    buddy_free(q);
    buddy_free(r);
    CHECK(buddy_alloc(4096) != NULL && buddy_alloc(16) == NULL);
    buddy_reset();
    CHECK(buddy_alloc(4096) != NULL);
}

static void sequential_reader(void) {
    seqreader_t reader;
    uint32_t first = me() * (WORDS / NR_TASKLETS) + 3, sum = 0, expected = 0;
    uint32_t *at = seqread_init(seqread_alloc(), &numbers[first], &reader);
    CHECK(seqread_tell(at, &reader) == &numbers[first]);
    for (uint32_t i = 0; i < 150; i++) {
        sum += *at;
        expected += first + i;
        at = seqread_get(at, sizeof *at, &reader);
    }
    CHECK(sum == expected);
    CHECK(seqread_tell(at, &reader) == &numbers[first + 150]);
    at = seqread_seek(&numbers[77], &reader);
    CHECK(*at == 77);
    at = seqread_get(at, 8, &reader);
    CHECK(*at == 79);
}

static void add(int *value, void *amount) {
    *value += *(int *)amount;
}
static void next(uint8_t *value, void *unused) {
    (void)unused;
    ++*value;
}

static void unaligned(void) {
    __dma_aligned uint8_t buffer[64];
    uint32_t n = me() + 1;
    uint32_t *read = mram_read_unaligned(&numbers[n], buffer, 12);
    CHECK(read[0] == n && read[2] == n + 2);
    if (me() == 0) {
        __dma_aligned uint64_t zeros[64] = {0};
        mram_write(zeros, words, sizeof zeros);
    }
    barrier_wait(&all);
    __mram_ptr uint8_t *bytes = (__mram_ptr uint8_t *)words;
    buffer[n % 8] = (uint8_t)n;
    mram_write_unaligned(&buffer[n % 8], &bytes[n], 1);
    int one = 1;
    mram_update_int_atomic((__mram_ptr int *)&words[8], add, &one);
    mram_update_byte_atomic((__mram_ptr uint8_t *)&words[9] + 3, next, NULL);
    mram_write_int_atomic((__mram_ptr int *)&words[16 + me()] + 1, (int)n);
    mram_write_byte_atomic((__mram_ptr uint8_t *)&words[10] + me() % 8, (uint8_t)(me() % 8));
    barrier_wait(&all);
    CHECK(bytes[n] == n && bytes[0] == 0);
    CHECK(words[8] == NR_TASKLETS && words[9] == (uint64_t)NR_TASKLETS << 24);
    CHECK(words[16 + me()] == (uint64_t)n << 32);
    uint8_t longer[32] __dma_aligned;
    for (uint32_t i = 0; i < sizeof longer; i++)
        longer[i] = (uint8_t)(100 + i);
    if (me() == 0) {
        mram_write_unaligned(&longer[3], (__mram_ptr uint8_t *)&words[40] + 3, 24);
        CHECK(words[40] == (UINT64_C(0x6b6a696867) << 24) && (words[43] & 0xffffff) == 0x7e7d7c);
        CHECK(words[43] >> 24 == 0);
    }
}

static void pools(void) {
    for (uint32_t i = 0; i < 50; i++) {
        uint16_t id = (uint16_t)((i + me()) % 8);
        mutex_pool_lock(&pool, id % 4);
        counts[id % 4]++;
        mutex_pool_unlock(&pool, id % 4);
        vmutex_lock(&virtual, 32 + id % 4);
        counts[4 + id % 4]++;
        vmutex_unlock(&virtual, 32 + id % 4);
    }
    barrier_wait(&all);
    if (me() == 0) {
        uint32_t sum = 0;
        for (uint32_t i = 0; i < 8; i++)
            sum += counts[i];
        CHECK(sum == 100 * NR_TASKLETS);
        memset(counts, 0, sizeof counts);
    }
}

static void synchronisation(void) {
    mutex_id_t raw = (mutex_id_t)3, other = &ATOMIC_BIT_GET(bits)[1];
    void (*lock)(mutex_id_t) = mutex_lock;
    for (uint32_t i = 0; i < 20; i++) {
        lock(raw);
        counts[0]++;
        mutex_unlock(raw);
        while (!mutex_trylock(other)) {
        }
        counts[1]++;
        mutex_unlock(other);
    }
    sem_take(&tickets);
    mutex_lock(guard);
    inside++;
    most_inside = inside > most_inside ? inside : most_inside;
    mutex_unlock(guard);
    mutex_lock(guard);
    inside--;
    mutex_unlock(guard);
    sem_give(&tickets);
    if (me() != 0)
        handshake_wait_for(me() - 1);
    counts[2] += counts[2] == me();
    if (me() != NR_TASKLETS - 1)
        handshake_notify();
    barrier_wait(&all);
    if (me() == 0) {
        CHECK(counts[0] == 20 * NR_TASKLETS && counts[1] == 20 * NR_TASKLETS && counts[2] == NR_TASKLETS);
        CHECK(most_inside <= 2 && inside == 0);
        memset(counts, 0, sizeof counts);
    }
}

static void instructions(void) {
    uint32_t r;
    __builtin_cmpb4_rrr(r, 0x11223344, 0x11aa33bb);
    CHECK(r == 0x01000100);
    __builtin_clz_rr(r, 0);
    CHECK(r == 32);
    __builtin_cao_rr(r, 0xf0f00001);
    CHECK(r == 9);
    __builtin_lsl_add_rrri(r, 10, 3, "4");
    CHECK(r == 58);
    __builtin_mul_ul_ul_rrr(r, 0x12ff, 0x34ff);
    CHECK(r == 65025);
    int32_t product;
    __builtin_mul_sh_sh_rrr(product, 0xff00, 0x0200);
    CHECK(product == -2);
    __builtin_rol_rri(r, 0x80000001, "4");
    CHECK(r == 0x18);
    __builtin_add_rri(r, 5, "-7");
    CHECK(r == UINT32_MAX - 1);
    __builtin_extsb_rr(r, 0x80);
    CHECK(r == 0xffffff80);
    CHECK(__builtin_dpu_tid() == me());
    perfcounter_t before = perfcounter_config(COUNT_CYCLES, false);
    CHECK(perfcounter_get() >= before && CLOCKS_PER_SEC > 1000);
}

/* A pointer fits in 32 bits; MRAM starts at 0; what has no qualifier is WRAM. */
static void pointers(void) {
    uint32_t base = (uint32_t)DPU_MRAM_HEAP_POINTER, here = (uint32_t)numbers, own = (uint32_t)counts;
    __dma_aligned uint32_t pair[2];
    mram_read((__mram_ptr void *)(here + 8 * me()), pair, 8);
    CHECK(pair[0] == 2 * me() && pair[1] == 2 * me() + 1);
    uint32_t from_zero = here - (uint32_t)constants;
    mram_read((__mram_ptr void *)(uintptr_t)from_zero, pair, sizeof(pair));
    CHECK(pair[0] == 0 && pair[1] == 1);
    pair[0] = me();
    pair[1] = ~me();
    mram_write(pair, (__mram_ptr void *)(base + 8 * me()), sizeof(pair));
    __mram_ptr uint32_t *direct = (__mram_ptr uint32_t *)(base + 8 * me());
    CHECK(direct[0] == me() && direct[1] == ~me());
    direct[1] = 5;
    mram_read((__mram_ptr void *)(base + 8 * me()), pair, 8);
    CHECK(pair[1] == 5 && constants[2] == 33 && numbers[100] == 100);
    CHECK((uint32_t *)(uintptr_t)own == counts);
    uint32_t heap = (uint32_t)mem_alloc(8);
    *(uint64_t *)(uintptr_t)heap = 9;
    CHECK((base & 7) == 0);
}

/* Variables belong to their DPU and stay; the host launches this part twice. */
static void globals(void) {
    barrier_wait(&all);
    if (me() == 0) {
        launches++;
        preset *= 2;
        constants[0]++;
        CHECK(launches == order.launch && preset == 7u << launches && constants[0] == 11 + launches);
    }
}

static void printing(void) {
    if (me() == 0) {
        uint64_t wide = UINT64_C(1) << 40;
        printf("%d|%5u|%-4x|%X|%o|%c|%s|", -3, 42u, 0xabu, 0xCDu, 8u, 'z', "text");
        printf("%ld|%lu|%llx|%08.3f|%e|%%|%g|%p\n", (long)wide, wide, (unsigned long long)wide, 1.5, 2.0);
        puts("line");
        putchar('!');
        putchar('\n');
    }
}

static void stacks(void) {
    volatile uint8_t big[512];
    big[me()] = 1;
    CHECK(big[me()] == 1);
    unsigned int left = check_stack();
    CHECK(left > 0 && left < 4096);
    CHECK(me() != 1 || left > 1024); /* -DSTACK_SIZE_TASKLET_1 */
}

/* Waiting by looking. */
static void spinning(void) {
    for (uint32_t round = 0; round < 20; round++) {
        if (me() == round % NR_TASKLETS)
            flag = round + 1;
        else
            while (flag <= round) {
            }
        barrier_wait(&all);
    }
    if (me() == 0)
        flag = 0;
}

int main(void) {
    static void (*const parts[PARTS])(void) = {
        [ALLOCATORS] = allocators,
        [SEQUENTIAL_READER] = sequential_reader,
        [UNALIGNED] = unaligned,
        [POOLS] = pools,
        [SYNCHRONISATION] = synchronisation,
        [INSTRUCTIONS] = instructions,
        [POINTERS] = pointers,
        [GLOBALS] = globals,
        [PRINTING] = printing,
        [STACKS] = stacks,
        [SPINNING] = spinning,
    };
    if (me() == 0) {
        mem_reset();
        outcome.line = 0;
    }
    barrier_wait(&all);
    parts[order.part]();
    totals[me()] = me() + order.part;
    return 0;
}
