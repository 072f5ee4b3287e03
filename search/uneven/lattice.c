#include "search/uneven/lattice.h"

#include "base/parallel.h"
#include "search/evaluators.h"
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

/* Blocks of plans with one number of stages. */
struct stages_space {
    struct space space; /* the space with this pp and given chunks */
    /* divisions that only this space has: with one recompute, and with block:N */
    double divisions[2];
    size_t first_block;
};

/* Skipped points of one number of stages. Sums of that many divisions would be inexact, so workers
 * count points, and the product is taken once. */
struct left_out {
    double *broken;    /* points by the first rule they break, by number of rule */
    double bounded[2]; /* points ruled out by bounds: with one recompute, and with block:N */
};

struct finder {
    struct evaluator *evaluator;
    struct tally tally;        /* whether it was ended early */
    struct left_out *left_out; /* [index of the listing's spaces] */
    struct lattice found;
};

struct listing {
    const struct search *search;
    double limit_s;
    struct stages_space *spaces; /* by rising first block */
    int num_spaces;
    size_t num_blocks;
    struct finder *finders; /* [worker] */
    struct evaluators *evaluators;
};

/* A block whose points are being listed. */
struct collector {
    const struct listing *listing;
    const struct stages_space *of;
    struct left_out *left_out;
    struct finder *finder;
    size_t next_number;
    bool has_floor;
    double floor_s; /* lower bound for all points of the block */
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
    return collector->of->divisions[recompute == RECOMPUTE_BLOCK];
}

/* Whether a point may be fast enough. One bound for the whole block is computed first and excludes
 * most blocks. */
static bool is_worth_more(struct collector *collector, const struct plan *plan)
{
    const struct search *search = collector->listing->search;
    if (!collector->has_floor)
        collector->floor_s = lattice_block_floor_s(
            collector->finder->evaluator, search->space->model, &search->system->stack, plan);
    collector->has_floor = true;
    return collector->floor_s < collector->listing->limit_s;
}

static void keep_point(struct collector *collector, const struct plan *plan, double divisions)
{
    const struct search *search = collector->listing->search;
    struct lattice *found = &collector->finder->found;
    if (found->count == found->capacity) {
        found->capacity = 2 * found->capacity + 64;
        found->at = arena_grow(found->at, found->capacity * sizeof *found->at);
    }
    struct lattice_point *point = &found->at[found->count++];
    *point = (struct lattice_point){ .plan = *plan,
                                     .nearly_even = plan->chunk_layers,
                                     .divisions = divisions,
                                     .number = collector->next_number++ };
    plan_set_even(&point->plan);
    point->floor_s = lattice_floor_s(collector->finder->evaluator, search->space->model,
                                     &search->system->stack, &point->plan);
}

static bool meet_point(void *context, const struct plan *plan)
{
    struct collector *collector = context;
    double divisions = divisions_of(collector, plan->recompute);
    if (divisions > 0 && is_worth_more(collector, plan))
        keep_point(collector, plan, divisions);
    else
        collector->left_out->bounded[plan->recompute == RECOMPUTE_BLOCK]++;
    return true;
}

static void count_broken(void *context, const struct plan_rule *rule, double count)
{
    const struct collector *collector = context;
    collector->left_out->broken[plan_rule_number(rule)] += count;
}

/* The mean number of divisions per point. A rule holds for all divisions or for none. Excluded
 * recomputes are counted one by one, each with the mean number of divisions, so that the sum is
 * correct. */
static double mean_divisions(const struct stages_space *of)
{
    const struct values *recompute = &of->space.recompute;
    double divisions = 0;
    for (int i = 0; i < recompute->count; i++)
        divisions += of->divisions[recompute->at[i] == RECOMPUTE_BLOCK];
    return recompute->count > 0 ? divisions / recompute->count : 0;
}

static void count_left_out(const struct listing *listing, int jobs, int space, struct tally *tally)
{
    const struct stages_space *of = &listing->spaces[space];
    double bounded[2] = { 0 };
    for (int i = 0; i < jobs; i++)
        for (int mixes = 0; mixes < 2; mixes++)
            bounded[mixes] += listing->finders[i].left_out[space].bounded[mixes];
    for (int mixes = 0; mixes < 2; mixes++)
        tally->bounded += bounded[mixes] * of->divisions[mixes];
    for (int rule = 0; rule < plan_num_rules(); rule++) {
        double points = 0;
        for (int i = 0; i < jobs; i++)
            points += listing->finders[i].left_out[space].broken[rule];
        tally_broken(tally, plan_rule_at(rule), points * mean_divisions(of));
    }
}

/* The space of plans with `pp` stages and given chunks: a nearly even list of layers represents all
 * lists. */
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
    space_list_splits(&of, arena);
    return of;
}

/* Replaces none and full by block:N. */
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
    return search->request->uneven ? 0 : plan_chunk_layers(plan, search->space->model, 0);
}

/* Every stage has L / p layers, and may recompute 0 ... L / p of them. */
static double count_even_mixes(int layers, int pp)
{
    int most = layers / pp;
    double choices = 1;
    for (int stage = 0; stage < pp; stage++)
        choices *= 1.0 + most;
    return layers % pp == 0 ? choices : 0;
}

static bool has_empty_stage(const struct split *split, int pp)
{
    for (int stage = 0; split->layers && stage < pp; stage++)
        if (split->layers[stage] == 0)
            return true;
    return false;
}

/* Number of divisions with one chunk per stage and no empty stage that the space already has. */
static int count_known(const struct search *search, int pp)
{
    const struct space *space = search->space;
    int known = 0;
    for (int i = 0; i < space->pp.count; i++)
        for (int j = 0; space->pp.at[i] == pp && j < space->splits[i].count; j++) {
            const struct split *split = &space->splits[i].at[j];
            bool is_whole = split->layers || space->model->layers % pp == 0;
            known += is_whole && split->vpp == 1 && !has_empty_stage(split, pp);
        }
    return known;
}

/* Number of divisions that the space does not have already; with block:N also without their none
 * and full. */
static void count_new(const struct search *search, int pp, double divisions[2])
{
    int layers = search->space->model->layers;
    bool uneven = search->request->uneven;
    int known = uneven ? count_known(search, pp) : layers % pp == 0;
    divisions[0] = uneven ? count_divisions(layers, pp, false) - known : 0;
    divisions[1] = uneven ? count_divisions(layers, pp, true) : count_even_mixes(layers, pp);
    divisions[1] -= 2 * known;
}

static bool begin_stages(const struct search *search, const int *pp, struct arena *arena,
                         struct stages_space *out)
{
    if (*pp > search->space->model->layers)
        return false;
    out->space = space_of_stages(search->space, pp, arena);
    if (search->request->uneven &&
        !forbidden_allows(&out->space.forbidden, "stages", &out->space.base))
        return false;
    if (search->request->recompute_mixes)
        mix_recompute(&out->space, arena);
    count_new(search, *pp, out->divisions);
    return true;
}

static void begin_listing(struct listing *listing, struct arena *arena)
{
    const struct values *pp = &listing->search->space->pp;
    listing->spaces = ARENA_ARRAY(arena, struct stages_space, (size_t)pp->count);
    for (int i = 0; i < pp->count; i++) {
        struct stages_space *of = &listing->spaces[listing->num_spaces];
        if (!begin_stages(listing->search, &pp->at[i], arena, of))
            continue;
        of->first_block = listing->num_blocks;
        listing->num_blocks += space_num_blocks(&of->space);
        listing->num_spaces++;
    }
}

/* An upper bound on the points of a block. */
enum { NUMBERS_OF_BLOCK = 64 };

static void list_block(void *context, size_t block, int worker)
{
    struct listing *listing = context;
    const struct search *search = listing->search;
    struct finder *finder = &listing->finders[worker];
    if (tally_must_stop(&finder->tally, search->request, search->start_s))
        return;
    finder->evaluator = evaluators_of(listing->evaluators, worker);
    const struct stages_space *of = &listing->spaces[listing->num_spaces - 1];
    while (of->first_block > block)
        of--;
    struct collector collector = { .listing = listing,
                                   .of = of,
                                   .left_out = &finder->left_out[of - listing->spaces],
                                   .finder = finder,
                                   .next_number = NUMBERS_OF_BLOCK * block };
    struct visitor visitor = { meet_point, count_broken, &collector };
    space_walk_block(&of->space, block - of->first_block, &visitor);
}

static int by_floor(const void *a, const void *b)
{
    const struct lattice_point *left = a;
    const struct lattice_point *right = b;
    if (left->floor_s != right->floor_s)
        return left->floor_s < right->floor_s ? -1 : 1;
    return left->number < right->number ? -1 : 1;
}

static void begin_finders(struct listing *listing, int jobs, struct arena *arena)
{
    listing->finders = ARENA_ARRAY(arena, struct finder, (size_t)jobs);
    for (int i = 0; i < jobs; i++) {
        struct finder *finder = &listing->finders[i];
        finder->tally = tally_new(arena);
        finder->left_out = ARENA_ARRAY(arena, struct left_out, (size_t)listing->num_spaces);
        for (int j = 0; j < listing->num_spaces; j++)
            finder->left_out[j].broken = ARENA_ARRAY(arena, double, (size_t)plan_num_rules());
    }
}

/* The points that all workers found, sorted. */
static struct lattice gather(struct listing *listing, int jobs, struct tally *tally,
                             struct arena *arena)
{
    struct lattice all = { 0 };
    for (int i = 0; i < jobs; i++)
        all.capacity += listing->finders[i].found.count;
    all.at = ARENA_ARRAY(arena, struct lattice_point, all.capacity);
    for (int i = 0; i < jobs; i++) {
        struct finder *finder = &listing->finders[i];
        for (size_t j = 0; j < finder->found.count; j++)
            all.at[all.count++] = finder->found.at[j];
        tally_add(tally, &finder->tally);
        free(finder->found.at);
    }
    for (int space = 0; space < listing->num_spaces; space++)
        count_left_out(listing, jobs, space, tally);
    if (all.count > 0)
        qsort(all.at, all.count, sizeof *all.at, by_floor);
    return all;
}

struct lattice lattice_new(const struct search *search, struct evaluators *evaluators,
                           double limit_s, struct tally *tally, struct arena *arena)
{
    int jobs = walk_jobs(search->request);
    struct listing listing = { .search = search, .limit_s = limit_s, .evaluators = evaluators };
    begin_listing(&listing, arena);
    begin_finders(&listing, jobs, arena);
    parallel_for(jobs, listing.num_blocks, 8, list_block, &listing);
    return gather(&listing, jobs, tally, arena);
}
