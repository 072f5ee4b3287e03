/* search/evaluators.h - an evaluator for each worker, which the searches of one question share.
 *
 * The costs of a model's pieces, most of a search's work, are then computed once. The systems of
 * these searches may differ in the number of GPUs and their memory alone. */
#ifndef SEARCH_EVALUATORS_H
#define SEARCH_EVALUATORS_H

#include "models/model.h"
#include "sim/engine/simulate.h"

/* Zero-initialise. */
struct evaluators {
    struct worker_evaluator *at;
    int count;
    struct model *model;         /* a copy, which the evaluators read */
    const struct system *system; /* of the search under way */
    int search;                  /* its number */
};

/* Call before a search's workers start; what they got before is for earlier searches. A model that
 * differs in more than its depth begins anew. `system` must outlast the search. */
void evaluators_begin(struct evaluators *evaluators, int workers, const struct system *system,
                      const struct model *model);
/* The worker's own, until the next search begins. */
struct evaluator *evaluators_of(struct evaluators *evaluators, int worker);
void evaluators_release(struct evaluators *evaluators);

#endif
