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
    return (struct deal){ .placement = plan_placement(plan),
                          .num_layers = model->layers,
                          .head_layers = head_layers + model->mtp * (1 + head_layers) };
}

static int chunk_of(const struct deal *deal, int stage, int round)
{
    return placement_chunk(deal->placement, stage, round);
}

static int least_of_chunk(const struct deal *deal, int chunk)
{
    return deal->placement.chunks_per_stage > 1 && placement_has_head(deal->placement, chunk) ? 0
                                                                                              : 1;
}

int deal_least(const struct deal *deal, int stage)
{
    int least = 0;
    for (int round = 0; round < deal->placement.chunks_per_stage; round++)
        least += least_of_chunk(deal, chunk_of(deal, stage, round));
    return least;
}

int deal_least_sum(const struct deal *deal)
{
    int least = 0;
    for (int stage = 0; stage < deal->placement.num_stages; stage++)
        least += deal_least(deal, stage);
    return least;
}

/* The number of layers in the chunk, plus head_layers if the chunk has the head. */
static double weight_of(const struct deal *deal, const int *chunks, int chunk)
{
    double layers = chunks[chunk];
    return placement_has_head(deal->placement, chunk) ? layers + deal->head_layers : layers;
}

void deal_next(const struct deal *deal, int stage, int *chunks)
{
    int lightest = chunk_of(deal, stage, 0);
    for (int round = 1; round < deal->placement.chunks_per_stage; round++) {
        int chunk = chunk_of(deal, stage, round);
        if (weight_of(deal, chunks, chunk) <= weight_of(deal, chunks, lightest))
            lightest = chunk;
    }
    chunks[lightest]++;
}

static bool has_head(const struct deal *deal, int stage)
{
    return stage == placement_head_stage(deal->placement);
}

/* Without the head, chunks differ by at most one layer, and the last rounds have more. */
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
    if (!has_head(deal, stage)) {
        deal_alike(deal, stage, layers, chunks);
        return;
    }
    for (int round = 0; round < deal->placement.chunks_per_stage; round++) {
        int chunk = chunk_of(deal, stage, round);
        left -= chunks[chunk] = least_of_chunk(deal, chunk);
    }
    for (; left > 0; left--)
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
