/* Finds the best plan for slightly fewer GPUs, or for a slightly different batch, than requested.
 * The odd factor of a number is what remains after all factors 2 are removed. */
#include "search/questions/nearby.h"

#include "base/clock.h"
#include "search/batch.h"
#include "search/counts.h"
#include "search/probe.h"

#include <math.h>

/* MOST_ODD is the largest odd factor that is tried, as batches and layers of models are seldom
 * divisible by a larger odd number. */
enum { MOST_ODD = 31, MOST_COUNTS = MOST_ODD / 2 + 1, MOST_BATCHES = 4, LEAST_PERCENT = 90 };

/* Assumed largest gain in efficiency per GPU on fewer GPUs. */
#define EFFICIENCY_GAIN 1.05

struct quest {
    const struct search_request *asked;
    struct arena *arena;
    double start_s; /* start of the time limit */
    struct nearby found;
    double tokens_per_s; /* tokens per second of `found` */
    double best_each;    /* tokens per second and GPU of the most efficient plan so far */
};

static struct quest begin(const struct search_request *asked, struct arena *arena)
{
    return (struct quest){ .asked = asked, .arena = arena, .start_s = clock_now_s() };
}

static void try_request(struct quest *quest, int num_gpus, double batch)
{
    const struct search_request *asked = quest->asked;
    struct system system;
    struct model model = *asked->model;
    struct search_request request = probe_on(asked, num_gpus, &system);
    if (asked->time_limit_s > 0)
        request.time_limit_s = asked->time_limit_s - (clock_now_s() - quest->start_s);
    if (request.time_limit_s < 0 || (asked->time_limit_s > 0 && request.time_limit_s == 0) ||
        (asked->interrupted && asked->interrupted()))
        return;
    if (asked->progress)
        asked->progress(1, asked->progress_context);
    model.batch = batch;
    request.model = &model;
    struct arena_mark mark = arena_mark(quest->arena);
    struct probe probe = probe_best(&request, quest->arena);
    double tokens_per_s = probe.fits ? probe.best.prediction.tokens_per_s : 0;
    quest->best_each = fmax(quest->best_each, tokens_per_s / num_gpus);
    if (tokens_per_s <= quest->tokens_per_s) {
        arena_reset(quest->arena, mark);
        return;
    }
    quest->tokens_per_s = tokens_per_s;
    quest->found = (struct nearby){ num_gpus, batch, probe.best };
}

/* --- counts ------------------------------------------------------------------------------- */

struct near_counts {
    int at[MOST_COUNTS];
    int count;
};

/* Inserts a number of GPUs in descending order. */
static void insert_count(int gpus, struct near_counts *counts)
{
    int i = counts->count;
    for (; i > 0 && counts->at[i - 1] < gpus; i--)
        counts->at[i] = counts->at[i - 1];
    counts->at[i] = gpus;
    counts->count++;
}

/* For each odd factor, the largest number of GPUs below `asked`, in whole nodes when `asked` is
 * more than a node. Numbers with different odd factors differ. */
static struct near_counts near_counts_of(const struct cluster *cluster, int asked)
{
    struct near_counts counts = { .count = 0 };
    int node = cluster_node_size(cluster);
    int unit = asked > node ? node : 1;
    int most = (asked - 1) / unit;
    for (int odd = 1; odd <= MOST_ODD && odd <= most; odd += 2) {
        int times = odd;
        while (times <= most / 2)
            times *= 2;
        insert_count(times * unit, &counts);
    }
    return counts;
}

bool nearby_is_round(const struct search_request *asked)
{
    int odd = asked->system->num_gpus;
    while (odd % 2 == 0)
        odd /= 2;
    return odd == 1 || odd == 3;
}

/* Tries the largest power of two first, whose efficiency bounds the gain of the other counts. */
struct nearby nearby_gpus(const struct search_request *asked, double least, struct arena *arena)
{
    struct quest quest = begin(asked, arena);
    quest.tokens_per_s = least;
    const struct near_counts counts =
        near_counts_of(&asked->system->cluster, asked->system->num_gpus);
    double batch = asked->model->batch;
    int round = 0;
    while (round < counts.count - 1 && (counts.at[round] & (counts.at[round] - 1)) != 0)
        round++;
    if (counts.count > 0)
        try_request(&quest, counts.at[round], batch);
    for (int i = 0; i < counts.count; i++)
        if (i != round && (quest.tokens_per_s == 0 ||
                           counts.at[i] * quest.best_each * EFFICIENCY_GAIN > quest.tokens_per_s))
            try_request(&quest, counts.at[i], batch);
    return quest.found;
}

/* --- batches ------------------------------------------------------------------------------ */

/* An odd factor of the number of GPUs that divides neither heads nor layers must divide the data
 * ranks, and therefore the batch. Batches that all odd factors divide are tried first. */
static void try_batches(struct quest *quest, int num_gpus)
{
    double asked = quest->asked->model->batch, before = asked;
    int odd = num_gpus, num_tried = 0;
    while (odd % 2 == 0)
        odd /= 2;
    for (int unit = odd; unit >= 1 && num_tried < MOST_BATCHES; unit -= 2) {
        double batch = odd % unit == 0 ? batch_dividing(asked, unit) : 0;
        if (batch == 0 || batch == asked || batch == before)
            continue;
        try_request(quest, num_gpus, batch);
        before = batch;
        num_tried++;
    }
}

struct nearby nearby_batch(const struct search_request *asked, struct arena *arena)
{
    struct quest quest = begin(asked, arena);
    try_batches(&quest, asked->system->num_gpus);
    return quest.found;
}

struct nearby nearby_both(const struct search_request *asked, struct arena *arena)
{
    struct quest quest = begin(asked, arena);
    int num_gpus = asked->system->num_gpus;
    struct near_counts counts = near_counts_of(&asked->system->cluster, num_gpus);
    for (int i = 0; i < counts.count; i++)
        if (counts.at[i] >= num_gpus * (LEAST_PERCENT / 100.0))
            try_batches(&quest, counts.at[i]);
    return quest.found;
}
