/* search/evaluators.h - one evaluator (sim/engine) per worker, shared by all searches that answer
 * one question.
 *
 * The costs of a layer, the embedding and the head, which are most of a search's work, are then
 * computed once. The systems of these searches may differ only in the number of GPUs and their
 * memory. */
#ifndef SEARCH_EVALUATORS_H
#define SEARCH_EVALUATORS_H

#include "models/model.h"
#include "sim/engine/simulate.h"

/* Zero-initialise. */
struct evaluators {
    struct worker_evaluator *at;
    int count;
    struct model *model;         /* a copy of the model, which the evaluators read */
    const struct system *system; /* system of the current search */
    int search;                  /* number of the current search */
};

/* Must be called before a search's workers start. The call invalidates all evaluators returned
 * before. A model that differs in more than its depth discards all cached costs. `system` must
 * outlast the search. */
void evaluators_begin(struct evaluators *evaluators, int workers, const struct system *system,
                      const struct model *model);
/* The evaluator of one worker, valid until the next search begins. */
struct evaluator *evaluators_of(struct evaluators *evaluators, int worker);
void evaluators_release(struct evaluators *evaluators);

#endif
