/* search/families.h - families of a space, sorted by a lower bound of their step times. */
#ifndef SEARCH_FAMILIES_H
#define SEARCH_FAMILIES_H

#include "base/arena.h"

/* The plans of one block with one split (search/space.h), or of one site in all its rank orders.
 */
struct family {
    size_t block;
    int split;
    double floor_s; /* lower bound of its plans' step times */
};

struct families {
    struct family *at;
    size_t count, capacity;
};

/* Grows the list, which families_join frees. */
void families_add(struct families *families, struct family family);

/* Joins the lists of `jobs` workers, by floor, then block, then split, so that the order does not
 * depend on which worker found which family. In the arena; the workers' lists are freed. */
struct families families_join(struct families *found, int jobs, struct arena *arena);

/* Sorts `count` families in that order. */
void families_sort(struct family *at, size_t count);

#endif
