/* search/questions/relax.h - when no plan is feasible: the smallest changes of the request that
 * admit one. */
#ifndef SEARCH_QUESTIONS_RELAX_H
#define SEARCH_QUESTIONS_RELAX_H

#include "search/search.h"

enum relaxed { RELAXED_GPUS, RELAXED_BATCH, RELAXED_MEMORY, RELAXED_FIX, RELAXED_FORBID };
extern const char *const relaxed_names[]; /* "gpus", "batch", "max-memory", "fix", "forbid", NULL */

struct relaxation {
    enum relaxed what;
    double from, to;   /* GPUs, sequences of the batch, or bytes; else 0 */
    const char *word;  /* RELAXED_FIX, RELAXED_FORBID: the word or words to drop; else "" */
    const char *words; /* the words that remain */
    struct scored_plan best;
};

struct relaxations {
    struct relaxation *at;
    int count;
    double start_s; /* when the search began, by clock_now_s(): its time limit includes these */
    struct arena arena;
};

/* Changes that make an infeasible request feasible, given its result:
 *
 *   fix         each single word whose removal is enough; all words when no single one is
 *   forbid      the same
 *   max-memory  what the leanest plan needs, if a GPU has that much
 *   batch       the nearest feasible batch below and above, among the next multiples of what some
 *               number of data ranks (with vpp fixed: and stages) takes at once
 *   gpus        the largest feasible number below, and the smallest within 64 nodes above
 *
 * Each comes with the best plan that it admits. Numbers of GPUs are whole nodes or part of one.
 * When only memory is short, the result itself has the nearest plan and the fewest GPUs. Release
 * `out`. */
void search_relax(const struct search_request *request, const struct search_result *result,
                  struct relaxations *out);
void relaxations_release(struct relaxations *relaxations);

#endif
