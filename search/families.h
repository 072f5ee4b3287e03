/* search/families.h - families of a space (sets of plans that differ only in recompute and ZeRO),
 * sorted by a lower bound of their step times. */
#ifndef SEARCH_FAMILIES_H
#define SEARCH_FAMILIES_H

#include "base/arena.h"

/* The plans of one block with one split, or of one site. A block is the plans with equal rank
 * order, degrees and microbatch; a site is a block in all rank orders; a split is a division of the
 * layers over chunks (search/space.h). */
struct family {
    size_t block;
    int split;
    double floor_s;     /* lower bound of its plans' step times */
    double least_bytes; /* lower bound of their memory; 0 if it is not needed */
};

struct families {
    struct family *at;
    size_t count;
};

/* Grows the list. families_join frees it. */
void families_add(struct families *families, struct family family);

/* Joins the lists of `jobs` workers and sorts them by floor_s, then block, then split, so the order
 * does not depend on which worker found a family. In the arena; the workers' lists are freed. */
struct families families_join(struct families *found, int jobs, struct arena *arena);

/* Sorts `count` families in the order of families_join. */
void families_sort(struct family *at, size_t count);

#endif
