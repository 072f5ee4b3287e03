/* Branch and bound, best first. A family is a set of plans that differ only in recompute and ZeRO;
 * a block is a set of families with equal degrees, microbatch and rank order. Families are examined
 * by rising lower bound (floor) of their step times. Within a family, each plan's bound is computed
 * before its time. The method ends at the first family whose floor is above the worst plan kept.
 *
 * Families are examined in rounds. All families of a round are compared with the plans kept before
 * it, so that neither the answer nor a count depends on the number of workers. */
#include "search/method.h"

#include "base/clock.h"
#include "base/parallel.h"
#include "base/statistics.h"
#include "search/evaluators.h"
#include "search/families.h"
#include "search/parts.h"
#include "search/room.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROUND = 4, LONGEST_ROUND = 128 };

/* The state that one worker owns. */
struct worker {
    struct evaluator *evaluator; /* NULL until the worker gets work */
    struct tally tally;
    bool was_late;    /* whether time was short, so that the worker left some blocks unlisted */
    double skipped_s; /* least floor of the families that are over the request's limit_s, and so
                         not listed */
};

struct bnb {
    const struct search *search;
    struct worker *workers;
    int jobs;
    struct families *found;   /* [worker] */
    struct families families; /* of all workers, by rising floor */
    bool is_listed;           /* whether `families` has every family of the space */
    size_t next;              /* families before this index were examined */
    size_t known; /* families before this index have exact floors; the others may have rough floors,
                     which are lower bounds of their exact floors */
    struct frontier best;
    struct frontier *round; /* per family of a round: the plans that may be kept */
    /* The fastest plan whose risk of running out of memory is too high: of all families, and per
     * family of a round. */
    struct frontier tight, *round_tight;
    /* per family of a round: whether time ran out before all its plans were examined */
    bool *is_open;
    double open_floor_s; /* least floor of the families in is_open */
};

/* One family, examined by one worker. */
struct examination {
    const struct bnb *bnb;
    struct worker *worker;
    struct frontier *kept, *tight;
    struct block_floors floors;
};

static bool must_stop(const struct bnb *bnb, struct worker *worker)
{
    return tally_must_stop(&worker->tally, bnb->search->request, bnb->search->start_s);
}

static struct evaluator *evaluator_of(const struct bnb *bnb, struct worker *worker)
{
    if (!worker->evaluator)
        worker->evaluator =
            evaluators_of(bnb->search->request->evaluators, (int)(worker - bnb->workers));
    return worker->evaluator;
}

static bool ranks_by_memory(const struct bnb *bnb)
{
    return bnb->best.objective == OBJECTIVE_MEMORY;
}

/* --- families ----------------------------------------------------------------------------- */

/* A block whose families are being listed. */
struct listing {
    const struct bnb *bnb;
    struct worker *worker;
    struct families *found; /* families of the worker that lists the block */
    size_t block;
};

/* Whether the request's limit_s excludes `families` families with this floor; they are then counted
 * as bounded. */
static bool is_over_limit(struct listing *listing, double floor_s, int families)
{
    const struct search *search = listing->bnb->search;
    double limit_s = search->request->limit_s;
    if (limit_s <= 0 || ranks_by_memory(listing->bnb) || sum_floor(floor_s) <= limit_s)
        return false;
    listing->worker->skipped_s = fmin(listing->worker->skipped_s, floor_s);
    listing->worker->tally.bounded += families * space_family_size(search->space);
    return true;
}

static bool list_family(void *context, const struct plan *first)
{
    struct listing *listing = context;
    double floor_s = evaluate_work_floor_s(evaluator_of(listing->bnb, listing->worker), first);
    if (!is_over_limit(listing, floor_s, 1))
        families_add(listing->found,
                     (struct family){ .block = listing->block,
                                      .split = space_split_of(listing->bnb->search->space, first),
                                      .floor_s = floor_s });
    return true;
}

static void exclude_families(void *context, const struct plan_rule *rule, double count)
{
    struct listing *listing = context;
    tally_broken(&listing->worker->tally, rule, count);
}

/* Whether half of the time limit has passed; the other half is for examining the families listed so
 * far. */
static bool is_late(const struct bnb *bnb)
{
    double limit_s = bnb->search->request->time_limit_s;
    return limit_s > 0 && clock_now_s() - bnb->search->start_s > limit_s / 2;
}

/* Whether a whole block is left out, because all its families are over the request's limit_s or do
 * not fit. Without such a limit no block is left out, as few could be. A block that does not fit is
 * kept as long as its plan of least memory may be needed as a hint. */
static bool is_left_out(struct listing *listing, const struct plan *first, int families)
{
    const struct search *search = listing->bnb->search;
    struct evaluator *evaluator = evaluator_of(listing->bnb, listing->worker);
    double of_place[NUM_MTP_PLACES];
    if (search->request->limit_s <= 0)
        return false;
    if (is_over_limit(listing, evaluate_block_floor_s(evaluator, first, NULL), families))
        return true;
    if (!search->request->without_hints ||
        space_least_floor_bytes(search->space, evaluator, first, of_place) <=
            search->system->fits_bytes)
        return false;
    listing->worker->tally.over_memory += families * space_family_size(search->space);
    return true;
}

static void list_block(void *context, size_t block, int id)
{
    struct bnb *bnb = context;
    const struct search *search = bnb->search;
    struct listing listing = { bnb, &bnb->workers[id], &bnb->found[id], block };
    struct visitor visitor = { list_family, exclude_families, &listing };
    struct plan first;
    if (must_stop(bnb, listing.worker) || is_late(bnb)) {
        listing.worker->was_late = true;
        return;
    }
    int families = space_begin_block(search->space, block, &visitor, &first);
    if (families > 0 && !is_left_out(&listing, &first, families))
        space_walk_begun(search->space, block, &first, &visitor);
}

static void list_families(struct bnb *bnb, struct arena *arena)
{
    bnb->found = ARENA_ARRAY(arena, struct families, (size_t)bnb->jobs);
    enum { AT_ONCE = 16 }; /* most blocks have no families */
    parallel_for(bnb->jobs, space_num_blocks(bnb->search->space), AT_ONCE, list_block, bnb);
    bnb->is_listed = true;
    for (int i = 0; i < bnb->jobs; i++) {
        bnb->is_listed &= !bnb->workers[i].was_late;
        bnb->open_floor_s = fmin(bnb->open_floor_s, bnb->workers[i].skipped_s);
    }
    bnb->families = families_join(bnb->found, bnb->jobs, arena);
}

/* --- one family --------------------------------------------------------------------------- */

/* A plan whose bound is above this step time is not needed: it cannot be kept, or the request does
 * not ask for it. */
static double worst_step_s(const struct bnb *bnb)
{
    const struct frontier *best = &bnb->best;
    double limit_s = bnb->search->request->limit_s;
    if (ranks_by_memory(bnb))
        return HUGE_VAL;
    double worst_s = best->count < best->capacity ? HUGE_VAL : best->at[0].step_s;
    return limit_s > 0 ? fmin(worst_s, limit_s) : worst_s;
}

static double worst_peak_bytes(const struct bnb *bnb)
{
    const struct frontier *best = &bnb->best;
    bool all_go = best->count < best->capacity || !ranks_by_memory(bnb);
    return all_go ? HUGE_VAL : best->at[0].peak_memory_bytes;
}

/* Examines a plan that is predicted to fit but whose risk of running out of memory is too high. It
 * is kept only if it may be faster than every plan kept. */
static void examine_tight(struct examination *at, struct ranked_plan *ranked)
{
    const struct bnb *bnb = at->bnb;
    struct evaluator *evaluator = at->worker->evaluator;
    double fastest = fmin(frontier_fastest_s(&bnb->best), frontier_fastest_s(&bnb->tight));
    if (ranked->peak_memory_bytes > bnb->search->system->fits_bytes || ranks_by_memory(bnb) ||
        sum_floor(evaluate_bound_s(evaluator, &ranked->plan)) > fastest)
        return;
    ranked->step_s = evaluate_step_s(evaluator, &ranked->plan);
    frontier_offer(at->tight, ranked);
}

/* Whether every plan with at least this memory can be left out: it exceeds the memory, whatever the
 * accepted risk, and it is not needed as the plan with the least memory. */
static bool is_too_large(const struct examination *at, double floor_bytes)
{
    return floor_bytes > at->bnb->search->system->fits_bytes &&
           (at->bnb->best.count > 0 || tally_has_leaner(&at->worker->tally, floor_bytes));
}

static bool has_no_room(struct examination *at, const struct plan *plan)
{
    const struct space *space = at->bnb->search->space;
    struct evaluator *evaluator = at->worker->evaluator;
    return is_too_large(at, parts_are_open(space, plan)
                                ? parts_least_bytes(evaluator, plan)
                                : evaluate_first_stage_bytes(evaluator, plan));
}

static bool examine_plan(void *context, const struct plan *plan)
{
    struct examination *at = context;
    const struct bnb *bnb = at->bnb;
    struct tally *tally = &at->worker->tally;
    struct evaluator *evaluator = at->worker->evaluator;
    double worst_s = worst_step_s(bnb);
    struct plan lightest = parts_none(bnb->search->space, plan);
    double state_bytes = space_floor_bytes(&at->floors, evaluator, plan);
    /* A plan that is both too large and too slow counts as too large, so that counts do not depend
     * on which plans a worker has seen. */
    bool is_surely_large = state_bytes > bnb->search->system->fits_bytes;
    if (!is_surely_large && worst_s < HUGE_VAL &&
        sum_floor(evaluate_bound_s(evaluator, &lightest)) > worst_s) {
        tally->bounded++;
        return true;
    }
    if (is_too_large(at, state_bytes) || has_no_room(at, plan)) {
        tally->over_memory++;
        return true;
    }
    struct ranked_plan ranked = { .plan = *plan };
    double memory_bytes = bnb->search->system->gpu.memory_bytes;
    ranked.peak_memory_bytes =
        space_peak_bytes(bnb->search->space, evaluator, memory_bytes, &ranked.plan);
    if (ranked.peak_memory_bytes > memory_bytes) {
        tally_over_memory(tally, &ranked);
        examine_tight(at, &ranked);
    } else if (ranked.peak_memory_bytes > worst_peak_bytes(bnb)) {
        tally->bounded++;
    } else {
        ranked.step_s = evaluate_step_s(evaluator, &ranked.plan);
        tally_evaluated(tally, &ranked);
        frontier_offer(at->kept, &ranked);
    }
    return true;
}

static void exclude_plan(void *context, const struct plan_rule *rule, double count)
{
    struct examination *at = context;
    tally_broken(&at->worker->tally, rule, count);
}

static void examine_family(void *context, size_t index, int id)
{
    struct bnb *bnb = context;
    struct examination at = { bnb, &bnb->workers[id], &bnb->round[index], &bnb->round_tight[index],
                              .floors = { { 0 } } };
    const struct family *family = &bnb->families.at[bnb->next + index];
    bnb->is_open[index] = must_stop(bnb, at.worker);
    if (bnb->is_open[index])
        return;
    evaluator_of(bnb, at.worker);
    struct plan first;
    struct visitor visitor = { examine_plan, exclude_plan, &at };
    space_family(bnb->search->space, family->block, family->split, &first);
    space_walk_family(bnb->search->space, &first, &visitor);
}

/* --- rounds ------------------------------------------------------------------------------- */

static bool is_stopped(const struct bnb *bnb)
{
    for (int i = 0; i < bnb->jobs; i++)
        if (!tally_is_complete(&bnb->workers[i].tally))
            return true;
    return false;
}

static void find_floor(void *context, size_t index, int id)
{
    struct bnb *bnb = context;
    struct worker *worker = &bnb->workers[id];
    struct family *family = &bnb->families.at[bnb->known + index];
    struct plan first;
    if (must_stop(bnb, worker))
        return;
    space_family(bnb->search->space, family->block, family->split, &first);
    family->floor_s = evaluate_floor_s(evaluator_of(bnb, worker), &first);
}

/* Whether the next `most` families that may hold a plan to be kept are sorted by their floors. A
 * rough floor is a lower bound of the family's floor, so it may place the family too early. */
static bool is_in_order(const struct bnb *bnb, size_t most)
{
    const struct families *families = &bnb->families;
    if (bnb->known == families->count)
        return true;
    double rough_s = sum_floor(families->at[bnb->known].floor_s);
    if (rough_s > worst_step_s(bnb))
        return true;
    return bnb->known >= bnb->next + most && rough_s > families->at[bnb->next + most - 1].floor_s;
}

/* Replaces rough floors until the next families are sorted. Floors do not depend on the number of
 * workers, so the order does not either. */
static void put_in_order(struct bnb *bnb, size_t most)
{
    enum { AT_ONCE = 128 };
    while (!is_stopped(bnb) && !is_in_order(bnb, most)) {
        size_t left = bnb->families.count - bnb->known;
        size_t waiting = (bnb->known - bnb->next) / 4;
        size_t more = waiting > AT_ONCE ? waiting : AT_ONCE;
        more = more < left ? more : left;
        parallel_for(bnb->jobs, more, 1, find_floor, bnb);
        bnb->known += more;
        families_sort(&bnb->families.at[bnb->next], bnb->known - bnb->next);
    }
}

/* Number of families in the next round, all of which may hold a plan to be kept. */
static size_t round_length(const struct bnb *bnb, size_t most)
{
    double worst_s = worst_step_s(bnb);
    size_t length = 0;
    while (length < most && bnb->next + length < bnb->known &&
           sum_floor(bnb->families.at[bnb->next + length].floor_s) <= worst_s)
        length++;
    return length;
}

static void keep_round(struct bnb *bnb, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        struct frontier *kept = &bnb->round[i];
        for (int j = 0; j < kept->count; j++)
            frontier_offer(&bnb->best, &kept->at[j]);
        kept->count = 0;
        struct frontier *tight = &bnb->round_tight[i];
        for (int j = 0; j < tight->count; j++)
            frontier_offer(&bnb->tight, &tight->at[j]);
        tight->count = 0;
        if (bnb->is_open[i])
            bnb->open_floor_s = fmin(bnb->open_floor_s, bnb->families.at[bnb->next + i].floor_s);
    }
    bnb->next += length;
}

static void run_rounds(struct bnb *bnb)
{
    const struct search_request *request = bnb->search->request;
    size_t length;
    for (size_t most = FIRST_ROUND;; most = most < LONGEST_ROUND ? 2 * most : LONGEST_ROUND) {
        put_in_order(bnb, most);
        if (is_stopped(bnb) || (length = round_length(bnb, most)) == 0)
            break;
        parallel_for(bnb->jobs, length, 1, examine_family, bnb);
        keep_round(bnb, length);
        if (request->progress)
            request->progress((double)bnb->next / (double)bnb->families.count,
                              request->progress_context);
    }
    size_t firsts[] = { bnb->next, bnb->known };
    for (int i = 0; i < 2; i++)
        if (firsts[i] < bnb->families.count)
            bnb->open_floor_s = fmin(bnb->open_floor_s, bnb->families.at[firsts[i]].floor_s);
}

/* --- the answer --------------------------------------------------------------------------- */

static struct tally close_workers(struct bnb *bnb, struct arena *arena)
{
    struct tally sum = tally_new(arena);
    for (int i = 0; i < bnb->jobs; i++)
        tally_add(&sum, &bnb->workers[i].tally);
    sum.timed_out |= !bnb->is_listed && !sum.was_interrupted;
    size_t left = bnb->families.count - bnb->next;
    if (tally_is_complete(&sum))
        sum.bounded += (double)left * space_family_size(bnb->search->space);
    return sum;
}

/* The bound of the whole space: no timed plan is faster than the fastest, and no other plan is
 * faster than its floor. */
static double lower_bound_s(const struct bnb *bnb, const struct tally *tally)
{
    double least_s = bnb->open_floor_s;
    if (!bnb->is_listed)
        least_s = search_peak_floor_s(bnb->search);
    else if (ranks_by_memory(bnb) && bnb->families.count > 0)
        least_s = bnb->families.at[0].floor_s;
    /* an examined family may have untimed plans just above limit_s */
    if (bnb->search->request->limit_s > 0 && bnb->next > 0)
        least_s = fmin(least_s, bnb->search->request->limit_s);
    double bound_s = sum_floor(least_s);
    if (tally->evaluated > 0)
        bound_s = fmin(bound_s, tally->fastest_s);
    return bound_s < HUGE_VAL ? bound_s : 0;
}

static struct bnb bnb_new(const struct search *search, int top, struct arena *arena)
{
    int objective = search->request->objective;
    int jobs = walk_jobs(search->request);
    struct bnb bnb = { .search = search,
                       .jobs = jobs,
                       .workers = ARENA_ARRAY(arena, struct worker, (size_t)jobs),
                       .best = frontier_new(objective, top, arena),
                       .round = ARENA_ARRAY(arena, struct frontier, LONGEST_ROUND),
                       .tight = frontier_new(objective, 1, arena),
                       .round_tight = ARENA_ARRAY(arena, struct frontier, LONGEST_ROUND),
                       .is_open = ARENA_ARRAY(arena, bool, LONGEST_ROUND),
                       .open_floor_s = HUGE_VAL };
    for (int i = 0; i < jobs; i++)
        bnb.workers[i] = (struct worker){ .tally = tally_new(arena), .skipped_s = HUGE_VAL };
    int most = (int)fmin(top, space_family_size(search->space));
    for (int i = 0; i < LONGEST_ROUND; i++) {
        bnb.round[i] = frontier_new(objective, most, arena);
        bnb.round_tight[i] = frontier_new(objective, 1, arena);
    }
    return bnb;
}

/* Whether no plan fits in any rank order; `why` gets the reasons. It is checked before any floor is
 * computed, and only if the space has several rank orders and the objective is not memory. */
static bool nothing_fits(const struct search *search, struct arena *arena, struct tally *why)
{
    if (search->space->orders.count == 1 || search->request->objective == OBJECTIVE_MEMORY)
        return false;
    struct search_request quiet = *search->request;
    quiet.progress = NULL;
    struct walk walk = { .request = &quiet,
                         .system = search->system,
                         .space = search->space,
                         .start_s = search->start_s,
                         .only_whether_any_fits = true,
                         .tells_why = true };
    *why = walk_run(&walk, arena);
    return why->evaluated == 0 && tally_is_complete(why);
}

/* The same as bnb_best; in addition, `tight` gets the fastest plan that is faster than all kept
 * plans but whose risk is too high. */
static struct tally find_best(const struct search *search, struct arena *arena,
                              struct frontier *best, struct frontier *tight, double *least_s)
{
    struct tally why;
    *best = frontier_new(search->request->objective, search->request->top, arena);
    *least_s = 0;
    if (nothing_fits(search, arena, &why))
        return why;
    struct bnb bnb = bnb_new(search, search->request->top, arena);
    evaluators_begin(search->request->evaluators, bnb.jobs, search->system, search->space->model);
    list_families(&bnb, arena);
    run_rounds(&bnb);
    if (search->request->progress)
        search->request->progress(1, search->request->progress_context);
    struct tally tally = close_workers(&bnb, arena);
    frontier_sort(&bnb.best);
    *best = bnb.best;
    *tight = bnb.tight;
    *least_s = lower_bound_s(&bnb, &tally);
    return tally;
}

struct tally bnb_best(const struct search *search, struct arena *arena, struct frontier *best,
                      double *least_s)
{
    struct frontier tight;
    return find_best(search, arena, best, &tight, least_s);
}

static void fill_tight(const struct search *search, const struct frontier *tight,
                       struct search_result *result)
{
    bool is_faster = tight->count > 0 && result->num_top > 0 &&
                     tight->at[0].step_s < result->top[0].prediction.step_s;
    if (!is_faster)
        return;
    result->tight = ARENA_NEW(&result->arena, struct scored_plan);
    *result->tight = search_predict(search, &tight->at[0].plan, &result->arena);
}

bool bnb_run(const struct search *search, struct search_result *result, struct err *err)
{
    if (search->request->uneven || search->request->recompute_mixes)
        return uneven_run(search, result, err);
    struct frontier best, tight = { 0 };
    double least_s;
    struct tally tally = find_best(search, &result->arena, &best, &tight, &least_s);
    search_fill_counts(&tally, result);
    search_fill_top(search, &best, result);
    fill_tight(search, &tight, result);
    result->proved_optimal = tally_is_complete(&tally);
    result->lower_bound_s = least_s;
    if (result->num_top == 0 && result->proved_optimal && !search->request->without_hints)
        search_fill_nearest(search, &tally, result);
    return true;
}
