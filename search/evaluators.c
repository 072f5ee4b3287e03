#include "search/evaluators.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

struct worker_evaluator {
    struct evaluator *evaluator;
    int search; /* number of the search it was last prepared for */
};

void evaluators_release(struct evaluators *evaluators)
{
    for (int i = 0; i < evaluators->count; i++)
        evaluator_free(evaluators->at[i].evaluator);
    free(evaluators->at);
    free(evaluators->model);
    *evaluators = (struct evaluators){ 0 };
}

/* Compares bytes. Models that differ in padding alone count as different, which only costs time. */
static bool knows(const struct evaluators *evaluators, const struct model *model)
{
    return evaluators->model && memcmp(evaluators->model, model, sizeof *model) == 0;
}

void evaluators_begin(struct evaluators *evaluators, int workers, const struct system *system,
                      const struct model *model)
{
    if (!knows(evaluators, model)) {
        evaluators_release(evaluators);
        evaluators->model = arena_grow(NULL, sizeof *model);
        memcpy(evaluators->model, model, sizeof *model);
    }
    if (workers > evaluators->count) {
        evaluators->at = arena_grow(evaluators->at, (size_t)workers * sizeof *evaluators->at);
        for (int i = evaluators->count; i < workers; i++)
            evaluators->at[i] = (struct worker_evaluator){ 0 };
        evaluators->count = workers;
    }
    evaluators->system = system;
    evaluators->search++;
}

struct evaluator *evaluators_of(struct evaluators *evaluators, int worker)
{
    struct worker_evaluator *own = &evaluators->at[worker];
    if (!own->evaluator)
        own->evaluator = evaluator_new(evaluators->system, evaluators->model);
    else if (own->search != evaluators->search)
        evaluator_turn_to(own->evaluator, evaluators->system);
    own->search = evaluators->search;
    return own->evaluator;
}
