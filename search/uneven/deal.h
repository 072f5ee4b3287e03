/* search/uneven/deal.h - how the layers of a stage are divided over its chunks.
 *
 * Not every division over chunks is searched, as there are far too many: each stage may have any
 * number of layers, and these are dealt to its chunks one by one, always to the chunk with the
 * fewest. The head and the MTP modules (multi-token prediction) count as additional layers of their
 * chunks, namely as many layers as take equally long. Among chunks with equally many layers, the
 * one of the last round (pass of a microbatch through all stages) gets the layer, because chunks of
 * earlier rounds hold more microbatches. So the chunks of a stage take about the same time.
 * Schedules are made for chunks that take about the same time. Without this rule, the lower bound
 * that ignores the order of passes would be lowest for plans with nearly empty first chunks,
 * although these are slow.
 *
 * With one chunk per stage the rule excludes no division. */
#ifndef SEARCH_UNEVEN_DEAL_H
#define SEARCH_UNEVEN_DEAL_H

#include "models/model.h"
#include "sim/plan/plan.h"

struct deal {
    struct placement placement;
    int num_layers;
    /* the head and the MTP modules in end_chunk take as long as this number of layers */
    double end_layers;
    /* the chunk that has the model's last layers: the head's chunk or, if the MTP modules are not
     * in it, the chunk before it */
    int end_chunk;
    int end_least; /* the fewest layers that end_chunk may have */
};

/* Whether the plan's layers are dealt. With 1F1B and one chunk per stage they are not, because such
 * plans have their own bound (uneven/composition.h). */
bool plan_is_dealt(const struct plan *plan);

/* head_layers is the result of model_head_layers. It is passed in because it takes long to
 * compute. */
struct deal deal_of(const struct plan *plan, const struct model *model, double head_layers);

/* Whether a stage has a chunk that may have layers, and not only the head. */
bool deal_holds(const struct deal *deal, int stage);
/* The smallest number of layers that a stage can have. Each chunk has at least one, except the
 * chunk with the last layers. That chunk may have none if it has MTP modules, or if the stage has
 * several chunks. Chunks after it never have any. */
int deal_least(const struct deal *deal, int stage);
/* The largest number of layers that a stage can have, if all others have their fewest. */
int deal_most(const struct deal *deal, int stage);
/* The sum of the fewest layers of all chunks before this one. */
int deal_least_before(const struct deal *deal, int chunk);
/* The sum of deal_least over all stages. */
int deal_least_sum(const struct deal *deal);
/* Deals `layers` layers to a stage's chunks, by setting their entries of chunks[chunk]; the array
 * has an entry for every chunk of the plan. deal_all does so for every stage, from
 * layers[stage]. */
void deal_stage(const struct deal *deal, int stage, int layers, int *chunks);
/* Deals one layer more. */
void deal_next(const struct deal *deal, int stage, int *chunks);
void deal_all(const struct deal *deal, const int *layers, int *chunks);
/* Whether deal_all can produce this list of chunks. */
bool deal_makes(const struct deal *deal, const int *chunks);

#endif
