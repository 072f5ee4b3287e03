/* An allocator of offsets in one block of memory, by best fit. */
#include "exec/device/region.h"

#include "base/arena.h"

#include <assert.h>
#include <stdlib.h>

/* A used or free part of the region. The parts are adjacent and cover the region. */
struct part {
    size_t offset, bytes;
    bool used;
    struct part *before, *after;           /* neighbours in the order of offsets */
    struct part *free_before, *free_after; /* list of free parts, unordered */
    struct part *next_in_bucket;           /* hash chain of used parts, by offset */
};

enum { NUM_BUCKETS = 1024 };

struct region {
    struct region_sizes sizes;
    struct part *first;
    struct part *first_free;
    struct part *buckets[NUM_BUCKETS];
};

static struct part **bucket_of(struct region *region, size_t offset)
{
    uint64_t mixed = (uint64_t)(offset / REGION_ALIGNMENT) * 0x9e3779b97f4a7c15;
    return &region->buckets[mixed >> 54];
}

/* The finaliser of SplitMix64 (Steele, Lea and Flood 2014). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* The term of one free part in the hash of the region's layout. The hash is the sum of these terms,
 * so it does not depend on the order of the parts. */
static uint64_t hash_of(const struct part *part)
{
    return mix(mix((uint64_t)part->offset + 0x9e3779b97f4a7c15) + (uint64_t)part->bytes);
}

static void add_free(struct region *region, struct part *part)
{
    part->used = false;
    region->sizes.layout += hash_of(part);
    part->free_before = NULL;
    part->free_after = region->first_free;
    if (region->first_free)
        region->first_free->free_before = part;
    region->first_free = part;
}

static void remove_free(struct region *region, struct part *part)
{
    region->sizes.layout -= hash_of(part);
    if (part->free_before)
        part->free_before->free_after = part->free_after;
    else
        region->first_free = part->free_after;
    if (part->free_after)
        part->free_after->free_before = part->free_before;
}

/* Merges the part after `part` into it. */
static void join_after(struct part *part)
{
    struct part *after = part->after;
    part->bytes += after->bytes;
    part->after = after->after;
    if (part->after)
        part->after->before = part;
    free(after);
}

/* Shortens `part` to `bytes`. The rest becomes a free part after it. */
static void split(struct region *region, struct part *part, size_t bytes)
{
    struct part *rest = arena_grow(NULL, sizeof *rest);
    *rest = (struct part){ .offset = part->offset + bytes,
                           .bytes = part->bytes - bytes,
                           .before = part,
                           .after = part->after };
    if (part->after)
        part->after->before = rest;
    part->after = rest;
    part->bytes = bytes;
    add_free(region, rest);
}

struct region *region_new(size_t capacity_bytes)
{
    struct region *region = calloc(1, sizeof *region);
    if (!region)
        return NULL;
    region->sizes.capacity_bytes = capacity_bytes / REGION_ALIGNMENT * REGION_ALIGNMENT;
    region->first = arena_grow(NULL, sizeof *region->first);
    *region->first = (struct part){ .bytes = region->sizes.capacity_bytes };
    add_free(region, region->first);
    return region;
}

void region_free(struct region *region)
{
    if (!region)
        return;
    for (struct part *part = region->first, *after; part; part = after) {
        after = part->after;
        free(part);
    }
    free(region);
}

/* Finds the smallest part that is large enough; on a tie the lowest, to keep the extent small. */
static struct part *best_fit(struct region *region, size_t bytes)
{
    struct part *best = NULL;
    for (struct part *part = region->first_free; part; part = part->free_after)
        if (part->bytes >= bytes && (!best || part->bytes < best->bytes ||
                                     (part->bytes == best->bytes && part->offset < best->offset)))
            best = part;
    return best;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

bool region_take(struct region *region, size_t bytes, size_t *offset)
{
    if (bytes > region->sizes.capacity_bytes)
        return false;
    bytes = larger((bytes + REGION_ALIGNMENT - 1) / REGION_ALIGNMENT, 1) * REGION_ALIGNMENT;
    struct part *part = best_fit(region, bytes);
    if (!part)
        return false;
    remove_free(region, part);
    if (part->bytes > bytes)
        split(region, part, bytes);
    part->used = true;
    struct part **bucket = bucket_of(region, part->offset);
    part->next_in_bucket = *bucket;
    *bucket = part;
    struct region_sizes *sizes = &region->sizes;
    sizes->used_bytes += bytes;
    sizes->high_water_bytes = larger(sizes->high_water_bytes, sizes->used_bytes);
    sizes->extent_bytes = larger(sizes->extent_bytes, part->offset + bytes);
    *offset = part->offset;
    return true;
}

static struct part *remove_used(struct region *region, size_t offset)
{
    struct part **link = bucket_of(region, offset);
    while (*link && (*link)->offset != offset)
        link = &(*link)->next_in_bucket;
    struct part *part = *link;
    assert(part && "memory can be freed only once, and only if it was allocated here");
    *link = part->next_in_bucket;
    return part;
}

size_t region_give_back(struct region *region, size_t offset)
{
    struct part *part = remove_used(region, offset);
    size_t bytes = part->bytes;
    region->sizes.used_bytes -= bytes;
    if (part->after && !part->after->used) {
        remove_free(region, part->after);
        join_after(part);
    }
    if (part->before && !part->before->used) {
        part = part->before;
        remove_free(region, part);
        join_after(part);
    }
    add_free(region, part);
    return bytes;
}

struct region_sizes region_sizes(const struct region *region)
{
    return region->sizes;
}
