/* search/questions/relax.h - when no plan is feasible: the smallest changes of the request that
 * admit one. */
#ifndef SEARCH_QUESTIONS_RELAX_H
#define SEARCH_QUESTIONS_RELAX_H

#include "search/search.h"

enum relaxed { RELAXED_GPUS, RELAXED_BATCH, RELAXED_MEMORY, RELAXED_FIX, RELAXED_FORBID };
extern const char *const relaxed_names[]; /* "gpus", "batch", "max-memory", "fix", "forbid", NULL */

struct relaxation {
    enum relaxed what;
    double from, to;   /* requested and admitted number of GPUs, sequences or bytes; else 0 */
    const char *word;  /* for RELAXED_FIX and RELAXED_FORBID the word or words to drop; else "" */
    const char *words; /* the words of fix or forbid that remain */
    struct scored_plan best;
};

struct relaxations {
    struct relaxation *at;
    int count;
    /* start of the search by clock_now_s(); its time limit includes the relaxations */
    double start_s;
    struct arena arena;
};

/* Changes that make an infeasible request feasible, given its result:
 *
 * - fix: each single word whose removal is enough, or all words when no single one is;
 * - forbid: as for fix;
 * - max-memory: the memory that the smallest plan needs, if a GPU has that much;
 * - batch: the nearest feasible batch below and above, among the next multiples of dp x microbatch
 *   for each possible dp, and dp x microbatch x pp if a vpp above 1 is fixed;
 * - gpus: the largest feasible number below, and the smallest within 64 nodes above.
 *
 * Each change comes with the best plan that it admits. Numbers of GPUs are whole nodes or a part of
 * one node. When only memory is short, the result itself has the nearest plan and the fewest GPUs.
 * Release `out`. */
void search_relax(const struct search_request *request, const struct search_result *result,
                  struct relaxations *out);
void relaxations_release(struct relaxations *relaxations);

#endif
