/* exec/device/region.h - an allocator of offsets in one block of memory.
 *
 * It returns offsets and never touches the memory, so it works for the memory of any device. It
 * uses best fit and joins free neighbours. Not thread safe. */
#ifndef EXEC_DEVICE_REGION_H
#define EXEC_DEVICE_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REGION_ALIGNMENT = 256 }; /* bytes: CUDA's guarantee, four cache lines of a host */

struct region_sizes {
    size_t capacity_bytes;
    size_t used_bytes;       /* bytes allocated now, each part rounded up to the alignment */
    size_t high_water_bytes; /* maximum of used_bytes so far */
    size_t extent_bytes; /* end of the highest byte ever used; extent_bytes - high_water_bytes is
                            fragmentation */
    uint64_t layout;     /* hash of the free parts; with equal hashes the same calls return the same
                            offsets */
};

struct region;

struct region *region_new(size_t capacity_bytes);
void region_free(struct region *region);

/* Returns false when no free part is large enough. A request of zero bytes gets one aligned unit,
 * so offsets differ. */
bool region_take(struct region *region, size_t bytes, size_t *offset);
/* `offset` is from region_take; returns the part's bytes, rounded up. */
size_t region_give_back(struct region *region, size_t offset);
struct region_sizes region_sizes(const struct region *region);

#endif
