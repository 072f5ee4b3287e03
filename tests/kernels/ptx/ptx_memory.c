#include "tests/kernels/ptx/ptx_memory.h"

#include "base/arena.h"
#include "tests/kernels/ptx/ptx_module.h"

#include <stdlib.h>
#include <string.h>

enum { ONE_READER, MANY_THREADS, MANY_WARPS, MANY_BLOCKS };

/* --- ranges ------------------------------------------------------------------------------- */

static size_t num_pages(const struct ptx_range *range)
{
    return (range->bytes + PTX_PAGE_BYTES - 1) / PTX_PAGE_BYTES;
}

void ptx_memory_add(struct ptx_memory *memory, const void *begin, size_t bytes)
{
    if (memory->num_ranges == PTX_MOST_RANGES)
        abort();
    struct ptx_range range = { .begin = (uintptr_t)begin, .bytes = bytes };
    size_t size = sizeof *range.pages * (num_pages(&range) + 1);
    range.pages = arena_grow(NULL, size);
    memset(range.pages, 0, size);
    memory->ranges[memory->num_ranges++] = range;
}

static void free_range(struct ptx_range *range)
{
    for (size_t i = 0; i < num_pages(range); i++)
        free(range->pages[i]);
    free(range->pages);
}

void ptx_memory_remove(struct ptx_memory *memory, const void *begin)
{
    for (int i = 0; i < memory->num_ranges; i++)
        if (memory->ranges[i].begin == (uintptr_t)begin) {
            free_range(&memory->ranges[i]);
            memory->ranges[i] = memory->ranges[--memory->num_ranges];
            memory->latest = 0;
            return;
        }
}

void ptx_memory_free(struct ptx_memory *memory)
{
    for (int i = 0; i < memory->num_ranges; i++)
        free_range(&memory->ranges[i]);
    free(memory->shared);
    free(memory->shared_tags);
    *memory = (struct ptx_memory){ 0 };
}

void ptx_memory_begin_launch(struct ptx_memory *memory)
{
    memory->launch++;
}

/* Fills shared memory with NaN, in case it is read before it is written. */
bool ptx_memory_begin_block(struct ptx_memory *memory, size_t shared_bytes)
{
    if (shared_bytes > PTX_MOST_SHARED_BYTES)
        return false;
    if (shared_bytes > memory->shared_bytes || !memory->shared) {
        memory->shared = arena_grow(memory->shared, shared_bytes + 1);
        memory->shared_tags =
            arena_grow(memory->shared_tags, sizeof *memory->shared_tags * (shared_bytes + 1));
    }
    memory->shared_bytes = shared_bytes;
    memset(memory->shared, 0xff, shared_bytes);
    memset(memory->shared_tags, 0, sizeof *memory->shared_tags * shared_bytes);
    return true;
}

static struct ptx_range *find_range(struct ptx_memory *memory, uint64_t address)
{
    for (int i = 0; i < memory->num_ranges; i++) {
        int at = (memory->latest + i) % memory->num_ranges;
        struct ptx_range *range = &memory->ranges[at];
        if (address >= range->begin && address - range->begin < range->bytes) {
            memory->latest = at;
            return range;
        }
    }
    return NULL;
}

/* --- records of accesses -------------------------------------------------------------- */

static uint32_t block_of(uint32_t number)
{
    return (number - 1) / PTX_BLOCK_THREADS;
}

static uint32_t warp_of(uint32_t number)
{
    return (number - 1) / PTX_LANES;
}

/* Whether the access of thread `number` - 1 is ordered before the access of `by`. An epoch is the
 * number of barriers that the thread's block or warp had passed. */
static bool is_before(uint32_t number, uint16_t block_epoch, uint16_t warp_epoch,
                      const struct ptx_toucher *by)
{
    uint32_t now = by->thread + 1;
    if (number == 0 || number == now)
        return true;
    if (block_of(number) != block_of(now))
        return false;
    return block_epoch < by->block_epoch ||
           (warp_of(number) == warp_of(now) && warp_epoch < by->warp_epoch);
}

/* Whether all reads since the latest write are ordered before the access of `by`. */
static bool are_reads_before(const struct ptx_tag *tag, const struct ptx_toucher *by)
{
    if (tag->has_readers == ONE_READER)
        return is_before(tag->reader, tag->read_block_epoch, tag->read_warp_epoch, by);
    if (tag->has_readers == MANY_BLOCKS || block_of(tag->reader) != block_of(by->thread + 1))
        return false;
    if (tag->has_readers == MANY_THREADS && warp_of(tag->reader) == warp_of(by->thread + 1) &&
        tag->read_warp_epoch < by->warp_epoch)
        return true;
    return tag->read_block_epoch < by->block_epoch;
}

/* Records a reader, or that there were several readers since the last barrier that orders them
 * all. */
static void note_reader(struct ptx_tag *tag, const struct ptx_toucher *by)
{
    uint32_t now = by->thread + 1;
    if (are_reads_before(tag, by))
        tag->has_readers = ONE_READER;
    else if (block_of(tag->reader) != block_of(now) || tag->has_readers == MANY_BLOCKS)
        tag->has_readers = MANY_BLOCKS;
    else if (warp_of(tag->reader) != warp_of(now) || tag->has_readers == MANY_WARPS)
        tag->has_readers = MANY_WARPS;
    else
        tag->has_readers = MANY_THREADS;
    tag->reader = now;
    tag->read_block_epoch = by->block_epoch;
    tag->read_warp_epoch = by->warp_epoch;
}

static void note_writer(struct ptx_tag *tag, const struct ptx_toucher *by)
{
    tag->writer = by->thread + 1;
    tag->written_block_epoch = by->block_epoch;
    tag->written_warp_epoch = by->warp_epoch;
    tag->reader = 0;
    tag->has_readers = ONE_READER;
    tag->is_written = 1;
}

/* Records the access. Returns a sentence if it races, else NULL. */
static const char *note(struct ptx_tag *tag, enum ptx_touch touch, const struct ptx_toucher *by)
{
    if (touch == PTX_COPY_ENDS) {
        note_writer(tag, by);
        tag->is_in_flight = tag->is_atomic = 0;
        return NULL;
    }
    if (tag->is_in_flight)
        return "accesses what an asynchronous copy is still writing; the copy was begun";
    bool is_ordered = (touch == PTX_ATOMIC && tag->is_atomic) ||
                      is_before(tag->writer, tag->written_block_epoch, tag->written_warp_epoch, by);
    if (!is_ordered)
        return touch == PTX_READ ? "reads without a barrier what was written"
                                 : "writes without a barrier what was written";
    if (touch == PTX_READ) {
        note_reader(tag, by);
        return NULL;
    }
    if (!are_reads_before(tag, by))
        return "writes without a barrier what was read";
    note_writer(tag, by);
    tag->is_atomic = touch == PTX_ATOMIC;
    tag->is_in_flight = touch == PTX_COPY_BEGINS;
    return NULL;
}

/* The bytes of an access mostly have the same record, which is then checked once. */
static bool note_all(struct ptx_tag *tags, size_t bytes, enum ptx_touch touch,
                     const struct ptx_toucher *by, const char *space, uint64_t offset,
                     struct err *err)
{
    struct ptx_tag before = { 0 };
    for (size_t i = 0; i < bytes; i++) {
        if (i > 0 && memcmp(&tags[i], &before, sizeof before) == 0) {
            tags[i] = tags[i - 1];
            continue;
        }
        before = tags[i];
        const char *wrong = note(&tags[i], touch, by);
        if (!wrong)
            continue;
        uint32_t other = strstr(wrong, "was read") ? before.reader : before.writer;
        return err_set(err, ERR_INPUT, "",
                       "%s byte %llu: thread %u of block %u %s by thread %u of "
                       "block %u",
                       space, (unsigned long long)(offset + i), by->thread % PTX_BLOCK_THREADS,
                       by->thread / PTX_BLOCK_THREADS, wrong, (other - 1) % PTX_BLOCK_THREADS,
                       block_of(other));
    }
    return true;
}

static bool is_aligned(uint64_t address, size_t bytes, const char *space, struct err *err)
{
    return address % bytes == 0 ||
           err_set(err, ERR_INPUT, "",
                   "access to %zu bytes of %s memory at an address that is %llu bytes "
                   "beyond a multiple of this size",
                   bytes, space, (unsigned long long)(address % bytes));
}

/* --- accesses ----------------------------------------------------------------------------- */

static struct ptx_tag *tags_of(struct ptx_memory *memory, struct ptx_range *range, size_t offset)
{
    struct ptx_page **page = &range->pages[offset / PTX_PAGE_BYTES];
    if (!*page)
        (*page = arena_grow(NULL, sizeof **page))->launch = 0;
    if ((*page)->launch != memory->launch) {
        memset((*page)->tags, 0, sizeof(*page)->tags);
        (*page)->launch = memory->launch;
    }
    return &(*page)->tags[offset % PTX_PAGE_BYTES];
}

/* An access lies within one page, because ranges begin at multiples of 16 and accesses at multiples
 * of their size. */
void *ptx_touch_global(struct ptx_memory *memory, uint64_t address, size_t bytes,
                       enum ptx_touch touch, struct ptx_toucher by, struct err *err)
{
    struct ptx_range *range = find_range(memory, address);
    if (!is_aligned(address, bytes, "global", err))
        return NULL;
    if (!range || address - range->begin + bytes > range->bytes) {
        err_set(err, ERR_INPUT, "",
                "access to %zu bytes of global memory that the kernel may not access, at "
                "0x%llx",
                bytes, (unsigned long long)address);
        return NULL;
    }
    size_t offset = (size_t)(address - range->begin);
    if (!note_all(tags_of(memory, range, offset), bytes, touch, &by, "global", offset, err))
        return NULL;
    char *at = (char *)range->begin; // NOLINT(performance-no-int-to-ptr): a kernel's address
    return at + offset;
}

void *ptx_touch_shared(struct ptx_memory *memory, uint64_t address, size_t bytes,
                       enum ptx_touch touch, struct ptx_toucher by, struct err *err)
{
    uint64_t offset = address - PTX_SHARED_BASE;
    if (!is_aligned(address, bytes, "shared", err))
        return NULL;
    if (address < PTX_SHARED_BASE || offset > memory->shared_bytes ||
        bytes > memory->shared_bytes - offset) {
        err_set(err, ERR_INPUT, "",
                "access to %zu bytes at byte %lld of shared memory, which has %zu bytes", bytes,
                (long long)offset, memory->shared_bytes);
        return NULL;
    }
    struct ptx_tag *tags = memory->shared_tags + offset;
    for (size_t i = 0; i < bytes; i++)
        if ((touch == PTX_READ || touch == PTX_ATOMIC) && !tags[i].is_written) {
            err_set(err, ERR_INPUT, "",
                    "shared byte %llu: thread %u of block %u reads what nobody "
                    "wrote",
                    (unsigned long long)(offset + i), by.thread % PTX_BLOCK_THREADS,
                    by.thread / PTX_BLOCK_THREADS);
            return NULL;
        }
    if (!note_all(tags, bytes, touch, &by, "shared", offset, err))
        return NULL;
    return memory->shared + offset;
}
