/* The dynamic program over stages. A suffix is the stages from one stage to the last, with their
 * layers; a front is the suffixes that no other suffix dominates. An option of a stage is a number
 * of layers with its times. */
#include "search/uneven/fronts.h"

#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A front under construction, on the heap, as its size is not known in advance. */
struct growing {
    struct front_entry *at;
    int count;
};

/* Relative tolerance: times summed in different orders differ in their last bits, and suffixes that
 * differ only there must count as equal. The tolerance lowers the bound by at most this fraction
 * per stage. */
static const double rounding = 1e-13;

/* Whether no key of `a` is larger than that of `b` by more than the tolerance. */
static bool nearly_dominates(const struct suffix *a, const struct suffix *b)
{
    for (int i = 0; i < NUM_KEYS; i++)
        if (a->key[i] > b->key[i] * (1 + rounding))
            return false;
    return true;
}

static bool dominates(const struct suffix *a, const struct suffix *b)
{
    for (int i = 0; i < NUM_KEYS; i++)
        if (a->key[i] > b->key[i])
            return false;
    return true;
}

/* Adds a suffix unless one in the front dominates it. If suffixes are equal within the tolerance,
 * the first one stays, unless a later one dominates it exactly. So tolerances do not accumulate. */
static void offer(struct growing *front, const struct front_entry *entry)
{
    for (int i = 0; i < front->count; i++)
        if (nearly_dominates(&front->at[i].suffix, &entry->suffix))
            return;
    int kept = 0;
    for (int i = 0; i < front->count; i++)
        if (!dominates(&entry->suffix, &front->at[i].suffix))
            front->at[kept++] = front->at[i];
    front->at = arena_extend(front->at, (size_t)kept, sizeof *front->at);
    front->at[kept++] = *entry;
    front->count = kept;
}

static struct front *front_slot(const struct fronts *fronts, int stage, int layers)
{
    return &fronts->of[stage * (fronts->table->num_layers + 1) + layers];
}

const struct front *fronts_at(const struct fronts *fronts, int stage, int layers)
{
    return front_slot(fronts, stage, layers);
}

/* The dynamic program's state. */
struct program {
    struct fronts fronts;
    double limit_s;
    /* for each stage and number of earlier layers, the least time that these layers add to a
     * step */
    const struct ahead *ahead;
    struct growing scratch;
};

/* Puts every option of this stage before every suffix of the next stage's fronts. */
static void fill(struct program *program, int stage, int layers, struct arena *arena)
{
    const struct fronts *fronts = &program->fronts;
    const struct composition *composition = fronts->composition;
    const struct stage_table *table = fronts->table;
    struct growing *scratch = &program->scratch;
    int first = table->num_layers - layers;
    const struct stage_option *options = stage_options(table, stage, first);
    const struct ahead *ahead = &program->ahead[stage * (table->num_layers + 1) + first];
    scratch->count = 0;
    for (int k = 0; k <= table->most_layers && k <= layers; k++) {
        const struct front *behind = fronts_at(fronts, stage + 1, layers - k);
        if (!options[k].fits)
            continue;
        for (int i = 0; i < behind->count; i++) {
            struct front_entry entry = { .layers = k, .next = i };
            entry.suffix = composition->prepend(table, stage, &options[k], &behind->at[i].suffix);
            if (sum_floor(composition->least_s(table, ahead, &entry.suffix)) < program->limit_s)
                offer(scratch, &entry);
        }
    }
    if (scratch->count == 0)
        return;
    struct front_entry *kept = ARENA_ARRAY(arena, struct front_entry, (size_t)scratch->count);
    memcpy(kept, scratch->at, (size_t)scratch->count * sizeof *kept);
    *front_slot(fronts, stage, layers) = (struct front){ kept, scratch->count };
}

/* The largest number of layers that a stage can have, wherever it begins. */
static int most_of_stage(const struct stage_table *table, int stage)
{
    int most = 0;
    for (int first = 0; first < table->num_firsts; first++)
        for (int k = table->most_layers; k > most; k--)
            if (stage_options(table, stage, first)[k].fits)
                most = k;
    return most;
}

/* Per stage, the largest number of layers that the earlier stages can have; all further layers must
 * be on later stages. */
static int *most_before(const struct stage_table *table, struct arena *arena)
{
    int *most = ARENA_ARRAY(arena, int, (size_t)table->num_stages + 1);
    for (int stage = 0; stage < table->num_stages; stage++)
        most[stage + 1] = most[stage] + most_of_stage(table, stage);
    return most;
}

/* For each stage and number of layers before it, finds the least times that those layers add to a
 * step. Each member of struct ahead is a minimum over all divisions of those layers. */
static const struct ahead *least_ahead(const struct stage_table *table, struct arena *arena)
{
    int row = table->num_layers + 1;
    struct ahead *ahead = ARENA_ARRAY(arena, struct ahead, (size_t)(table->num_stages * row));
    for (int i = 1; i < table->num_stages * row; i++)
        ahead[i] = (struct ahead){ HUGE_VAL, HUGE_VAL };
    for (int stage = 0; stage < table->num_stages - 1; stage++)
        for (int first = 0; first < row; first++) {
            const struct ahead *before = &ahead[stage * row + first];
            if (before->forward_s == HUGE_VAL)
                continue;
            const struct stage_option *options = stage_options(table, stage, first);
            for (int k = 0; k <= table->most_layers && first + k < row; k++) {
                struct ahead *at = &ahead[(stage + 1) * row + first + k];
                struct ahead with = ahead_with(table, before, stage, &options[k]);
                if (!options[k].fits)
                    continue;
                at->forward_s = fmin(at->forward_s, with.forward_s);
                at->both_s = fmin(at->both_s, with.both_s);
            }
        }
    return ahead;
}

struct fronts fronts_new(const struct stage_table *table, const struct composition *composition,
                         double limit_s, struct arena *arena)
{
    int stages = table->num_stages;
    int layers = table->num_layers;
    size_t slots = (size_t)(stages + 1) * (size_t)(layers + 1);
    struct program program = { .fronts = { table, composition,
                                           ARENA_ARRAY(arena, struct front, slots) },
                               .limit_s = limit_s,
                               .ahead = least_ahead(table, arena) };
    int *most = most_before(table, arena);
    struct front_entry *empty = ARENA_NEW(arena, struct front_entry);
    *front_slot(&program.fronts, stages, 0) = (struct front){ empty, 1 };
    for (int stage = stages - 1; stage >= 0; stage--) {
        int least = stage == 0 ? layers : layers > most[stage] ? layers - most[stage] : 0;
        for (int left = least; left <= layers; left++)
            fill(&program, stage, left, arena);
    }
    free(program.scratch.at);
    return program.fronts;
}

static int best_of(const struct fronts *fronts, const struct front *front, double *best_s)
{
    int best = -1;
    *best_s = HUGE_VAL;
    for (int i = 0; i < front->count; i++) {
        double total_s = fronts->composition->total_s(fronts->table, &front->at[i].suffix);
        if (total_s < *best_s) {
            best = i;
            *best_s = total_s;
        }
    }
    return best;
}

double fronts_best_s(const struct fronts *fronts, int *layers)
{
    int left = fronts->table->num_layers;
    double best_s;
    int entry = best_of(fronts, fronts_at(fronts, 0, left), &best_s);
    for (int stage = 0; entry >= 0 && stage < fronts->table->num_stages; stage++) {
        const struct front_entry *chosen = &fronts_at(fronts, stage, left)->at[entry];
        layers[stage] = chosen->layers;
        left -= chosen->layers;
        entry = chosen->next;
    }
    return best_s;
}
