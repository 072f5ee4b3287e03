#include "search/uneven/deal.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

bool plan_is_dealt(const struct plan *plan)
{
    return strcmp(plan_schedule(plan), "1f1b") != 0;
}

struct deal deal_of(const struct plan *plan, const struct model *model, double head_layers)
{
    bool is_apart = plan->mtp_place == MTP_APART;
    return (struct deal){ .placement = plan_placement(plan),
                          .num_layers = model->layers,
                          .end_layers =
                              is_apart ? model->mtp : head_layers + model->mtp * (1 + head_layers),
                          .end_chunk = plan_later_chunk(plan),
                          .end_least = model->mtp == 0 && plan->vpp == 1 };
}

static int chunk_of(const struct deal *deal, int stage, int round)
{
    return placement_chunk(deal->placement, stage, round);
}

static int least_of_chunk(const struct deal *deal, int chunk)
{
    if (chunk == deal->end_chunk && chunk > 0)
        return deal->end_least;
    return chunk <= deal->end_chunk;
}

int deal_least_before(const struct deal *deal, int chunk)
{
    int least = 0;
    for (int before = 0; before < chunk; before++)
        least += least_of_chunk(deal, before);
    return least;
}

int deal_least(const struct deal *deal, int stage)
{
    int least = 0;
    for (int round = 0; round < deal->placement.chunks_per_stage; round++)
        least += least_of_chunk(deal, chunk_of(deal, stage, round));
    return least;
}

/* Whether the stage's chunk in this round can have layers. */
static bool can_hold(const struct deal *deal, int stage, int round)
{
    return chunk_of(deal, stage, round) <= deal->end_chunk;
}

int deal_least_sum(const struct deal *deal)
{
    return deal_least_before(deal, placement_chunks(deal->placement));
}

bool deal_holds(const struct deal *deal, int stage)
{
    return can_hold(deal, stage, 0);
}

int deal_most(const struct deal *deal, int stage)
{
    return deal_holds(deal, stage)
               ? deal->num_layers - deal_least_sum(deal) + deal_least(deal, stage)
               : 0;
}

/* The number of layers in the chunk. Its head and its MTP modules (multi-token prediction) count as
 * the number of layers that take equally long. */
static double weight_of(const struct deal *deal, const int *chunks, int chunk)
{
    return chunk == deal->end_chunk ? chunks[chunk] + deal->end_layers : chunks[chunk];
}

void deal_next(const struct deal *deal, int stage, int *chunks)
{
    int lightest = chunk_of(deal, stage, 0);
    for (int round = 1; round < deal->placement.chunks_per_stage; round++) {
        int chunk = chunk_of(deal, stage, round);
        if (can_hold(deal, stage, round) &&
            weight_of(deal, chunks, chunk) <= weight_of(deal, chunks, lightest))
            lightest = chunk;
    }
    chunks[lightest]++;
}

/* Whether the stage has the chunk with the model's last layers, or a chunk after that one. */
static bool has_end(const struct deal *deal, int stage)
{
    for (int round = 0; round < deal->placement.chunks_per_stage; round++)
        if (chunk_of(deal, stage, round) >= deal->end_chunk)
            return true;
    return false;
}

/* Deals the layers so that chunks differ by at most one layer, and the chunks of the last rounds
 * have more. */
static void deal_alike(const struct deal *deal, int stage, int layers, int *chunks)
{
    int rounds = deal->placement.chunks_per_stage;
    for (int round = 0; round < rounds; round++)
        chunks[chunk_of(deal, stage, round)] =
            layers / rounds + (round >= rounds - layers % rounds);
}

void deal_stage(const struct deal *deal, int stage, int layers, int *chunks)
{
    int left = layers;
    if (!has_end(deal, stage)) {
        deal_alike(deal, stage, layers, chunks);
        return;
    }
    for (int round = 0; round < deal->placement.chunks_per_stage; round++) {
        int chunk = chunk_of(deal, stage, round);
        left -= chunks[chunk] = least_of_chunk(deal, chunk);
    }
    for (; left > 0 && deal_holds(deal, stage); left--)
        deal_next(deal, stage, chunks);
}

void deal_all(const struct deal *deal, const int *layers, int *chunks)
{
    for (int stage = 0; stage < deal->placement.num_stages; stage++)
        deal_stage(deal, stage, layers[stage], chunks);
}

bool deal_makes(const struct deal *deal, const int *chunks)
{
    size_t bytes = (size_t)placement_chunks(deal->placement) * sizeof *chunks;
    int *dealt = arena_grow(NULL, bytes);
    bool is_enough = true;
    for (int stage = 0; stage < deal->placement.num_stages; stage++) {
        int layers = 0;
        for (int round = 0; round < deal->placement.chunks_per_stage; round++)
            layers += chunks[chunk_of(deal, stage, round)];
        is_enough = is_enough && layers >= deal_least(deal, stage);
        deal_stage(deal, stage, layers, dealt);
    }
    bool is_dealt = is_enough && memcmp(dealt, chunks, bytes) == 0;
    free(dealt);
    return is_dealt;
}
