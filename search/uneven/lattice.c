#include "search/uneven/lattice.h"

#include "base/parallel.h"
#include "search/tally.h"

#include <stdlib.h>
#include <string.h>

const char *lattice_lacks(const struct space *space)
{
    const struct plan *base = &space->base;
    if (base->chunk_layers)
        return "given chunks";
    if (space->vpp > 1)
        return "several chunks a stage";
    if (base->schedule[0] && strcmp(base->schedule, "1f1b") != 0)
        return "other schedules than 1f1b";
    return base->num_recompute_layers > 0 ? "given blocks of recompute" : NULL;
}

/* Points of one number of stages. */
struct collector {
    const struct space *space; /* with one pp, and chunks that are given */
    struct tally *tally;
    struct lattice *lattice;
    double divisions[2]; /* new ones of one recompute, and of block:N */
};

static bool has_value(const struct values *values, int value)
{
    for (int i = 0; i < values->count; i++)
        if (values->at[i] == value)
            return true;
    return false;
}

static double divisions_of(const struct collector *collector, int recompute)
{
    return collector->divisions[recompute == RECOMPUTE_BLOCK];
}

static bool keep_point(void *context, const struct plan *plan)
{
    struct collector *collector = context;
    struct lattice *lattice = collector->lattice;
    double divisions = divisions_of(collector, plan->recompute);
    if (divisions <= 0)
        return true;
    if (lattice->count == lattice->capacity) {
        lattice->capacity = 2 * lattice->capacity + 64;
        lattice->at = arena_grow(lattice->at, lattice->capacity * sizeof *lattice->at);
    }
    struct lattice_point *point = &lattice->at[lattice->count];
    *point = (struct lattice_point){ .plan = *plan,
                                     .nearly_even = plan->chunk_layers,
                                     .divisions = divisions,
                                     .number = lattice->count++ };
    point->plan.chunk_layers = NULL;
    point->plan.num_chunk_layers = 0;
    return true;
}

/* Rules hold for all divisions alike, or none. Of recomputes that are excluded one by one each
 * counts for the mean, so that all together are right. */
static void count_broken(void *context, const struct plan_rule *rule, double count)
{
    const struct collector *collector = context;
    const struct values *recompute = &collector->space->recompute;
    double divisions = 0;
    for (int i = 0; i < recompute->count; i++)
        divisions += divisions_of(collector, recompute->at[i]);
    tally_broken(collector->tally, rule, count * divisions / recompute->count);
}

/* The space of plans with `pp` stages whose chunks are given: any list of layers does, so one that
 * is nearly even stands for all. */
static struct space space_of_stages(const struct space *space, const int *pp, struct arena *arena)
{
    struct space of = *space;
    int *layers = ARENA_ARRAY(arena, int, (size_t)*pp);
    for (int stage = 0; stage < *pp; stage++)
        layers[stage] = space->model->layers / *pp + (stage < space->model->layers % *pp);
    of.base.chunk_layers = layers;
    of.base.num_chunk_layers = *pp;
    of.pp.at = ARENA_NEW(arena, int);
    of.pp.at[0] = *pp;
    of.pp.count = 1;
    return of;
}

/* block:N in place of none and full. */
static void mix_recompute(struct space *space, struct arena *arena)
{
    struct values *recompute = &space->recompute;
    if (!has_value(recompute, RECOMPUTE_NONE) || !has_value(recompute, RECOMPUTE_FULL))
        return;
    int *mixed = ARENA_ARRAY(arena, int, (size_t)recompute->count);
    int count = 0;
    for (int i = 0; i < recompute->count; i++)
        if (recompute->at[i] != RECOMPUTE_NONE && recompute->at[i] != RECOMPUTE_FULL)
            mixed[count++] = recompute->at[i];
    mixed[count++] = RECOMPUTE_BLOCK;
    *recompute = (struct values){ mixed, count };
    space->base.recompute_layers = ARENA_NEW(arena, int);
    space->base.num_recompute_layers = 1;
}

int lattice_stage_layers(const struct search *search, const struct plan *plan)
{
    return search->request->uneven ? 0 : search->space->model->layers / plan->pp;
}

/* Every stage has L / p layers, each of which numbers 0 ... L / p may run again. */
static double count_even_mixes(int layers, int pp)
{
    int most = layers / pp;
    double choices = 1;
    for (int stage = 0; stage < pp; stage++)
        choices *= 1.0 + most;
    return layers % pp == 0 ? choices : 0;
}

/* Less those that the space has anyway: the even one and, of block:N, none and full of it. */
static void count_new(const struct search *search, int pp, double divisions[2])
{
    int layers = search->space->model->layers;
    bool is_even = layers % pp == 0;
    bool uneven = search->request->uneven;
    divisions[0] = uneven ? count_divisions(layers, pp, false) - is_even : 0;
    divisions[1] = uneven ? count_divisions(layers, pp, true) : count_even_mixes(layers, pp);
    divisions[1] -= is_even ? 2 : 0;
}

static void collect(const struct search *search, const int *pp, struct tally *tally,
                    struct lattice *lattice, struct arena *arena)
{
    if (*pp > search->space->model->layers)
        return;
    struct space space = space_of_stages(search->space, pp, arena);
    if (search->request->uneven && !forbidden_allows(&space.forbidden, "stages", &space.base))
        return;
    if (search->request->recompute_mixes)
        mix_recompute(&space, arena);
    struct collector collector = { &space, tally, lattice, { 0 } };
    count_new(search, *pp, collector.divisions);
    struct visitor visitor = { keep_point, count_broken, &collector };
    for (size_t block = 0; block < space_num_blocks(&space); block++)
        space_walk_block(&space, block, &visitor);
}

/* --- the lattice ------------------------------------------------------------------------------ */

struct scoring {
    const struct search *search;
    struct lattice *lattice;
    struct evaluator **evaluators; /* by worker */
};

static void score_point(void *context, size_t index, int id)
{
    struct scoring *scoring = context;
    const struct search *search = scoring->search;
    struct lattice_point *point = &scoring->lattice->at[index];
    if (!scoring->evaluators[id])
        scoring->evaluators[id] = evaluator_new(search->system, search->space->model);
    point->floor_s = lattice_floor_s(scoring->evaluators[id], search->space->model,
                                     &search->system->stack, &point->plan);
}

static void score_points(const struct search *search, struct lattice *lattice, struct arena *arena)
{
    int jobs = walk_jobs(search->request);
    struct scoring scoring = { search, lattice,
                               ARENA_ARRAY(arena, struct evaluator *, (size_t)jobs) };
    parallel_for(jobs, lattice->count, 16, score_point, &scoring);
    for (int i = 0; i < jobs; i++)
        evaluator_free(scoring.evaluators[i]);
}

static int by_floor(const void *a, const void *b)
{
    const struct lattice_point *left = a;
    const struct lattice_point *right = b;
    if (left->floor_s != right->floor_s)
        return left->floor_s < right->floor_s ? -1 : 1;
    return left->number < right->number ? -1 : 1;
}

struct lattice lattice_new(const struct search *search, struct tally *tally, struct arena *arena)
{
    struct lattice found = { 0 };
    const struct values *pp = &search->space->pp;
    for (int i = 0; i < pp->count; i++)
        collect(search, &pp->at[i], tally, &found, arena);
    score_points(search, &found, arena);
    if (found.count > 0)
        qsort(found.at, found.count, sizeof *found.at, by_floor);
    return found;
}

void lattice_release(struct lattice *lattice)
{
    free(lattice->at);
    *lattice = (struct lattice){ 0 };
}
