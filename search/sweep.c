/* A walk that keeps the plans which no other plan dominates in time and memory. A family is a set
 * of plans that differ only in recompute and ZeRO; a site is a set of families with equal degrees
 * and microbatch, in all rank orders. A floor is a lower bound of step times. */
#include "search/sweep.h"

#include "base/parallel.h"
#include "search/families.h"
#include "search/parts.h"
#include "search/room.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROUND = 4, LONGEST_ROUND = 128 };

struct plans {
    struct ranked_plan *at;
    size_t count;
};

struct worker {
    struct evaluator *evaluator;
    struct tally tally;
    struct plans kept;
};

struct run {
    const struct sweep *sweep;
    struct worker *workers;
    int jobs;
    struct families *found; /* [worker] */
    /* families of all workers, sorted by rising floor; each stands for all rank orders of its
     * site */
    struct families families;
    size_t next; /* families before this index were examined */
};

static const struct space *space_of(const struct run *run)
{
    return run->sweep->search->space;
}

static struct worker *start_worker(struct run *run, int id)
{
    struct worker *worker = &run->workers[id];
    const struct search *search = run->sweep->search;
    struct evaluator **evaluator = &run->sweep->evaluators[id];
    if (worker->evaluator)
        return worker;
    if (*evaluator)
        evaluator_turn_to(*evaluator, search->system);
    else
        *evaluator = evaluator_new(search->system, search->space->model);
    worker->evaluator = *evaluator;
    return worker;
}

static bool must_stop(const struct run *run, struct worker *worker)
{
    const struct search *search = run->sweep->search;
    return tally_must_stop(&worker->tally, search->request, search->start_s);
}

/* --- families ----------------------------------------------------------------------------- */

/* The site or family that a worker is examining. */
struct look {
    const struct run *run;
    struct worker *worker;
    struct families *found; /* list of the worker that examines it */
    size_t site;
    int at[MAX_RANK_ORDERS][MAX_AXES];
    struct rank_orders orders; /* points into `at` */
    double family_floor_s;     /* lower bound of all plans' times */
    struct block_floors floors;
    double least_bytes[NUM_MTP_PLACES]; /* lower bound of all plans' memory, by mtp_place */
    int recompute;                      /* recompute for which floor_s was computed */
    double floor_s;
};

static void look_begin(struct look *look, struct run *run, struct worker *worker, size_t site)
{
    look->run = run;
    look->worker = worker;
    look->found = &run->found[worker - run->workers];
    look->site = site;
    look->orders =
        (struct rank_orders){ look->at, space_site_orders(space_of(run), site, look->at) };
    look->recompute = -1;
    look->floors = (struct block_floors){ 0 };
}

/* Whether the plans of `families` families, in all rank orders, do not fit or are beaten by known
 * plans. If so, the plans are counted, including plans that break a rule. */
static bool are_out(struct look *look, double least_bytes, double floor_s, int families)
{
    const struct sweep *sweep = look->run->sweep;
    struct tally *tally = &look->worker->tally;
    double plans = families * space_family_size(space_of(look->run)) * look->orders.count;
    if (least_bytes > sweep->search->system->gpu.memory_bytes) {
        tally->over_memory += plans;
        return true;
    }
    if (!stairs_beat(sweep->stairs, least_bytes, floor_s))
        return false;
    tally->bounded += plans;
    return true;
}

static bool list_family(void *context, const struct plan *first)
{
    struct look *look = context;
    double floor_s = evaluate_unplaced_work_floor_s(look->worker->evaluator, first, &look->orders);
    double least_bytes = look->least_bytes[first->mtp_place];
    if (!are_out(look, least_bytes, floor_s, 1))
        families_add(look->found,
                     (struct family){ .block = look->site,
                                      .split = space_split_of(space_of(look->run), first),
                                      .floor_s = floor_s,
                                      .least_bytes = least_bytes });
    return true;
}

static void exclude(void *context, const struct plan_rule *rule, double count)
{
    struct look *look = context;
    tally_broken(&look->worker->tally, rule, count * look->orders.count);
}

/* Whether no plan of the site is needed. The bound that depends on the rank orders is computed
 * last, as it needs the costs of the pieces (layers, embedding, head) in every order. */
static bool site_is_out(struct look *look, const struct plan *first, int families)
{
    struct evaluator *evaluator = look->worker->evaluator;
    double least_bytes =
        space_least_floor_bytes(space_of(look->run), evaluator, first, look->least_bytes);
    return are_out(look, least_bytes, 0, families) ||
           (look->orders.count > 1 &&
            are_out(look, least_bytes, evaluate_compute_floor_s(evaluator, first), families)) ||
           are_out(look, least_bytes, evaluate_block_floor_s(evaluator, first, &look->orders),
                   families);
}

static void list_site(void *context, size_t site, int id)
{
    struct run *run = context;
    struct look look;
    struct worker *worker = start_worker(run, id);
    struct plan first;
    if (must_stop(run, worker))
        return;
    look_begin(&look, run, worker, site);
    if (look.orders.count == 0)
        return;
    struct visitor visitor = { list_family, exclude, &look };
    int families = space_begin_block(space_of(run), site, &visitor, &first);
    if (families > 0 && !site_is_out(&look, &first, families))
        space_walk_begun(space_of(run), site, &first, &visitor);
}

static void list_families(struct run *run, struct arena *arena)
{
    enum { AT_ONCE = 16 }; /* most sites are empty */
    run->found = ARENA_ARRAY(arena, struct families, (size_t)run->jobs);
    parallel_for(run->jobs, space_num_sites(space_of(run)), AT_ONCE, list_site, run);
    run->families = families_join(run->found, run->jobs, arena);
}

/* --- one family --------------------------------------------------------------------------- */

static void keep_plan(struct plans *kept, const struct ranked_plan *plan)
{
    kept->at = arena_extend(kept->at, kept->count, sizeof *kept->at);
    kept->at[kept->count++] = *plan;
}

static void examine_placed(struct look *look, const struct plan *plan)
{
    const struct sweep *sweep = look->run->sweep;
    struct evaluator *evaluator = look->worker->evaluator;
    struct tally *tally = &look->worker->tally;
    struct ranked_plan ranked = { .plan = *plan };
    double memory_bytes = sweep->search->system->gpu.memory_bytes;
    ranked.peak_memory_bytes =
        space_peak_bytes(space_of(look->run), evaluator, memory_bytes, &ranked.plan);
    if (ranked.peak_memory_bytes > memory_bytes) {
        tally->over_memory++;
    } else if (stairs_beat(sweep->stairs, ranked.peak_memory_bytes,
                           evaluate_bound_s(evaluator, plan))) {
        tally->bounded++;
    } else {
        ranked.step_s = evaluate_step_s(evaluator, &ranked.plan);
        tally_evaluated(tally, &ranked);
        keep_plan(&look->worker->kept, &ranked);
    }
}

static void find_exact_floor(struct look *look, const struct plan *first, double rough_s)
{
    look->family_floor_s =
        fmax(rough_s, evaluate_unplaced_floor_s(look->worker->evaluator, first, &look->orders));
}

/* Whether known plans beat all plans of the family that need at least these bytes. */
static bool family_is_beaten(const struct look *look, double least_bytes)
{
    return stairs_beat(look->run->sweep->stairs, least_bytes, look->family_floor_s);
}

/* Whether known plans beat this one in all its rank orders. */
static bool is_beaten(struct look *look, const struct plan *plan, double least_bytes)
{
    if (family_is_beaten(look, least_bytes))
        return true;
    if (plan->recompute != look->recompute)
        look->floor_s = evaluate_unplaced_floor_s(look->worker->evaluator, plan, &look->orders);
    look->recompute = plan->recompute;
    return stairs_beat(look->run->sweep->stairs, least_bytes, look->floor_s);
}

/* Whether no rank order of the plan is needed, as it does not fit or known plans beat it. Rough
 * bounds of its memory come first, as they take less time and often suffice. */
static bool is_excluded(struct look *look, const struct plan *plan)
{
    const struct space *space = space_of(look->run);
    struct evaluator *evaluator = look->worker->evaluator;
    struct tally *tally = &look->worker->tally;
    double memory_bytes = look->run->sweep->search->system->gpu.memory_bytes;
    double least_bytes = space_floor_bytes(&look->floors, evaluator, plan);
    bool is_out = least_bytes <= memory_bytes && family_is_beaten(look, least_bytes);
    if (least_bytes <= memory_bytes && !is_out && !parts_are_open(space, plan)) {
        least_bytes = evaluate_first_stage_bytes(evaluator, plan);
        is_out = least_bytes <= memory_bytes && family_is_beaten(look, least_bytes);
    }
    if (least_bytes <= memory_bytes && !is_out) {
        least_bytes = space_least_bytes(space, evaluator, plan);
        is_out = least_bytes <= memory_bytes && is_beaten(look, plan, least_bytes);
    }
    if (least_bytes > memory_bytes)
        tally->over_memory += look->orders.count;
    else if (is_out)
        tally->bounded += look->orders.count;
    return is_out || least_bytes > memory_bytes;
}

static bool examine_plan(void *context, const struct plan *plan)
{
    struct look *look = context;
    if (is_excluded(look, plan))
        return true;
    struct plan placed = *plan;
    for (int i = 0; i < look->orders.count; i++) {
        memcpy(placed.order, look->orders.at[i], sizeof placed.order);
        examine_placed(look, &placed);
    }
    return true;
}

static void examine_family(void *context, size_t index, int id)
{
    struct run *run = context;
    const struct family *family = &run->families.at[run->next + index];
    struct worker *worker = start_worker(run, id);
    struct look look;
    struct plan first;
    if (must_stop(run, worker))
        return;
    look_begin(&look, run, worker, family->block);
    if (are_out(&look, family->least_bytes, family->floor_s, 1))
        return;
    space_family(space_of(run), family->block, family->split, &first);
    find_exact_floor(&look, &first, family->floor_s);
    if (are_out(&look, family->least_bytes, look.family_floor_s, 1))
        return;
    space_walk_family(space_of(run), &first, &(struct visitor){ examine_plan, exclude, &look });
}

/* --- rounds ------------------------------------------------------------------------------- */

static bool is_stopped(const struct run *run)
{
    for (int i = 0; i < run->jobs; i++)
        if (!tally_is_complete(&run->workers[i].tally))
            return true;
    return false;
}

static void close_round(struct run *run)
{
    const struct sweep *sweep = run->sweep;
    for (int i = 0; i < run->jobs; i++) {
        struct plans *kept = &run->workers[i].kept;
        for (size_t j = 0; j < kept->count; j++) {
            stairs_add(sweep->stairs, kept->at[j].peak_memory_bytes, kept->at[j].step_s);
            sweep->keep(sweep->context, &kept->at[j]);
        }
        kept->count = 0;
    }
}

static void run_rounds(struct run *run)
{
    size_t length = FIRST_ROUND;
    while (run->next < run->families.count && !is_stopped(run)) {
        size_t left = run->families.count - run->next;
        length = length < left ? length : left;
        parallel_for(run->jobs, length, 1, examine_family, run);
        close_round(run);
        run->next += length;
        length = 2 * length < LONGEST_ROUND ? 2 * length : LONGEST_ROUND;
    }
}

struct tally sweep_run(const struct sweep *sweep, struct arena *arena)
{
    struct run run = { .sweep = sweep, .jobs = walk_jobs(sweep->search->request) };
    run.workers = ARENA_ARRAY(arena, struct worker, (size_t)run.jobs);
    for (int i = 0; i < run.jobs; i++)
        run.workers[i].tally = tally_new(arena);
    list_families(&run, arena);
    run_rounds(&run);
    struct tally sum = tally_new(arena);
    for (int i = 0; i < run.jobs; i++) {
        tally_add(&sum, &run.workers[i].tally);
        free(run.workers[i].kept.at);
    }
    return sum;
}
