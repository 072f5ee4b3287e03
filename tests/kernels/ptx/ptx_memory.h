/* tests/kernels/ptx/ptx_memory.h - a GPU's memory, with a record of accesses.
 *
 * Every byte of shared memory, and every byte of global memory during a launch, has a record of its
 * last writer and of the readers since then. Two accesses, one of them a write, must be ordered: by
 * the same thread; by a barrier of the block in between; or, within a warp, by a barrier of the
 * warp. Threads of different blocks are never ordered. Atomics are ordered among themselves. Bytes
 * that an asynchronous copy will write may not be touched until its thread has waited for it. */
#ifndef TESTS_KERNELS_PTX_PTX_MEMORY_H
#define TESTS_KERNELS_PTX_PTX_MEMORY_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PTX_BLOCK_THREADS = 1024, PTX_MOST_SHARED_BYTES = 227 << 10 };

struct ptx_tag {
    uint32_t writer, reader; /* thread of the grid + 1; 0: none */
    uint16_t written_block_epoch, written_warp_epoch;
    uint16_t read_block_epoch, read_warp_epoch;
    uint8_t is_written, is_atomic, is_in_flight;
    uint8_t has_readers; /* whether there was no reader, one reader, or several; for several, the
                            level of barrier (warp or block) that orders them */
};
_Static_assert(sizeof(struct ptx_tag) == 20, "no padding, so tags can be compared as bytes");

/* The records of accesses to a page are valid during one launch. */
enum { PTX_PAGE_BYTES = 1 << 12 };
struct ptx_page {
    uint64_t launch;
    struct ptx_tag tags[PTX_PAGE_BYTES];
};

/* A range of the host's memory that kernels may access. */
struct ptx_range {
    uintptr_t begin;
    size_t bytes;
    struct ptx_page **pages;
};

enum { PTX_MOST_RANGES = 64 };

struct ptx_memory {
    struct ptx_range ranges[PTX_MOST_RANGES];
    int num_ranges, latest; /* index of the range that the last access was in */
    uint64_t launch;
    unsigned char *shared; /* shared memory of the running block */
    struct ptx_tag *shared_tags;
    size_t shared_bytes;
};

enum ptx_touch { PTX_READ, PTX_WRITE, PTX_ATOMIC, PTX_COPY_BEGINS, PTX_COPY_ENDS };

/* Thread numbers are block * PTX_BLOCK_THREADS + thread; epochs count the barriers that the
 * thread's block and warp have passed. */
struct ptx_toucher {
    uint32_t thread;
    uint16_t block_epoch, warp_epoch;
};

/* A struct ptx_memory that is `{ 0 }` has no ranges. */
void ptx_memory_add(struct ptx_memory *memory, const void *begin, size_t bytes);
void ptx_memory_remove(struct ptx_memory *memory, const void *begin);
void ptx_memory_free(struct ptx_memory *memory);

void ptx_memory_begin_launch(struct ptx_memory *memory);
/* Begins a block with unwritten shared memory. False when it exceeds the limit of a GPU. */
bool ptx_memory_begin_block(struct ptx_memory *memory, size_t shared_bytes);

/* Records an access of `bytes` bytes and returns a pointer to them. Returns NULL with a message
 * when the kernel may not access the address, the address is not aligned, or the access is a data
 * race. */
void *ptx_touch_global(struct ptx_memory *memory, uint64_t address, size_t bytes,
                       enum ptx_touch touch, struct ptx_toucher by, struct err *err);
void *ptx_touch_shared(struct ptx_memory *memory, uint64_t address, size_t bytes,
                       enum ptx_touch touch, struct ptx_toucher by, struct err *err);

#endif
