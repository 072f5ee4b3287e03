/* search/relax.h - when no plan is feasible: the smallest changes of the request that let one in.
 */
#ifndef SEARCH_RELAX_H
#define SEARCH_RELAX_H

#include "search/search.h"

enum relaxed { RELAXED_GPUS, RELAXED_BATCH, RELAXED_MEMORY, RELAXED_FIX, RELAXED_FORBID };
extern const char *const relaxed_names[]; /* "gpus", "batch", "max-memory", "fix", "forbid", NULL */

struct relaxation {
    enum relaxed what;
    double from, to;   /* GPUs, sequences of the batch, or bytes; else 0 */
    const char *word;  /* RELAXED_FIX, RELAXED_FORBID: without this one, or these; else "" */
    const char *words; /* what is left of them then */
    struct scored_plan best;
};

struct relaxations {
    struct relaxation *at;
    int count;
    double start_s; /* of the search, by clock_now_s(): its time limit holds for these too */
    struct arena arena;
};

/* Changes that make a request feasible, given the result that has no plan:
 *
 *   fix         each word that alone stands in the way; all of them when no single one does
 *   forbid      the same
 *   max-memory  what the leanest plan needs, when a GPU has as much
 *   batch       the nearest below and above, of the multiples next to it of what some number of
 *               data ranks (when vpp is fixed: and stages) takes at once
 *   gpus        the largest count below that has one, and the smallest within 64 nodes above
 *
 * each with the best plan that it lets in. Counts are whole nodes or parts of one. What lacks
 * memory alone is told by the result: its nearest plan and fewest GPUs. Release it. */
void search_relax(const struct search_request *request, const struct search_result *result,
                  struct relaxations *out);
void relaxations_release(struct relaxations *relaxations);

#endif
