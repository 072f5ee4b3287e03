/* Halves a region of constants until bounds prove where one plan (the choice) is the best. A family
 * is a set of plans that differ only in recompute and ZeRO; its floor is a lower bound of their
 * step times. */
#include "search/questions/region.h"

#include "base/length.h"
#include "base/normal.h"
#include "base/parallel.h"
#include "search/families.h"
#include "search/method.h"
#include "search/parts.h"
#include "search/room.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- the two properties -----------------------------------------------------------------------
 *
 * First: no slower constant makes a step shorter. Second: the logarithm of its time is convex in
 * the logarithms of the constants. Both properties hold for posynomials (Boyd et al., A tutorial on
 * geometric programming, 2007), and for sums, products, maxima and powers >= 0 of functions that
 * have them. Each duration of sim/cost is such a function:
 *
 *   products   the larger of waves x (k + half_k) / efficiency and traffic / bandwidth, plus the
 *              fixed time of a kernel. It is a minimum over tiles, but the same tile is best for
 *              all half_k and efficiency. The best split of the inner dimension does change, so
 *              struct product_range bounds the time. The exposed reduction of such a split is
 *              added instead of being part of the maximum, which keeps both properties.
 *   attention  the larger of FLOPs x (n + half_seq) / n / efficiency and traffic / bandwidth,
 *              plus the fixed time of a kernel
 *   pointwise  bytes / memory_efficiency + number of kernels x fixed time of a kernel
 *   messages   latency x latency_factor + bytes / bandwidth_factor. NCCL's own cost model chooses
 *              the algorithm, so the algorithm is the same for all constants.
 *   host       (kernels' time^4 + launches' time^4)^(1/4), a power of a sum of powers
 *
 * The time of a step is the longest path over these durations, in an order that no constant
 * changes, plus the longest tail. A stage's tail is the part of its reductions that its last passes
 * do not hide; in interleaved schedules the last passes are those of the last pp microbatches
 * (there are at least pp). When these passes take one second longer, the tail gets x / y - x + 1
 * <= 1 seconds shorter, with x and y the slowdowns of overlapped compute and communication. As the
 * path to the end of the stage contains these passes, path and tail together do not get shorter.
 * The proof does not cover plans in which ops of several streams slow each other while they overlap
 * (overlap=tp, ep, shared), exchanges that save waits, offloading, and steps without a global
 * gradient norm. These are rejected. */

struct rule {
    const char *name; /* name of a constant; "*" stands for any text */
    bool is_rate;     /* larger is faster */
    bool is_convex; /* Two properties of a step's time are used: slower constants never shorten it,
                       and its logarithm is convex in the constants' logarithms. False: only the
                       first property is used, at the ends of the constant's range */
};

static const struct rule rules[] = {
    { "gemm_efficiency", true, true },
    { "fp8_product_efficiency", true, true },
    { "fp4_product_efficiency", true, true },
    { "gemm_half_k", false, true },
    { "gemm_sum_exposed", false, true },
    { "gemm_unaligned_efficiency", true, false }, /* struct product_range does not bound it */
    { "gemm_tiles*", true, false },               /* the best tile changes with it */
    { "unaligned_efficiency", true, true },
    { "batched_gemm_efficiency", true, true },
    { "batched_gemm_half_dim", false, true },
    { "attention.*.half_seq", false, true },
    { "attention.*_efficiency", true, true },
    { "memory_efficiency", true, true },
    { "kernel", false, true },
    { "intra_bandwidth_factor", true, true },
    { "intra_latency_factor", false, true },
    { "inter_bandwidth_factor", true, true },
    { "inter_latency_factor", false, true },
    { "expert_wait", false, true },
    { "product_efficiency", true, true },
    { "issue", false, true },
    { "microbatch_overhead", false, true },
    { "step_overhead", false, true },
    { "message_per_rank", false, true },
    { "optimizer_passes", false, true },
};

static bool is_called(const char *name, const char *pattern)
{
    const char *star = strchr(pattern, '*');
    if (!star)
        return strcmp(name, pattern) == 0;
    size_t before = (size_t)(star - pattern), after = strlen(star + 1), length = strlen(name);
    return length >= before + after && strncmp(name, pattern, before) == 0 &&
           strcmp(name + length - after, star + 1) == 0;
}

static const struct rule *rule_of(const char *name)
{
    for (size_t i = 0; i < LENGTH(rules); i++)
        if (is_called(name, rules[i].name))
            return &rules[i];
    return NULL;
}

static bool refuse(struct err *err, const char *what)
{
    return err_set(err, ERR_USAGE, "--robust region",
                   "has no proved bounds for %s; use --robust 0.1, which draws errors at random",
                   what);
}

/* Whether both properties are known to hold for plans like `base` and these constants. */
static bool can_be_bounded(const struct region_request *request, const struct plan *base,
                           struct err *err)
{
    const struct search_request *search = request->search;
    const struct profile *profile = &search->system->profile;
    const struct stack *stack = &search->system->stack;
    if (profile->num_gemm_points + profile->num_kernels + profile->num_curves > 0)
        return refuse(err, "a profile with measured times of matrix products, ops or collectives");
    if (search->uneven || search->recompute_mixes)
        return refuse(err, "plans of --uneven and --recompute-mixes");
    if (search->placement)
        return refuse(err, "the rank orders of --placement");
    if (plan_overlaps(base, stack, OVERLAP_TP) || plan_overlaps(base, stack, OVERLAP_EP))
        return refuse(err, "plans with overlap=tp or overlap=ep (set by the stack or the layout)");
    if (base->schedule[0] || !exchange_is_default(&base->exchange) || base->offloads ||
        stack->pipeline.post_validation)
        return refuse(err, "plans with schedule=, exchange= or offload=, nor for steps without a "
                           "global gradient norm");
    for (int i = 0; i < request->num_constants; i++)
        if (!rule_of(request->constants[i].name))
            return refuse(err, request->constants[i].name);
    return true;
}

/* --- the region ------------------------------------------------------------------------------- */

/* A coordinate is a constant's logarithm, negated for rates, so that larger values are slower. A
 * part of the region is a box of coordinates; it is fastest in its low corner. Only the first
 * `num_cut` coordinates are halved. The others always have their whole range: lower bounds use its
 * fast end, upper bounds its slow end. */
enum { MOST_CUT = 6, MOST_CORNERS = 1 << MOST_CUT, MOST_POINTS = 2 * MOST_CUT + 1 };

struct part {
    double low[MOST_UNCERTAIN], high[MOST_UNCERTAIN];
    double volume; /* the part's share of the region's volume */
    /* indices of the plans, other than the choice, that are not ruled out in this part */
    const int *open;
    int num_open;
    int closest; /* the plan of `open` that is fastest in the middle of the part; -1: not known */
};

enum verdict { UNDECIDED, BEST, BEATEN };

/* A part under examination, and the logarithms of times and bounds in it. */
struct exam {
    struct part part;
    struct profile fast, slow;
    struct product_range floor, ceiling;
    size_t columns; /* 1 + number of plans that were not ruled out when the part was taken */
    double *floors; /* [point][columns]: lower bounds of the choice's time, then of the open plans'
                       times */
    double ceilings[MOST_CORNERS], rival_ceilings[MOST_CORNERS];
    int rival; /* a plan that may be faster than the choice everywhere in the part; -1: none */
    enum verdict verdict;
    int cut; /* the coordinate to halve */
};

struct regions {
    const struct region_request *request;
    const struct search *search;
    const struct uncertain *constants[MOST_UNCERTAIN]; /* by coordinate */
    double sign[MOST_UNCERTAIN];
    int count, num_cut;
    struct part whole;
    struct plan *plans; /* [0]: the choice */
    int num_plans;
    double limit; /* a plan counts as faster if the logarithm of the times' ratio exceeds this */
    double most_timed;
    double *faster, *closest; /* [plan]: volume of the parts in which the plan is proved faster, or
                                 is the closest rival */
    struct exam *exams;
    struct families *found; /* [worker] */
    struct evaluator **evaluators;
    double slowest_s; /* longest step time of the choice in the region */
    struct system fast_system;
    struct region *out;
};

/* Rounding error of the logarithm of a step time: times are added up in different orders. */
static const double rounding = 1e-6;

static void set_constant(const struct regions *r, int coordinate, double at, struct system *system)
{
    const struct uncertain *constant = r->constants[coordinate];
    double value = exp(at * r->sign[coordinate]);
    void *of = constant->is_of_stack ? (void *)&system->stack : (void *)&system->profile;
    memcpy((char *)of + constant->offset, &value, sizeof value);
}

static double constant_value(const struct uncertain *constant, const struct system *system)
{
    const void *of =
        constant->is_of_stack ? (const void *)&system->stack : (const void *)&system->profile;
    double value;
    memcpy(&value, (const char *)of + constant->offset, sizeof value);
    return value;
}

static struct system system_at(const struct regions *r, const double *at)
{
    struct system system = *r->search->system;
    for (int i = 0; i < r->count; i++)
        set_constant(r, i, at[i], &system);
    return system;
}

static double choice_s(const struct regions *r, const double *at)
{
    struct system system = system_at(r, at);
    struct evaluator *evaluator = evaluator_new(&system, r->search->space->model);
    double step_s = evaluate_step_s(evaluator, &r->plans[0]);
    evaluator_free(evaluator);
    return step_s;
}

/* The upper limit of a constant in the region: 1 for shares of a peak. */
static double most_of(const char *name, double value)
{
    return strstr(name, "efficiency") ? fmax(1, value) : HUGE_VAL;
}

static void set_ranges(struct regions *r)
{
    struct region *out = r->out;
    for (int i = 0; i < r->count; i++) {
        const struct uncertain *constant = r->constants[i];
        double value = constant_value(constant, r->search->system);
        double low = value * exp(-out->z * constant->log_sd);
        double high = fmin(value * exp(out->z * constant->log_sd), most_of(constant->name, value));
        out->ranges[i] =
            (struct region_range){ .of = constant, .value = value, .low = low, .high = high };
        bool is_rate = r->sign[i] < 0;
        r->whole.low[i] = r->sign[i] * log(is_rate ? high : low);
        r->whole.high[i] = r->sign[i] * log(is_rate ? low : high);
    }
}

/* The z for which `count` independent normals all lie within z deviations with this probability. */
static double box_width(double probability, int count)
{
    return count > 0 ? normal_quantile((1 + pow(probability, 1.0 / count)) / 2) : 0;
}

static void take_constant(struct regions *r, const struct uncertain *constant)
{
    r->constants[r->count] = constant;
    r->sign[r->count++] = rule_of(constant->name)->is_rate ? -1 : 1;
}

/* The largest change of the logarithm of a plan's time when only this constant goes from the fast
 * end of its range to the slow end. Only the first LOOKED_AT plans are timed. */
static double effect_of(const struct regions *r, int coordinate)
{
    enum { LOOKED_AT = 16 };
    double fast[MOST_UNCERTAIN], slow[MOST_UNCERTAIN], most = 0;
    memcpy(fast, r->whole.low, sizeof fast);
    memcpy(slow, r->whole.low, sizeof slow);
    slow[coordinate] = r->whole.high[coordinate];
    struct system systems[] = { system_at(r, fast), system_at(r, slow) };
    struct evaluator *evaluators[2];
    for (int i = 0; i < 2; i++)
        evaluators[i] = evaluator_new(&systems[i], r->search->space->model);
    for (int i = 0; i < r->num_plans && i < LOOKED_AT; i++)
        most = fmax(most, log(evaluate_step_s(evaluators[1], &r->plans[i]) /
                              evaluate_step_s(evaluators[0], &r->plans[i])));
    for (int i = 0; i < 2; i++)
        evaluator_free(evaluators[i]);
    return most;
}

static void swap_coordinates(struct regions *r, int a, int b)
{
    const struct uncertain *constant = r->constants[a];
    double sign = r->sign[a], low = r->whole.low[a], high = r->whole.high[a];
    struct region_range range = r->out->ranges[a];
    r->constants[a] = r->constants[b];
    r->sign[a] = r->sign[b];
    r->whole.low[a] = r->whole.low[b];
    r->whole.high[a] = r->whole.high[b];
    r->out->ranges[a] = r->out->ranges[b];
    r->constants[b] = constant;
    r->sign[b] = sign;
    r->whole.low[b] = low;
    r->whole.high[b] = high;
    r->out->ranges[b] = range;
}

/* Puts the coordinates that are to be halved first. They are the constants for which the second
 * property holds and that change step times most. */
static void choose_cuts(struct regions *r)
{
    const double least_effect = 1e-9;
    double effect[MOST_UNCERTAIN];
    for (int i = 0; i < r->count; i++)
        effect[i] = rule_of(r->constants[i]->name)->is_convex ? effect_of(r, i) : 0;
    while (r->num_cut < MOST_CUT && r->num_cut < r->count) {
        int most = r->num_cut;
        for (int i = most; i < r->count; i++)
            most = effect[i] > effect[most] ? i : most;
        if (effect[most] < least_effect)
            return;
        double first = effect[r->num_cut];
        effect[r->num_cut] = effect[most];
        effect[most] = first;
        swap_coordinates(r, r->num_cut++, most);
    }
}

/* --- the plans --------------------------------------------------------------------------------
 *
 * A lower bound that is computed with the fastest constants holds in the whole region, because no
 * duration gets shorter when a constant gets slower. */

struct meeting {
    struct regions *r;
    size_t block;
    int worker;
};

static double most_s(const struct regions *r)
{
    return r->slowest_s / (1 + BEST_WITHIN) * (1 + rounding);
}

static struct evaluator *fast_evaluator(struct regions *r, int worker)
{
    if (!r->evaluators[worker])
        r->evaluators[worker] = evaluator_new(&r->fast_system, r->search->space->model);
    return r->evaluators[worker];
}

static bool meet_family(void *context, const struct plan *first)
{
    struct meeting *meeting = context;
    struct regions *r = meeting->r;
    struct evaluator *evaluator = fast_evaluator(r, meeting->worker);
    if (evaluate_work_floor_s(evaluator, first) > most_s(r))
        return true;
    double floor_s = evaluate_floor_s(evaluator, first);
    if (floor_s <= most_s(r))
        families_add(&r->found[meeting->worker],
                     (struct family){ .block = meeting->block,
                                      .split = space_split_of(r->search->space, first),
                                      .floor_s = floor_s });
    return true;
}

static void exclude(void *context, const struct plan_rule *rule, double count)
{
    (void)context, (void)rule, (void)count;
}

static void meet_block(void *context, size_t block, int worker)
{
    struct meeting meeting = { context, block, worker };
    struct visitor visitor = { meet_family, exclude, &meeting };
    space_walk_families(meeting.r->search->space, block, &visitor);
}

static void add_plan(struct regions *r, const struct plan *plan)
{
    r->plans = arena_extend(r->plans, (size_t)r->num_plans, sizeof *r->plans);
    r->plans[r->num_plans++] = *plan;
}

static void meet_plan(struct regions *r, const struct plan *plan)
{
    if (evaluate_bound_s(fast_evaluator(r, 0), plan) <= most_s(r) &&
        !plan_equal(plan, &r->plans[0]))
        add_plan(r, plan);
}

/* Different sets of recomputed modules may be the fastest in different parts of the region. So all
 * minimal sets that fit are examined (a set is minimal if no proper subset fits). */
static void meet_sets(struct regions *r, const struct plan *member)
{
    unsigned sets[MOST_SETS];
    double bytes[MOST_SETS];
    int count = parts_that_fit(r->search->space, fast_evaluator(r, 0),
                               r->search->system->gpu.memory_bytes, member, sets, bytes);
    for (int i = 0; i < count; i++) {
        struct plan plan = parts_plan(member, sets[i]);
        meet_plan(r, &plan);
    }
}

static bool meet_member(void *context, const struct plan *member)
{
    struct regions *r = context;
    const struct space *space = r->search->space;
    struct evaluator *evaluator = fast_evaluator(r, 0);
    double memory_bytes = r->search->system->gpu.memory_bytes;
    struct plan plan = parts_none(space, member);
    if (evaluate_bound_s(evaluator, &plan) > most_s(r))
        return true;
    if (parts_are_open(space, member))
        meet_sets(r, member);
    else if (space_peak_bytes(space, evaluator, memory_bytes, &plan) <= memory_bytes)
        meet_plan(r, &plan);
    return true;
}

/* Lists all plans that may be the best somewhere in the region, in order of their families'
 * floors. */
static void list_plans(struct regions *r, struct arena *arena)
{
    int jobs = walk_jobs(r->search->request);
    r->found = ARENA_ARRAY(arena, struct families, (size_t)jobs);
    r->evaluators = ARENA_ARRAY(arena, struct evaluator *, (size_t)jobs);
    r->fast_system = system_at(r, r->whole.low);
    r->slowest_s = choice_s(r, r->whole.high);
    parallel_for(jobs, space_num_blocks(r->search->space), 1, meet_block, r);
    struct families families = families_join(r->found, jobs, arena);
    struct visitor visitor = { meet_member, exclude, r };
    for (size_t i = 0; i < families.count; i++) {
        struct plan first;
        space_family(r->search->space, families.at[i].block, families.at[i].split, &first);
        space_walk_family(r->search->space, &first, &visitor);
    }
}

/* --- one part ---------------------------------------------------------------------------------
 *
 * Let F be the logarithm of a plan's time, and x0 the middle of the part. F is convex, so it lies
 * above its tangent at x0. Along each coordinate, the tangent's slope lies between the slopes from
 * x0 to the two points beside it. The choice's F minus another plan's tangent is convex, so it is
 * largest in a corner of the part. */

/* Along each halved coordinate, times are also computed at two points beside the middle of the
 * part: at this distance from it, or at half of the part's width if that is less. */
static const double beside = 1e-3;

static int num_points(const struct regions *r)
{
    return 2 * r->num_cut + 1;
}

static double half_width(const struct part *part, int i)
{
    return (part->high[i] - part->low[i]) / 2;
}

static double distance(const struct part *part, int i)
{
    return fmin(beside, half_width(part, i));
}

/* Point 0 is the middle; points 2 i + 1 and 2 i + 2 have a smaller and a larger coordinate i.
 * Coordinates that are not halved have their fast ends. */
static void set_point(const struct regions *r, const struct part *part, int point, double *at)
{
    memcpy(at, part->low, (size_t)r->count * sizeof *at);
    for (int i = 0; i < r->num_cut; i++)
        at[i] = part->low[i] + half_width(part, i);
    int i = (point - 1) / 2;
    if (point > 0)
        at[i] += (point % 2 == 1 ? -1 : 1) * distance(part, i);
}

/* Bit i of the corner selects the slow end of coordinate i. Coordinates that are not halved have
 * their slow ends. */
static void set_corner(const struct regions *r, const struct part *part, int corner, double *at)
{
    memcpy(at, part->high, (size_t)r->count * sizeof *at);
    for (int i = 0; i < r->num_cut; i++)
        at[i] = (corner >> i & 1) != 0 ? part->high[i] : part->low[i];
}

/* The worker's evaluator, set to this system until the next call. */
static struct evaluator *evaluator_on(struct regions *r, const struct system *system, int worker)
{
    if (r->evaluators[worker])
        evaluator_change_to(r->evaluators[worker], system);
    else
        r->evaluators[worker] = evaluator_new(system, r->search->space->model);
    return r->evaluators[worker];
}

static void find_floors(struct regions *r, struct exam *exam, int point, int worker)
{
    double at[MOST_UNCERTAIN];
    double *row = &exam->floors[(size_t)point * exam->columns];
    set_point(r, &exam->part, point, at);
    struct system system = system_at(r, at);
    system.profile.range = &exam->floor;
    struct evaluator *evaluator = evaluator_on(r, &system, worker);
    row[0] = log(evaluate_step_s(evaluator, &r->plans[0]));
    for (int i = 0; i < exam->part.num_open; i++)
        row[1 + i] = log(evaluate_step_s(evaluator, &r->plans[exam->part.open[i]]));
}

static double ceiling_of(struct regions *r, const struct exam *exam, int plan, int corner,
                         int worker)
{
    double at[MOST_UNCERTAIN];
    set_corner(r, &exam->part, corner, at);
    struct system system = system_at(r, at);
    system.profile.range = &exam->ceiling;
    return log(evaluate_step_s(evaluator_on(r, &system, worker), &r->plans[plan]));
}

/* The slopes of a column's floor (the logarithm of a plan's time, or a lower bound of it) on both
 * sides of the middle. */
struct slopes {
    double before[MOST_CUT], behind[MOST_CUT];
};

static struct slopes slopes_of(const struct regions *r, const struct exam *exam, size_t column)
{
    struct slopes slopes = { { 0 }, { 0 } };
    const double *middle = &exam->floors[column];
    for (int i = 0; i < r->num_cut; i++) {
        double step = distance(&exam->part, i);
        const double *beside_it = middle + (size_t)(2 * i + 1) * exam->columns;
        if (!(step > 0))
            continue;
        slopes.before[i] = (*middle - *beside_it) / step;
        slopes.behind[i] = (beside_it[exam->columns] - *middle) / step;
    }
    return slopes;
}

/* `ceilings` are upper bounds of a convex function at the part's corners. Returns an upper bound of
 * this function minus the column's floor anywhere in the part. */
static double most_above(const struct regions *r, const struct exam *exam, const double *ceilings,
                         size_t column)
{
    struct slopes slopes = slopes_of(r, exam, column);
    double most = -HUGE_VAL;
    for (int corner = 0; corner < 1 << r->num_cut; corner++) {
        double tangent = exam->floors[column];
        for (int i = 0; i < r->num_cut; i++)
            tangent += half_width(&exam->part, i) *
                       ((corner >> i & 1) != 0 ? slopes.before[i] : -slopes.behind[i]);
        most = fmax(most, ceilings[corner] - tangent);
    }
    return most;
}

static void begin_exam(const struct regions *r, const struct part *part, struct exam *exam)
{
    *exam = (struct exam){ .part = *part, .columns = 1 + (size_t)part->num_open, .rival = -1 };
    exam->fast = system_at(r, part->low).profile;
    exam->slow = system_at(r, part->high).profile;
    exam->floor = (struct product_range){ &exam->fast, &exam->slow, true };
    exam->ceiling = (struct product_range){ &exam->fast, &exam->slow, false };
    exam->floors = arena_grow(NULL, (size_t)num_points(r) * exam->columns * sizeof(double));
}

/* Keeps the plans that are not ruled out in this part, in the same order, and sets the closest to
 * the fastest of them. */
static void rule_out(const struct regions *r, struct exam *exam, int *kept)
{
    struct part *part = &exam->part;
    int count = 0, closest = -1;
    for (int i = 0; i < part->num_open; i++) {
        size_t column = 1 + (size_t)i;
        if (most_above(r, exam, exam->ceilings, column) + rounding <= r->limit)
            continue;
        if (closest < 0 || exam->floors[column] < exam->floors[1 + (size_t)closest])
            closest = i;
        kept[count++] = part->open[i];
    }
    part->closest = closest < 0 ? -1 : part->open[closest];
    exam->verdict = count == 0 ? BEST : UNDECIDED;
    if (closest >= 0 && exam->floors[1 + (size_t)closest] + r->limit < exam->floors[0])
        exam->rival = part->closest;
    part->num_open = count;
}

/* The coordinate along which the difference between the choice and the closest plan changes most.
 * The change is estimated from the difference of their slopes and from the curvature of the
 * choice's time, which is at most e (1 - e) where its slope is e. */
static int cut_of(const struct regions *r, const struct exam *exam, size_t column)
{
    struct slopes choice = slopes_of(r, exam, 0), other = slopes_of(r, exam, column);
    double most = 0;
    int cut = -1;
    for (int i = 0; i < r->num_cut; i++) {
        double half = half_width(&exam->part, i);
        double slope = (choice.before[i] + choice.behind[i]) / 2;
        double apart = fabs(slope - (other.before[i] + other.behind[i]) / 2);
        double change = half * apart + half * half * slope * (1 - slope) / 2;
        if (change > most) {
            most = change;
            cut = i;
        }
    }
    return cut;
}

static size_t column_of(const int *open, int count, int plan)
{
    for (int i = 0; i < count; i++)
        if (open[i] == plan)
            return 1 + (size_t)i;
    return 0;
}

/* --- all parts -------------------------------------------------------------------------------- */

struct queue {
    struct part *at;
    size_t first, count;
};

static void push(struct queue *queue, const struct part *part)
{
    queue->at = arena_extend(queue->at, queue->count, sizeof *queue->at);
    queue->at[queue->count++] = *part;
}

static int tasks_of(const struct regions *r)
{
    return num_points(r) + (1 << r->num_cut);
}

static void run_task(void *context, size_t index, int worker)
{
    struct regions *r = context;
    struct exam *exam = &r->exams[index / (size_t)tasks_of(r)];
    int task = (int)(index % (size_t)tasks_of(r));
    if (task < num_points(r))
        find_floors(r, exam, task, worker);
    else
        exam->ceilings[task - num_points(r)] = ceiling_of(r, exam, 0, task - num_points(r), worker);
}

static void run_rival(void *context, size_t index, int worker)
{
    struct regions *r = context;
    struct exam *exam = &r->exams[index >> r->num_cut];
    int corner = (int)(index & ((1U << r->num_cut) - 1));
    if (exam->rival >= 0)
        exam->rival_ceilings[corner] = ceiling_of(r, exam, exam->rival, corner, worker);
}

/* Adds a part's volume to the quarters of a coordinate's range, in proportion to its overlap with
 * each quarter. Quarters are numbered from the lowest value: for a rate this is the slow end. */
static void add_to_quarters(const struct regions *r, const struct part *part, int i,
                            double quarters[NUM_QUARTERS])
{
    double whole = (r->whole.high[i] - r->whole.low[i]) / NUM_QUARTERS;
    double width = part->high[i] - part->low[i];
    for (int q = 0; q < NUM_QUARTERS; q++) {
        double from = r->whole.low[i] + q * whole;
        double in = fmin(part->high[i], from + whole) - fmax(part->low[i], from);
        double share = width > 0 ? fmax(0, in) / width : 1.0 / NUM_QUARTERS;
        quarters[r->sign[i] < 0 ? NUM_QUARTERS - 1 - q : q] += NUM_QUARTERS * part->volume * share;
    }
}

static void count_part(struct regions *r, const struct exam *exam)
{
    struct region *out = r->out;
    const struct part *part = &exam->part;
    bool is_best = exam->verdict == BEST;
    *(is_best ? &out->best_share : &out->beaten_share) += part->volume;
    if (!is_best)
        r->faster[exam->rival] += part->volume;
    for (int i = 0; i < r->count; i++) {
        struct region_range *range = &out->ranges[i];
        add_to_quarters(r, part, i, is_best ? range->best : range->beaten);
    }
}

static void tell(const struct regions *r, const struct exam *exam)
{
    struct region_part report = { .volume = exam->part.volume };
    if (!r->request->decided)
        return;
    for (int i = 0; i < r->count; i++) {
        ptrdiff_t number = r->constants[i] - r->request->constants;
        double ends[] = { exp(r->sign[i] * exam->part.low[i]),
                          exp(r->sign[i] * exam->part.high[i]) };
        report.low[number] = fmin(ends[0], ends[1]);
        report.high[number] = fmax(ends[0], ends[1]);
    }
    report.faster = exam->verdict == BEATEN ? &r->plans[exam->rival] : NULL;
    r->request->decided(r->request->context, &report);
}

static void leave_open(struct regions *r, const struct part *part)
{
    if (part->closest >= 0)
        r->closest[part->closest] += part->volume;
}

static void cut_part(struct regions *r, const struct exam *exam, struct queue *queue)
{
    struct part half = exam->part;
    int i = exam->cut;
    if (i < 0) {
        leave_open(r, &half);
        return;
    }
    double middle = (half.low[i] + half.high[i]) / 2;
    half.volume /= 2;
    half.high[i] = middle;
    push(queue, &half);
    half = exam->part;
    half.volume /= 2;
    half.low[i] = middle;
    push(queue, &half);
}

static void conclude(struct regions *r, struct exam *exam, struct queue *queue)
{
    if (exam->rival >= 0 && exam->verdict == UNDECIDED &&
        most_above(r, exam, exam->rival_ceilings, 0) + rounding + r->limit < 0)
        exam->verdict = BEATEN;
    if (exam->verdict == UNDECIDED) {
        cut_part(r, exam, queue);
    } else {
        count_part(r, exam);
        tell(r, exam);
    }
}

static double cost_of(const struct regions *r, const struct part *part)
{
    return num_points(r) * (1.0 + part->num_open) + 2.0 * (1 << r->num_cut);
}

/* Takes the next parts, at most `most`, as long as the limit of computed times and bounds is not
 * exceeded. */
static size_t take_parts(struct regions *r, struct queue *queue, size_t most)
{
    size_t count = 0;
    for (; count < most && queue->first < queue->count; count++, queue->first++) {
        const struct part *part = &queue->at[queue->first];
        double cost = cost_of(r, part);
        if (r->out->timed + cost > r->most_timed)
            break;
        r->out->timed += cost;
        begin_exam(r, part, &r->exams[count]);
    }
    return count;
}

static void examine(struct regions *r, size_t count, struct queue *queue, struct arena *arena)
{
    int jobs = walk_jobs(r->search->request);
    parallel_for(jobs, count * (size_t)tasks_of(r), 1, run_task, r);
    for (size_t i = 0; i < count; i++) {
        struct exam *exam = &r->exams[i];
        const int *open = exam->part.open;
        int num_open = exam->part.num_open;
        int *kept = ARENA_ARRAY(arena, int, (size_t)num_open);
        rule_out(r, exam, kept);
        exam->cut = cut_of(r, exam, column_of(open, num_open, exam->part.closest));
        exam->part.open = kept;
    }
    parallel_for(jobs, count << r->num_cut, 1, run_rival, r);
    for (size_t i = 0; i < count; i++) {
        conclude(r, &r->exams[i], queue);
        free(r->exams[i].floors);
    }
    r->out->parts += (int)count;
}

static void run_parts(struct regions *r, struct arena *arena)
{
    enum { AT_ONCE = 64 };
    struct queue queue = { 0 };
    int *all = ARENA_ARRAY(arena, int, (size_t)r->num_plans);
    for (int i = 1; i < r->num_plans; i++)
        all[i - 1] = i;
    r->whole.open = all;
    r->whole.num_open = r->num_plans - 1;
    r->whole.closest = -1;
    r->whole.volume = 1;
    r->exams = ARENA_ARRAY(arena, struct exam, AT_ONCE);
    push(&queue, &r->whole);
    size_t count;
    while ((count = take_parts(r, &queue, AT_ONCE)) > 0)
        examine(r, count, &queue, arena);
    for (size_t i = queue.first; i < queue.count; i++)
        leave_open(r, &queue.at[i]);
    free(queue.at);
}

/* --- the answer ------------------------------------------------------------------------------- */

/* The plans with the largest volumes. */
static int name_plans(const struct regions *r, double *volume, struct region_rival *named)
{
    int count = 0;
    for (; count < MOST_NAMED; count++) {
        int most = 0;
        for (int i = 1; i < r->num_plans; i++)
            most = volume[i] > volume[most] ? i : most;
        if (!(volume[most] > 0))
            break;
        named[count] = (struct region_rival){ r->plans[most], volume[most] };
        volume[most] = 0;
    }
    return count;
}

/* The largest difference between two quarters of the range in the share proved best, or in the
 * share proved beaten. */
static double difference_of(const struct region_range *range)
{
    double most = 0;
    for (int a = 0; a < NUM_QUARTERS; a++)
        for (int b = 0; b < a; b++)
            most = fmax(most, fmax(fabs(range->best[a] - range->best[b]),
                                   fabs(range->beaten[a] - range->beaten[b])));
    return most;
}

static int deciding(const struct region *out)
{
    const double least = 1e-9;
    int decides = -1;
    for (int i = 0; i < out->num_ranges; i++)
        if (difference_of(&out->ranges[i]) >
            (decides < 0 ? least : difference_of(&out->ranges[decides])))
            decides = i;
    return decides;
}

static void find(struct regions *r)
{
    struct region *out = r->out;
    struct arena *arena = &out->arena;
    add_plan(r, r->request->choice);
    for (int i = 0; i < r->request->num_constants; i++)
        if (r->request->constants[i].log_sd > 0)
            take_constant(r, &r->request->constants[i]);
    out->num_ranges = r->count;
    out->z = box_width(r->request->probability, r->count);
    set_ranges(r);
    list_plans(r, arena);
    choose_cuts(r);
    out->plans = r->num_plans;
    r->faster = ARENA_ARRAY(arena, double, (size_t)r->num_plans);
    r->closest = ARENA_ARRAY(arena, double, (size_t)r->num_plans);
    run_parts(r, arena);
    out->num_faster = name_plans(r, r->faster, out->faster);
    out->num_closest = name_plans(r, r->closest, out->closest);
    out->decides = deciding(out);
}

bool region_find(const struct region_request *request, struct region *out, struct err *err)
{
    const double default_timed = 50000;
    struct prepared prepared;
    *out = (struct region){ .decides = -1, .probability = request->probability };
    if (!search_prepare(request->search, &out->arena, &prepared, err) ||
        !can_be_bounded(request, &prepared.space.base, err))
        return false;
    struct regions r = { .request = request,
                         .search = &prepared.search,
                         .limit = log1p(BEST_WITHIN),
                         .most_timed =
                             request->most_timed > 0 ? request->most_timed : default_timed,
                         .out = out };
    find(&r);
    for (int i = 0; i < walk_jobs(prepared.search.request); i++)
        evaluator_free(r.evaluators[i]);
    free(r.plans);
    return true;
}

void region_release(struct region *region)
{
    arena_release(&region->arena);
}
