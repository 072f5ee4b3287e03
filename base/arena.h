/* base/arena.h - memory that is allocated piecewise and released at once.
 *
 * Allocate during a phase, such as loading a file or one simulation, and release everything at its
 * end. Blocks are zeroed. There is no failure path: when memory runs out the hook that `main`
 * installed is called, and if it returns the process aborts. Not thread safe: one arena per
 * worker. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

struct arena_block;

/* `{ 0 }` is an empty arena. */
struct arena {
    struct arena_block *newest;
};

/* A position to which arena_reset returns. */
struct arena_mark {
    struct arena_block *block;
    size_t used;
};

/* Returns zeroed memory, aligned for any type, which is valid until the arena is released or reset
 * to an earlier mark. */
void *arena_alloc(struct arena *arena, size_t bytes);
/* Like arena_alloc without zeroing, for arrays whose elements are written whole before they are
 * read. */
void *arena_room(struct arena *arena, size_t bytes);
#define ARENA_NEW(arena, type)      ((type *)arena_alloc((arena), sizeof(type)))
#define ARENA_ARRAY(arena, type, n) ((type *)arena_array((arena), sizeof(type), (n)))
#define ARENA_ROOM(arena, type, n)  ((type *)arena_room((arena), sizeof(type) * (n)))
void *arena_array(struct arena *arena, size_t size, size_t n); /* checks n * size for overflow */
char *arena_text(struct arena *arena, const char *text);       /* copies the text */

struct arena_mark arena_mark(const struct arena *arena);
void arena_reset(struct arena *arena,
                 struct arena_mark mark); /* frees everything allocated after the mark */
void arena_release(struct arena *arena);  /* frees everything; the arena can be used again */
/* Frees everything, but keeps the newest and largest block for later allocations. */
void arena_rewind(struct arena *arena);

/* Called when the system has no memory left; must not return. One per process, set by main. */
void arena_on_exhaustion(void (*hook)(size_t bytes));
/* Calls the exhaustion hook. For allocations that failed inside a library. */
_Noreturn void arena_exhausted(size_t bytes);
/* realloc that never returns NULL, for arrays that grow. The caller frees the memory. */
void *arena_grow(void *old, size_t bytes);
/* Makes room for one more element in an array that grows one by one from NULL and has `count`
 * elements of `size` bytes. The room is enlarged when `count` is a power of two, so that no
 * capacity need be stored; the count may also fall. The caller frees the memory. */
void *arena_extend(void *array, size_t count, size_t size);

#endif
