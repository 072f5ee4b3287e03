/* Searches one point of the lattice, that is a plan whose division of layers over stages is open:
 * integer programming finds its best divisions, which are then timed. */
#include "base/clock.h"
#include "models/blocks.h"
#include "search/milp/milp.h"
#include "search/uneven/fronts.h"
#include "search/uneven/joint.h"

#include <math.h>
#include <string.h>

/* The limit of one solve. It limits nodes, so that every machine gives the same answer; time is
 * limited only if the search has a time limit. */
static const int most_nodes = 2000;

/* --- choices ---------------------------------------------------------------------------------- */

struct collector {
    const struct divided_point *point;
    int first;               /* first layer, as in struct stage_choice */
    struct stage_choice *at; /* choices of the current stage */
    int count;
};

/* Whether recomputing more layers than memory requires can help. It helps only if stages must
 * be equal: more recompute can make a stage equal to another one. */
static bool wants_more_recompute(const struct divided_point *point)
{
    const struct search_request *request = point->search->request;
    return point->plan->recompute == RECOMPUTE_BLOCK &&
           (request->same_recompute || request->stage_types > 0);
}

/* Adds a choice of a stage, from the table for schedules other than 1F1B. */
static void keep_dealt(struct collector *collector, const struct stage_table *table, int stage,
                       const struct stage_option *option)
{
    double lag_s = stage == table->num_stages - 1 ? 0 : table->lag_s;
    collector->at[collector->count++] = (struct stage_choice){
        .layers = option->layers,
        .first = ANY_FIRST,
        .pass_s = stage_pass_s(option),
        .weights_s = option->weights_s,
        .ahead_s = option->forward_s + lag_s,
        .way_s = option->forward_s + option->backward_s + 2 * lag_s,
    };
}

static void keep(struct collector *collector, const struct stage_share *share, double pass_s)
{
    const struct divided_point *point = collector->point;
    struct stage_choice *choice = &collector->at[collector->count++];
    int of_kind[MAX_BLOCK_KINDS];
    model_count_kinds(point->search->space->model, share->first_layer, share->layers, of_kind);
    *choice = (struct stage_choice){
        .layers = share->layers,
        .recomputed = share->recomputed,
        .first = collector->first,
        .pass_s = pass_s,
        .host_bytes = joint_host_bytes(point->search, point->plan, share->stage, of_kind),
    };
    if (collector->first != ANY_FIRST)
        memcpy(choice->of_kind, of_kind, sizeof of_kind);
}

static void keep_more_recomputed(struct collector *collector, struct stage_share share)
{
    const struct divided_point *point = collector->point;
    double microbatches = point->expansion.table->num_microbatches;
    while (++share.recomputed <= share.layers) {
        struct stage_score score = evaluate_stage(point->evaluator, point->plan, &share);
        double pass_s = score.forward_s + score.backward_s;
        if (score.memory_bytes <= point->search->system->gpu.memory_bytes &&
            microbatches * pass_s < point->expansion.limit_s)
            keep(collector, &share, pass_s);
    }
}

static void keep_options(struct collector *collector, int stage, int first)
{
    const struct divided_point *point = collector->point;
    const struct stage_table *table = point->expansion.table;
    const struct stage_option *options = stage_options(table, stage, first);
    collector->first = table->num_firsts > 1 ? first : ANY_FIRST;
    for (int i = 0; i <= table->most_layers; i++) {
        struct stage_share share = { stage, options[i].layers, options[i].recomputed, first };
        if (!options[i].fits)
            continue;
        if (table->in_any_order) {
            keep_dealt(collector, table, stage, &options[i]);
            continue;
        }
        keep(collector, &share, stage_pass_s(&options[i]));
        if (wants_more_recompute(point))
            keep_more_recomputed(collector, share);
    }
}

static struct stage_choices choices_of(const struct divided_point *point, int stage,
                                       struct arena *arena)
{
    const struct stage_table *table = point->expansion.table;
    size_t most = (size_t)table->most_layers;
    size_t room = wants_more_recompute(point) ? (most + 1) * (most + 2) / 2 : most + 1;
    struct collector collector = {
        .point = point,
        .at = ARENA_ARRAY(arena, struct stage_choice, (size_t)table->num_firsts * room),
    };
    for (int first = 0; first < table->num_firsts; first++)
        keep_options(&collector, stage, first);
    return (struct stage_choices){ collector.at, collector.count };
}

struct division_problem milp_problem(const struct divided_point *point, struct arena *arena)
{
    const struct stage_table *table = point->expansion.table;
    const struct search_request *request = point->search->request;
    struct stage_choices *stages =
        ARENA_ARRAY(arena, struct stage_choices, (size_t)table->num_stages);
    for (int stage = 0; stage < table->num_stages; stage++)
        stages[stage] = choices_of(point, stage, arena);
    struct division_problem problem = {
        .stages = stages,
        .num_stages = table->num_stages,
        .num_layers = table->num_layers,
        .num_microbatches = table->num_microbatches,
        .in_any_order = table->in_any_order,
        .most_types = request->stage_types,
        .same_recompute = request->same_recompute,
        .host_bytes = HUGE_VAL,
    };
    if (request->host_memory_bytes > 0 && point->plan->offloads != 0) {
        struct host_nodes nodes = joint_nodes(point->search, point->plan, arena);
        problem.host_bytes = request->host_memory_bytes;
        problem.nodes = nodes.at;
        problem.num_nodes = nodes.count;
    }
    return problem;
}

/* --- divisions -------------------------------------------------------------------------------- */

/* The limit of nodes and, if the search has a time limit, the time that is left. */
static struct program_limits limits_of(const struct search *search)
{
    struct program_limits limits = { .nodes = most_nodes };
    double limit_s = search->request->time_limit_s;
    if (limit_s > 0)
        limits.time_s = fmax(1e-3, limit_s - (clock_now_s() - search->start_s));
    return limits;
}

static void time_divisions(const struct divided_point *point,
                           const struct division_problem *problem, const struct divisions *found,
                           struct arena *arena, struct expansion *out)
{
    const struct expansion_request *request = &point->expansion;
    double least_s = request->limit_s * (1 - proof_tolerance);
    for (int i = 0; i < found->count; i++) {
        if (request->must_stop(request->context))
            return;
        int *layers = ARENA_ARRAY(arena, int, (size_t)problem->num_stages);
        int *recomputed = ARENA_ARRAY(arena, int, (size_t)problem->num_stages);
        for (int stage = 0; stage < problem->num_stages; stage++) {
            const struct stage_choice *choice =
                &problem->stages[stage].at[found->at[i].choice[stage]];
            layers[stage] = choice->layers;
            recomputed[stage] = choice->recomputed;
        }
        double step_s = request->time_s(request->context, layers, recomputed);
        out->timed++;
        if (step_s >= least_s)
            continue;
        least_s = step_s * (1 - proof_tolerance);
        out->found = true;
        out->step_s = step_s;
        out->layers = layers;
        out->recomputed = recomputed;
    }
}

/* A lower bound of the step times of all divisions; at most the limit. */
static double least_bound_s(const struct divided_point *point, double limit_s, struct arena *arena)
{
    const struct stage_table *table = point->expansion.table;
    int *layers = ARENA_ARRAY(arena, int, (size_t)table->num_stages);
    struct fronts fronts = fronts_new(table, table_bound(table), limit_s, arena);
    return fmin(fronts_best_s(&fronts, layers), limit_s);
}

/* A lower bound that reaches this value proves that no division is faster than one that takes
 * step_s. */
static double cut_s(double step_s)
{
    return step_s * (1 - proof_tolerance);
}

/* A lower bound of the step time with any division that was not found: the objective of the last
 * division that was found (its surrogate), plus the optimizer and the once-per-step time. 0 if the
 * surrogate is no bound. */
static double rest_bound_s(const struct stage_table *table, const struct divisions *found)
{
    if (!table->in_any_order || table->validates || !found->is_proved || found->count == 0)
        return 0;
    return found->at[found->count - 1].surrogate_s + table->longest_optimizer_s + table->step_s;
}

static void settle(const struct divided_point *point, const struct divisions *found,
                   struct arena *arena, struct expansion *out)
{
    double known_s = out->found ? out->step_s : point->expansion.limit_s;
    bool all_were_timed =
        found->is_proved && found->count < MILP_TIMED && out->timed == found->count;
    out->open_s = all_were_timed ? known_s
                                 : fmax(least_bound_s(point, known_s, arena),
                                        fmin(rest_bound_s(point->expansion.table, found), known_s));
    out->is_proved = out->open_s >= cut_s(known_s);
}

static bool no_division_holds(const struct divided_point *point)
{
    double limit_bytes = point->search->request->host_memory_bytes;
    return limit_bytes > 0 && joint_mean_host_bytes(point->search, point->plan) > limit_bytes;
}

/* If the request has a limit of the step time, the bound is computed first, as most points have no
 * division below the limit. */
static struct expansion divide(const struct divided_point *point, struct arena *arena,
                               struct err *err)
{
    const struct expansion_request *request = &point->expansion;
    struct expansion out = { .open_s = 0 };
    if (no_division_holds(point))
        return (struct expansion){ .open_s = request->limit_s, .is_proved = true };
    if (request->limit_s < HUGE_VAL)
        out.open_s = least_bound_s(point, request->limit_s, arena);
    out.is_proved = request->limit_s < HUGE_VAL && out.open_s >= cut_s(request->limit_s);
    if (out.is_proved || request->must_stop(request->context))
        return out;
    struct division_problem problem = milp_problem(point, arena);
    struct program_limits limits = limits_of(point->search);
    struct divisions found;
    if (!divisions_best(&problem, MILP_TIMED, &limits, arena, &found, err))
        return out;
    if (found.timed_out)
        request->must_stop(request->context); /* records that the search must stop */
    time_divisions(point, &problem, &found, arena, &out);
    settle(point, &found, arena, &out);
    return out;
}

/* --- even plans ------------------------------------------------------------------------------- */

/* For each worker, the best of the plans that joint_holds accepts. */
struct even {
    const struct search *search;
    struct frontier *of_worker;
};

static void keep_even(void *context, int worker, const struct ranked_plan *plan)
{
    struct even *even = context;
    if (joint_holds(even->search, &plan->plan))
        frontier_offer(&even->of_worker[worker], plan);
}

/* If limits on host memory or on stage types may exclude plans, every even plan is examined. */
static struct tally even_best(const struct search *search, struct arena *arena,
                              struct frontier *best, double *least_s)
{
    const struct search_request *request = search->request;
    if (request->host_memory_bytes <= 0 && request->stage_types == 0)
        return bnb_best(search, arena, best, least_s);
    int jobs = walk_jobs(request);
    struct even even = { search, ARENA_ARRAY(arena, struct frontier, (size_t)jobs) };
    for (int i = 0; i < jobs; i++)
        even.of_worker[i] = frontier_new(request->objective, request->top, arena);
    struct walk walk = { .request = request,
                         .system = search->system,
                         .space = search->space,
                         .start_s = search->start_s,
                         .fits = keep_even,
                         .context = &even };
    struct tally tally = walk_run(&walk, arena);
    *best = even.of_worker[0];
    for (int i = 1; i < jobs; i++)
        for (int j = 0; j < even.of_worker[i].count; j++)
            frontier_offer(best, &even.of_worker[i].at[j]);
    frontier_sort(best);
    *least_s = !tally_is_complete(&tally) ? 0 : best->count > 0 ? best->at[0].step_s : HUGE_VAL;
    tally.fastest_s = best->count > 0 ? best->at[0].step_s : HUGE_VAL;
    return tally;
}

const struct uneven_way uneven_by_milp = { divide, even_best };
