/* base/arena.h - memory with one owner and one end of life.
 *
 * Allocate freely while a phase lasts (a load, one candidate, one simulation), release once. Blocks
 * are zeroed. There is no failure path: when memory runs out the hook that `main` installed is
 * called, and if it returns the process aborts. Not thread safe: one arena per worker. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

struct arena_block;

/* `{ 0 }` is an empty arena. */
struct arena {
    struct arena_block *newest;
};

/* A place to come back to. */
struct arena_mark {
    struct arena_block *block;
    size_t used;
};

/* Zeroed, aligned for any type, valid until the arena is released or reset past it. */
void *arena_alloc(struct arena *arena, size_t bytes);
#define ARENA_NEW(arena, type)      ((type *)arena_alloc((arena), sizeof(type)))
#define ARENA_ARRAY(arena, type, n) ((type *)arena_array((arena), sizeof(type), (n)))
void *arena_array(struct arena *arena, size_t size, size_t n); /* n * size, overflow checked */
char *arena_text(struct arena *arena, const char *text);       /* a copy */

struct arena_mark arena_mark(const struct arena *arena);
void arena_reset(struct arena *arena, struct arena_mark mark); /* frees all that came after */
void arena_release(struct arena *arena);                       /* frees all; usable again */
/* The same, but the newest block, the largest, is kept for what comes next. */
void arena_rewind(struct arena *arena);

/* Called when the system has no memory left; must not return. One per process, set by main. */
void arena_on_exhaustion(void (*hook)(size_t bytes));
/* Calls that hook, for an allocation that failed inside a library. */
_Noreturn void arena_exhausted(size_t bytes);
/* malloc/realloc with the same promise, for the few arrays that grow. The caller frees. */
void *arena_grow(void *old, size_t bytes);

#endif
