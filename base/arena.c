/* Memory that is allocated piecewise and released at once. */
#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct arena_block {
    struct arena_block *older;
    size_t capacity;
    size_t used;
    _Alignas(max_align_t) unsigned char at[];
};

enum { FIRST_BLOCK_BYTES = 64 << 10, LARGEST_STEP_BYTES = 8 << 20 };

/* A global variable, because running out of memory concerns the whole process. `main` sets it
 * before other threads exist. */
static void (*exhaustion_hook)(size_t bytes);

void arena_on_exhaustion(void (*hook)(size_t bytes))
{
    exhaustion_hook = hook;
}

_Noreturn void arena_exhausted(size_t bytes)
{
    if (exhaustion_hook)
        exhaustion_hook(bytes);
    abort();
}

void *arena_grow(void *old, size_t bytes)
{
    void *grown = realloc(old, bytes > 0 ? bytes : 1);
    if (!grown)
        arena_exhausted(bytes);
    return grown;
}

void *arena_extend(void *array, size_t count, size_t size)
{
    bool is_full = (count & (count - 1)) == 0;
    return is_full ? arena_grow(array, 2 * (count + 1) * size) : array;
}

/* Each block is twice the one before, so that a large arena has few blocks; growth is bounded, so
 * that little memory is wasted. glibc keeps freed memory up to twice the size of the largest freed
 * block, so the next use of an arena of this size needs no new pages. */
static size_t next_capacity(const struct arena_block *newest, size_t bytes)
{
    size_t capacity = FIRST_BLOCK_BYTES;
    if (newest)
        capacity =
            newest->capacity < LARGEST_STEP_BYTES ? 2 * newest->capacity : LARGEST_STEP_BYTES;
    return capacity > bytes ? capacity : bytes;
}

static void add_block(struct arena *arena, size_t bytes)
{
    size_t capacity = next_capacity(arena->newest, bytes);
    struct arena_block *block = arena_grow(NULL, sizeof *block + capacity);
    block->older = arena->newest;
    block->capacity = capacity;
    block->used = 0;
    arena->newest = block;
}

void *arena_room(struct arena *arena, size_t bytes)
{
    const size_t align = _Alignof(max_align_t);
    if (bytes > SIZE_MAX / 2)
        arena_exhausted(bytes);
    size_t rounded = (bytes + align - 1) / align * align;
    if (!arena->newest || arena->newest->capacity - arena->newest->used < rounded)
        add_block(arena, rounded);
    void *at = arena->newest->at + arena->newest->used;
    arena->newest->used += rounded;
    return at;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    return memset(arena_room(arena, bytes), 0, bytes);
}

void *arena_array(struct arena *arena, size_t size, size_t n)
{
    if (size > 0 && n > SIZE_MAX / size)
        arena_exhausted(SIZE_MAX);
    return arena_alloc(arena, size * n);
}

char *arena_text(struct arena *arena, const char *text)
{
    size_t bytes = strlen(text) + 1;
    return memcpy(arena_alloc(arena, bytes), text, bytes);
}

struct arena_mark arena_mark(const struct arena *arena)
{
    struct arena_block *newest = arena->newest;
    return (struct arena_mark){ .block = newest, .used = newest ? newest->used : 0 };
}

void arena_reset(struct arena *arena, struct arena_mark mark)
{
    while (arena->newest != mark.block) {
        struct arena_block *older = arena->newest->older;
        free(arena->newest);
        arena->newest = older;
    }
    if (mark.block)
        mark.block->used = mark.used;
}

void arena_rewind(struct arena *arena)
{
    struct arena_block *newest = arena->newest;
    if (!newest)
        return;
    arena_reset(&(struct arena){ newest->older }, (struct arena_mark){ 0 });
    newest->older = NULL;
    newest->used = 0;
}

void arena_release(struct arena *arena)
{
    arena_reset(arena, (struct arena_mark){ 0 });
}
