#include "search/uneven/lattice.h"

#include "base/parallel.h"
#include "search/tally.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- counts ----------------------------------------------------------------------------------- */

/* One stage more: from the ways of `stages` stages, by layers, to those of stages + 1. A stage of k
 * layers has one way, or k + 1; both are running sums. */
static void add_stage(double *ways, int layers, bool mixes)
{
    double once = 0;
    double more = 0;
    double before = ways[0];
    ways[0] = 0;
    for (int l = 1; l <= layers; l++) {
        once += before;
        more += once;
        before = ways[l];
        ways[l] = mixes ? once + more : once;
    }
}

double count_divisions(int layers, int stages, bool mixes)
{
    double *ways = arena_grow(NULL, (size_t)(layers + 1) * sizeof *ways);
    memset(ways, 0, (size_t)(layers + 1) * sizeof *ways);
    ways[0] = 1;
    for (int stage = 0; stage < stages; stage++)
        add_stage(ways, layers, mixes);
    double count = ways[layers];
    free(ways);
    return count;
}

/* --- the floor -------------------------------------------------------------------------------- */

/* The least that a stage of any place has with so many layers and nothing run again that need not
 * be. */
struct least_stage {
    double pass_s, longer_s; /* forward and backward, the longer of the two */
    double optimizer_s;
};

static struct least_stage least_stage(struct evaluator *evaluator, const struct plan *plan,
                                      int layers)
{
    int places[] = { 0, 1, plan->pp - 1 }; /* 1 stands for all in the middle */
    struct least_stage least = { HUGE_VAL, HUGE_VAL, HUGE_VAL };
    for (int i = 0; i < 3; i++) {
        struct stage_share share = { places[i], layers, 0 };
        if (places[i] >= plan->pp || (i > 0 && places[i] <= places[i - 1]))
            continue;
        struct stage_score score = evaluate_stage(evaluator, plan, &share);
        least.pass_s = fmin(least.pass_s, score.forward_s + score.backward_s);
        least.longer_s = fmin(least.longer_s, fmax(score.forward_s, score.backward_s));
        least.optimizer_s = fmin(least.optimizer_s, score.optimizer_s);
    }
    return least;
}

/* Some stage has a p-th of the layers or more. Call its pass T, what all stages take A, the way
 * before it x, the microbatches m and those in flight w. By the lower bound's terms (composition.h)
 * - for w < m the whole takes x + m T and x + (m - w + 1) T + 2 (A - T - x), so no less than their
 *   mean, A + (m - 1 - (w - 1) / 2) T;
 * - for w = m <= p it takes A + (m - 1) times the longer of forward and backward. */
static double span_floor_s(const struct least_stage *full, double all_s, double microbatches,
                           double stages)
{
    double most_in_flight = fmin(stages, microbatches - 1);
    double turns_s = (microbatches - 1 - (most_in_flight - 1) / 2) * full->pass_s;
    if (microbatches <= stages)
        turns_s = fmin(turns_s, (microbatches - 1) * full->longer_s);
    return all_s + turns_s;
}

/* All stages together take what their layers would on a stage with the most: what is once a stage
 * is shared by most there. */
double lattice_floor_s(struct evaluator *evaluator, const struct model *model,
                       const struct stack *stack, const struct plan *plan)
{
    int layers = model->layers;
    int most = layers - plan->pp + 1;
    struct least_stage full = least_stage(evaluator, plan, (layers + plan->pp - 1) / plan->pp);
    double all_s = layers * least_stage(evaluator, plan, most).pass_s / most;
    double span_s = span_floor_s(&full, all_s, plan_microbatches(plan, model->batch), plan->pp);
    /* A stage alone hides more of its reduction the longer it runs. */
    struct stage_share first = { 0, plan->pp == 1 ? layers : 1, 0 };
    double comm_s = evaluate_stage(evaluator, plan, &first).data_comm_s;
    return span_s + comm_s + full.optimizer_s + stack->step_s;
}

/* --- points ----------------------------------------------------------------------------------- */

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
    size_t capacity;
    double divisions[2]; /* of one recompute, of block:N */
};

/* Of the point's divisions, those that the space of even chunks has too. */
static double num_even(const struct space *space, const struct plan *plan, int known_recomputes)
{
    if (space->model->layers % plan->pp != 0)
        return 0;
    return plan->recompute == RECOMPUTE_BLOCK ? known_recomputes : 1;
}

static bool has_value(const struct values *values, int value)
{
    for (int i = 0; i < values->count; i++)
        if (values->at[i] == value)
            return true;
    return false;
}

static bool keep_point(void *context, const struct plan *plan)
{
    struct collector *collector = context;
    struct lattice *lattice = collector->lattice;
    bool mixes = plan->recompute == RECOMPUTE_BLOCK;
    double divisions = collector->divisions[mixes] - num_even(collector->space, plan, 2);
    if (divisions <= 0)
        return true;
    if (lattice->count == collector->capacity) {
        collector->capacity = 2 * collector->capacity + 64;
        lattice->at = arena_grow(lattice->at, collector->capacity * sizeof *lattice->at);
    }
    struct lattice_point *point = &lattice->at[lattice->count++];
    *point = (struct lattice_point){ .plan = *plan,
                                     .nearly_even = plan->chunk_layers,
                                     .divisions = divisions };
    point->plan.chunk_layers = NULL;
    point->plan.num_chunk_layers = 0;
    return true;
}

/* Rules hold for all divisions alike, or none: of recompute they differ in the counts alone. */
static void count_broken(void *context, const struct plan_rule *rule, double count)
{
    struct collector *collector = context;
    const struct values *recompute = &collector->space->recompute;
    double of_all = 0;
    for (int i = 0; i < recompute->count; i++) {
        struct plan plan = { .pp = collector->space->pp.at[0], .recompute = recompute->at[i] };
        of_all += collector->divisions[recompute->at[i] == RECOMPUTE_BLOCK] -
                  num_even(collector->space, &plan, 2);
    }
    tally_broken(collector->tally, rule, count * of_all / recompute->count);
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

/* Where every stage has as many layers, none of several recomputes is new but block:N. */
static void count_choices(const struct search *search, int pp, double divisions[2])
{
    int layers = search->space->model->layers;
    for (int mixes = 0; mixes < 2; mixes++)
        divisions[mixes] = count_divisions(layers, pp, mixes);
    if (search->request->uneven)
        return;
    bool is_even = layers % pp == 0;
    divisions[0] = is_even;
    divisions[1] = is_even ? pow(layers / pp + 1, pp) : 0;
}

static void collect(const struct search *search, const int *pp, struct collector *collector,
                    struct arena *arena)
{
    int layers = search->space->model->layers;
    if (*pp > layers)
        return;
    struct space space = space_of_stages(search->space, pp, arena);
    if (search->request->uneven && !forbidden_allows(&space.forbidden, "stages", &space.base))
        return;
    if (search->request->recompute_mixes)
        mix_recompute(&space, arena);
    collector->space = &space;
    count_choices(search, *pp, collector->divisions);
    struct visitor visitor = { keep_point, count_broken, collector };
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
    const struct lattice_point *const *left = a;
    const struct lattice_point *const *right = b;
    if ((*left)->floor_s != (*right)->floor_s)
        return (*left)->floor_s < (*right)->floor_s ? -1 : 1;
    return *left < *right ? -1 : *left > *right;
}

static struct lattice sorted(const struct lattice *lattice, struct arena *arena)
{
    struct lattice out = { ARENA_ARRAY(arena, struct lattice_point, lattice->count),
                           lattice->count };
    const struct lattice_point **order =
        ARENA_ARRAY(arena, const struct lattice_point *, lattice->count);
    for (size_t i = 0; i < lattice->count; i++)
        order[i] = &lattice->at[i];
    if (lattice->count > 0)
        qsort(order, lattice->count, sizeof *order, by_floor);
    for (size_t i = 0; i < lattice->count; i++)
        out.at[i] = *order[i];
    return out;
}

struct lattice lattice_new(const struct search *search, struct tally *tally, struct arena *arena)
{
    struct lattice found = { 0 };
    struct collector collector = { .tally = tally, .lattice = &found };
    const struct values *pp = &search->space->pp;
    for (int i = 0; i < pp->count; i++)
        collect(search, &pp->at[i], &collector, arena);
    score_points(search, &found, arena);
    struct lattice lattice = sorted(&found, arena);
    free(found.at);
    return lattice;
}
