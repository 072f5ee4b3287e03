/* One evaluator per worker thread. An evaluator predicts plans and caches the costs of layers; it
 * is kept from one search to the next if system and model allow it. */
#include "search/evaluators.h"

#include "base/arena.h"
#include "models/blocks.h"

#include <stdlib.h>
#include <string.h>

struct worker_evaluator {
    struct evaluator *evaluator;
    int search; /* number of the search for which the evaluator was last prepared */
};

static void forget(struct evaluators *evaluators)
{
    for (int i = 0; i < evaluators->count; i++) {
        evaluator_free(evaluators->at[i].evaluator);
        evaluators->at[i].evaluator = NULL;
    }
}

void evaluators_release(struct evaluators *evaluators)
{
    forget(evaluators);
    free(evaluators->at);
    free(evaluators->model);
    *evaluators = (struct evaluators){ 0 };
}

/* Compares bytes. Values that differ only in padding count as different, which only costs time. */
static bool are_same(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0;
}

/* Whether the models differ in depth alone, with blocks of the same kinds. If expert loads are
 * unequal, a layer's memory is taken from the fullest rank over all layers, so it depends on the
 * number of layers. */
static bool have_same_pieces(const struct model *a, const struct model *b)
{
    struct model deepened;
    bool depth_matters = b->experts > 0 && !routing_is_even(&b->routing);
    if (a->blocks.num_kinds != b->blocks.num_kinds ||
        !are_same(a->blocks.kinds, b->blocks.kinds, sizeof a->blocks.kinds) ||
        model_num_kinds(a) != model_num_kinds(b) ||
        model_kind_of(a, a->layers - 1) != model_kind_of(b, b->layers - 1) ||
        (depth_matters && a->layers != b->layers))
        return false;
    memcpy(&deepened, a, sizeof deepened);
    memcpy(&deepened.blocks, &b->blocks, sizeof deepened.blocks);
    deepened.layers = b->layers;
    return are_same(&deepened, b, sizeof deepened);
}

void evaluators_begin(struct evaluators *evaluators, int workers, const struct system *system,
                      const struct model *model)
{
    if (evaluators->model && !have_same_pieces(evaluators->model, model))
        forget(evaluators);
    if (!evaluators->model)
        evaluators->model = arena_grow(NULL, sizeof *model);
    memcpy(evaluators->model, model, sizeof *model);
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
