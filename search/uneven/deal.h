/* search/uneven/deal.h - how the layers of a stage are divided over its chunks.
 *
 * Not every division over chunks is searched, as there are far too many: each stage may have any
 * number of layers, and these are dealt to its chunks one by one, always to the chunk with the
 * fewest. The head counts as layers of its chunk: as many as take its time, together with the
 * modules that predict later tokens. Among chunks with equally many layers, the one of the last
 * round gets the layer, because chunks of earlier rounds hold more microbatches. So the chunks of a
 * stage take about the same time. Schedules are made for chunks that take about the same time.
 * Without this rule, a lower bound that ignores the order of passes would be least for plans with
 * nearly empty first chunks, which are slow.
 *
 * With one chunk per stage this is every division. */
#ifndef SEARCH_UNEVEN_DEAL_H
#define SEARCH_UNEVEN_DEAL_H

#include "models/model.h"
#include "sim/plan/plan.h"

struct deal {
    struct placement placement;
    int num_layers;
    double head_layers; /* number of layers that take as long as the head and the modules beside
                           it */
};

/* Whether the plan's layers are dealt. Those of 1F1B with one chunk per stage are not, because they
 * have a bound of their own (uneven/composition.h). */
bool plan_is_dealt(const struct plan *plan);

/* head_layers is the result of model_head_layers. It is passed in because it takes long to
 * compute. */
struct deal deal_of(const struct plan *plan, const struct model *model, double head_layers);

/* The smallest number of layers that a stage can have. Each chunk has at least one, except the
 * chunk with the head, which may have none if the stage has several chunks. */
int deal_least(const struct deal *deal, int stage);
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
