/* Lists the points of a space: plans whose division of layers over stages is open. Layers are dealt
 * if a stage's layers are divided over its chunks by the rule of search/uneven/deal.h. A site is a
 * set of plans in all rank orders (search/space.h). */
#include "search/uneven/lattice.h"

#include "base/parallel.h"
#include "base/statistics.h"
#include "search/evaluators.h"
#include "search/room.h"
#include "search/tally.h"
#include "search/uneven/deal.h"
#include "search/uneven/dealt.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static bool has_value(const struct values *values, int value)
{
    for (int i = 0; i < values->count; i++)
        if (values->at[i] == value)
            return true;
    return false;
}

bool lattice_deals(const struct search *search)
{
    const struct search_request *request = search->request;
    return request->uneven && request->stage_types == 0 && !request->same_recompute &&
           request->host_memory_bytes <= 0;
}

bool lattice_mixes_parts(const struct search *search)
{
    const struct search_request *request = search->request;
    const struct plan *base = &search->space->base;
    return request->recompute_mixes && request->stage_types == 0 && !request->same_recompute &&
           request->host_memory_bytes <= 0 && !plan_offloads(base, OFFLOAD_ACTIVATIONS) &&
           base->replays != REPLAYS_PER_OP && !base->stage_replays &&
           has_value(&search->space->recompute, RECOMPUTE_NONE) &&
           has_value(&search->space->recompute, RECOMPUTE_SELECTIVE);
}

const char *lattice_lacks(const struct search *search)
{
    const struct plan *base = &search->space->base;
    const struct generator *generator = generator_find(plan_schedule(base));
    if (base->chunk_layers)
        return "given chunks";
    if (!generator || (generator->rule && generator->rule->is_mirrored))
        return "a schedule with two copies of the model";
    if (plan_is_dealt(base) && !lattice_deals(search))
        return "schedules other than 1f1b";
    return base->num_recompute_layers > 0 ? "a given list of recomputed layers" : NULL;
}

/* Kinds of points: all stages recompute alike, or each stage chooses its own number of layers or
 * set of modules. */
enum point_kind { STAGES_ALIKE, STAGES_OF_BLOCKS, STAGES_OF_PARTS, NUM_POINT_KINDS };

static enum point_kind kind_of(const struct plan *base, int recompute)
{
    struct plan point = *base;
    point.recompute = recompute;
    if (recompute == RECOMPUTE_BLOCK)
        return STAGES_OF_BLOCKS;
    return plan_lists_parts(&point) ? STAGES_OF_PARTS : STAGES_ALIKE;
}

/* The space of all plans with one number of stages and one number of chunks per stage. */
struct stages_space {
    struct space space; /* with only this pp and vpp, and one nearly even list of layers */
    double divisions[NUM_POINT_KINDS]; /* number of divisions that only this space has */
    size_t first_site;
};

/* Counts of the skipped points of a stages_space. Each point has the same number of divisions, so
 * workers count points, and the count is multiplied once by that number. A sum of such large
 * numbers would be inexact. */
struct left_out {
    double *broken; /* points by the first rule they break, by number of rule */
    /* points ruled out by bounds, and points ruled out by memory; indices as in
     * stages_space.divisions */
    double bounded[NUM_POINT_KINDS], over_memory[NUM_POINT_KINDS];
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
    struct stages_space *spaces; /* by rising first site */
    int num_spaces;
    size_t num_sites;
    struct finder *finders; /* [worker] */
    struct evaluators *evaluators;
};

/* An upper bound on the number of points of a site. */
enum { NUMBERS_OF_BLOCK = 64 };

/* A site whose points are being listed. No rule depends on the rank order, so its plans are checked
 * in one order; then the plans that keep the rules are examined in each order. */
struct collector {
    const struct listing *listing;
    const struct stages_space *of;
    struct left_out *left_out;
    struct finder *finder;
    int num_orders;
    struct plan points[NUMBERS_OF_BLOCK]; /* in the first order */
    int num_points;
    size_t next_number;
    bool has_floor;
    double floor_s; /* lower bound for all points in this order */
    struct block_floors floors;
};

/* dealt_block_floor_s holds for any division. lattice_block_floor_s, for 1F1B, is tighter and takes
 * longer, so it is computed only if the first bound is below limit_s. */
static double block_floor_s(const struct space *space, struct evaluator *evaluator,
                            const struct stack *stack, const struct plan *plan, double limit_s)
{
    struct plan least = *plan;
    least.zero = 0;
    plan_set_recompute(&least, RECOMPUTE_NONE);
    double floor_s = dealt_block_floor_s(evaluator, stack, &least);
    if (plan_is_dealt(plan) || floor_s >= limit_s)
        return floor_s;
    return lattice_block_floor_s(evaluator, space->model, stack, plan);
}

/* A lower bound of the step times of all divisions of the plan's layers. The function stops
 * refining the bound once it reaches limit_s. */
static double floor_s(const struct space *space, struct evaluator *evaluator,
                      const struct stack *stack, const struct plan *plan, double limit_s)
{
    if (!plan_is_dealt(plan))
        return lattice_floor_s(evaluator, space->model, stack, plan);
    struct stage_request request = { .model = space->model,
                                     .plan = plan,
                                     .head_layers = space->head_layers };
    return dealt_floor_s(evaluator, stack, &request, limit_s);
}

/* Whether a point may be fast enough. One bound for all points in this order is computed first and
 * excludes most. */
static bool is_worth_more(struct collector *collector, const struct plan *plan)
{
    const struct search *search = collector->listing->search;
    if (!collector->has_floor)
        collector->floor_s =
            block_floor_s(search->space, collector->finder->evaluator, &search->system->stack, plan,
                          collector->listing->limit_s);
    collector->has_floor = true;
    return collector->floor_s < collector->listing->limit_s;
}

static void keep_point(struct collector *collector, const struct plan *plan, double divisions,
                       double floor_s)
{
    struct lattice *found = &collector->finder->found;
    found->at = arena_extend(found->at, found->count, sizeof *found->at);
    struct lattice_point *point = &found->at[found->count++];
    *point = (struct lattice_point){ .plan = *plan,
                                     .nearly_even = plan->chunk_layers,
                                     .divisions = divisions,
                                     .floor_s = floor_s,
                                     .number = collector->next_number++ };
    plan_set_even(&point->plan);
}

static bool may_fit(struct collector *collector, const struct plan *plan)
{
    const struct search *search = collector->listing->search;
    return space_floor_bytes(&collector->floors, collector->finder->evaluator, plan) <=
           search->system->gpu.memory_bytes;
}

static void examine_point(struct collector *collector, const struct plan *plan)
{
    const struct search *search = collector->listing->search;
    enum point_kind kind = kind_of(plan, plan->recompute);
    double divisions = collector->of->divisions[kind];
    double limit_s = collector->listing->limit_s, bound_s = HUGE_VAL;
    if (divisions > 0 && is_worth_more(collector, plan)) {
        struct plan point = *plan;
        plan_set_even(&point);
        bound_s = floor_s(search->space, collector->finder->evaluator, &search->system->stack,
                          &point, limit_s);
    }
    if (bound_s < limit_s)
        keep_point(collector, plan, divisions, bound_s);
    else
        collector->left_out->bounded[kind]++;
}

/* Leaves out a point that does not fit in any rank order. */
static bool meet_point(void *context, const struct plan *plan)
{
    struct collector *collector = context;
    assert(collector->num_points < NUMBERS_OF_BLOCK);
    if (may_fit(collector, plan))
        collector->points[collector->num_points++] = *plan;
    else
        collector->left_out->over_memory[kind_of(plan, plan->recompute)] += collector->num_orders;
    return true;
}

static void count_broken(void *context, const struct plan_rule *rule, double count)
{
    const struct collector *collector = context;
    collector->left_out->broken[plan_rule_number(rule)] += count * collector->num_orders;
}

/* The mean number of divisions per value of recompute. A rule holds for all divisions of a point or
 * for none. Values of recompute that a rule excludes are each counted with this mean, so that the
 * total is correct. */
static double mean_divisions(const struct stages_space *of)
{
    const struct values *recompute = &of->space.recompute;
    double divisions = 0;
    for (int i = 0; i < recompute->count; i++)
        divisions += of->divisions[kind_of(&of->space.base, recompute->at[i])];
    return recompute->count > 0 ? divisions / recompute->count : 0;
}

static void count_left_out(const struct listing *listing, int jobs, int space, struct tally *tally)
{
    const struct stages_space *of = &listing->spaces[space];
    for (int kind = 0; kind < NUM_POINT_KINDS; kind++) {
        double bounded = 0, over_memory = 0;
        for (int i = 0; i < jobs; i++) {
            bounded += listing->finders[i].left_out[space].bounded[kind];
            over_memory += listing->finders[i].left_out[space].over_memory[kind];
        }
        tally->bounded += bounded * of->divisions[kind];
        tally->over_memory += over_memory * of->divisions[kind];
    }
    for (int rule = 0; rule < plan_num_rules(); rule++) {
        double points = 0;
        for (int i = 0; i < jobs; i++)
            points += listing->finders[i].left_out[space].broken[rule];
        tally_broken(tally, plan_rule_at(rule), points * mean_divisions(of));
    }
}

/* The number of stages that can have layers. */
static int count_holding(const struct deal *deal)
{
    int count = 0;
    for (int stage = 0; stage < deal->placement.num_stages; stage++)
        count += deal_holds(deal, stage);
    return count;
}

/* Layers of each chunk in the division whose stages are as equal as possible. */
static int *nearly_even(const struct deal *deal, struct arena *arena)
{
    int num_stages = deal->placement.num_stages, num_layers = deal->num_layers;
    int *layers = ARENA_ARRAY(arena, int, (size_t)num_stages);
    int *chunks = ARENA_ARRAY(arena, int, (size_t)placement_chunks(deal->placement));
    bool is_least = num_layers == deal_least_sum(deal);
    int holding = count_holding(deal), held = 0;
    for (int stage = 0; stage < num_stages; stage++) {
        bool can_hold = deal_holds(deal, stage);
        layers[stage] = is_least   ? deal_least(deal, stage)
                        : can_hold ? num_layers / holding + (held < num_layers % holding)
                                   : 0;
        held += can_hold;
    }
    deal_all(deal, layers, chunks);
    return chunks;
}

/* The choices that define one stages_space: stages, chunks per stage, and the place of the MTP
 * modules (multi-token prediction). */
struct stages_of {
    int pp, vpp;
    enum mtp_place mtp_place;
};

/* The space of plans with given chunks: a nearly even list of layers represents all lists. */
static struct space space_of_stages(const struct space *space, const struct stages_of *stages,
                                    struct arena *arena)
{
    int pp = stages->pp, vpp = stages->vpp;
    struct space of = *space;
    of.base.pp = pp;
    of.base.vpp = of.vpp = vpp;
    of.base.mtp_place = (int)stages->mtp_place;
    struct deal deal = deal_of(&of.base, space->model, space->head_layers);
    of.base.chunk_layers = nearly_even(&deal, arena);
    of.base.num_chunk_layers = pp * vpp;
    of.pp.at = ARENA_NEW(arena, int);
    of.pp.at[0] = pp;
    of.pp.count = 1;
    space_list_splits(&of, arena);
    return of;
}

/* Replaces none and full by block:N. */
static void mix_blocks(struct space *space, struct arena *arena)
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

/* The number of ways to recompute if each of the p stages has L / p layers and recomputes 0 ... L /
 * p of them. */
static double count_even_mixes(int layers, int pp)
{
    int most = layers / pp;
    double choices = 1;
    for (int stage = 0; stage < pp; stage++)
        choices *= 1.0 + most;
    return layers % pp == 0 ? choices : 0;
}

/* Whether the split is a division that belongs to a point of the lattice. */
static bool is_of_lattice(const struct split *split, const struct plan *plan,
                          const struct space *space, int *chunks)
{
    const struct model *model = space->model;
    struct deal deal = deal_of(plan, model, space->head_layers);
    if (split->vpp != plan->vpp || (int)split->mtp_place != plan->mtp_place ||
        (!split->layers && model->layers % plan_chunks(plan) != 0))
        return false;
    for (int chunk = 0; chunk < plan_chunks(plan); chunk++)
        chunks[chunk] = split->layers ? split->layers[chunk] : model->layers / plan_chunks(plan);
    return deal_makes(&deal, chunks);
}

/* The number of the plan's divisions that the space of even chunks already has. */
static int count_known(const struct search *search, const struct plan *plan, struct arena *arena)
{
    const struct space *space = search->space;
    int known = 0, *chunks = ARENA_ARRAY(arena, int, (size_t)plan_chunks(plan));
    for (int i = 0; i < space->pp.count; i++)
        for (int j = 0; space->pp.at[i] == plan->pp && j < space->splits[i].count; j++)
            known += is_of_lattice(&space->splits[i].at[j], plan, space, chunks);
    return known;
}

/* The number of ways to divide the layers so that each stage has at least its fewest layers. */
static double count_dealt(const struct deal *deal)
{
    int stages = count_holding(deal), left = deal->num_layers - deal_least_sum(deal);
    return left < 0 ? 0 : count_divisions(left + stages, stages, false);
}

/* The same for 1F1B, where each stage also recomputes any number of its layers. If the last stage
 * may have no layers, the divisions with and without layers on it are added. */
static double count_mixes(const struct deal *deal)
{
    int stages = count_holding(deal);
    double divisions = count_divisions(deal->num_layers, stages, true);
    if (deal->end_least == 0)
        divisions += count_divisions(deal->num_layers, stages - 1, true);
    return divisions;
}

/* The number of divisions that the space does not have already. With block:N the known divisions
 * are subtracted twice, as the space has them without recompute and with full recompute. If each
 * stage may recompute a different set of modules, all divisions are new. */
static void count_new(const struct search *search, const struct plan *plan,
                      double divisions[NUM_POINT_KINDS], struct arena *arena)
{
    int layers = search->space->model->layers;
    bool uneven = search->request->uneven;
    struct deal deal = deal_of(plan, search->space->model, search->space->head_layers);
    int known = uneven ? count_known(search, plan, arena) : layers % plan->pp == 0;
    double all = uneven ? count_dealt(&deal) : layers % plan->pp == 0;
    double mixes = uneven ? count_mixes(&deal) : count_even_mixes(layers, plan->pp);
    divisions[STAGES_ALIKE] = all - known;
    divisions[STAGES_OF_BLOCKS] = mixes - 2 * known;
    divisions[STAGES_OF_PARTS] = all;
}

/* Whether the plan's schedule allows layers to be divided in this way. */
static bool has_divisions(const struct search *search, const struct stages_of *stages)
{
    const struct space *space = search->space;
    struct plan plan = space->base;
    int pp = stages->pp, vpp = stages->vpp;
    plan.pp = pp;
    plan.vpp = vpp;
    plan.mtp_place = (int)stages->mtp_place;
    if ((space->vpp > 0 && space->vpp != vpp) || (vpp > 1 && pp == 1))
        return false;
    if (plan.mtp_place == MTP_APART && (pp < 3 || !search->request->uneven))
        return false;
    struct deal deal = deal_of(&plan, space->model, space->head_layers);
    return deal_least_sum(&deal) <= space->model->layers &&
           (!plan_is_dealt(&plan) || lattice_deals(search));
}

static bool begin_stages(const struct search *search, const struct stages_of *stages,
                         struct arena *arena, struct stages_space *out)
{
    if (!has_divisions(search, stages))
        return false;
    out->space = space_of_stages(search->space, stages, arena);
    const struct plan *base = &out->space.base;
    if (lattice_mixes_parts(search) && !plan_is_dealt(base) && base->pp > 1) {
        out->space.base.stage_replays = ARENA_NEW(arena, int);
        out->space.base.num_stage_replays = 1;
    }
    if (search->request->recompute_mixes && !plan_is_dealt(base))
        mix_blocks(&out->space, arena);
    count_new(search, base, out->divisions, arena);
    return true;
}

/* Whether the MTP modules (multi-token prediction) may be at this place. */
static bool has_place(const struct space *space, enum mtp_place place)
{
    if (space->mtp_is_fixed)
        return (int)place == space->base.mtp_place;
    return place == MTP_BESIDE || space->model->mtp > 0;
}

/* The maximum number of chunks per stage that the schedule allows. */
static int most_chunks(const struct space *space, int pp)
{
    const struct plan *base = &space->base;
    const struct generator *generator = generator_find(plan_schedule(base));
    if (generator->rule)
        return 2;
    bool is_open = !*base->schedule || strcmp(base->schedule, "interleaved") == 0;
    int without_layers =
        space->model->mtp > 0 ? 2 : 1; /* upper limit of the number of chunks without layers */
    return is_open && pp > 1 ? (space->model->layers + without_layers) / pp : 1;
}

static int fewest_chunks(const struct space *space)
{
    const struct plan *base = &space->base;
    return base->placement || strcmp(base->schedule, "interleaved") == 0 ? 2 : 1;
}

static void begin_listing(struct listing *listing, struct arena *arena)
{
    const struct space *space = listing->search->space;
    const struct values *pp = &space->pp;
    int least = fewest_chunks(space);
    for (int i = 0; i < pp->count; i++)
        for (int vpp = least; vpp <= most_chunks(space, pp->at[i]); vpp++)
            for (int place = MTP_BESIDE; place <= MTP_APART; place++) {
                struct stages_space of = { .first_site = listing->num_sites };
                struct stages_of stages = { pp->at[i], vpp, (enum mtp_place)place };
                if (!has_place(space, stages.mtp_place) ||
                    !begin_stages(listing->search, &stages, arena, &of))
                    continue;
                listing->num_sites += space_num_sites(&of.space);
                listing->spaces = arena_extend(listing->spaces, (size_t)listing->num_spaces,
                                               sizeof *listing->spaces);
                listing->spaces[listing->num_spaces++] = of;
            }
}

static void examine_order(struct collector *collector, const int *order)
{
    collector->has_floor = false;
    for (int i = 0; i < collector->num_points; i++) {
        struct plan plan = collector->points[i];
        memcpy(plan.order, order, sizeof plan.order);
        examine_point(collector, &plan);
    }
}

static void list_site(void *context, size_t site, int worker)
{
    struct listing *listing = context;
    const struct search *search = listing->search;
    struct finder *finder = &listing->finders[worker];
    int orders[MAX_RANK_ORDERS][MAX_AXES];
    if (tally_must_stop(&finder->tally, search->request, search->start_s))
        return;
    finder->evaluator = evaluators_of(listing->evaluators, worker);
    const struct stages_space *of = &listing->spaces[listing->num_spaces - 1];
    while (of->first_site > site)
        of--;
    struct collector collector = { .listing = listing,
                                   .of = of,
                                   .left_out = &finder->left_out[of - listing->spaces],
                                   .finder = finder };
    struct visitor visitor = { meet_point, count_broken, &collector };
    collector.num_orders = space_site_orders(&of->space, site - of->first_site, orders);
    if (collector.num_orders == 0)
        return;
    space_walk_block(&of->space, site - of->first_site, &visitor);
    for (int i = 0; i < collector.num_orders; i++) {
        collector.next_number = NUMBERS_OF_BLOCK * (listing->num_sites * (size_t)i + site);
        examine_order(&collector, orders[i]);
    }
}

static int by_floor(const void *a, const void *b)
{
    const struct lattice_point *left = a;
    const struct lattice_point *right = b;
    int order = numbers_order(left->floor_s, right->floor_s);
    return order ? order : numbers_order((double)left->number, (double)right->number);
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
    size_t count = 0;
    for (int i = 0; i < jobs; i++)
        count += listing->finders[i].found.count;
    all.at = ARENA_ARRAY(arena, struct lattice_point, count);
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
    parallel_for(jobs, listing.num_sites, 8, list_site, &listing);
    struct lattice all = gather(&listing, jobs, tally, arena);
    free(listing.spaces);
    return all;
}
