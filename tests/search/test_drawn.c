/* Compares predictions and searches of random questions (random_question.h) with those in
 * tests/golden/drawn.txt, one line each.
 *
 * The values "parts" and "bytes" are sums over several times or sizes, weighted by 1, 2, 3 ...,
 * so that swapping two of them changes the sum. Numbers must agree to 1e-9. When answers are
 * meant to change,
 *
 * SIMSEARCH_GOLDEN=write make T=drawn test
 *
 * writes all of them again: read the difference, and commit it with the reason. */
#include "tests/search/random_question.h"

#include "models/blocks.h"
#include "search/certificate.h"
#include "search/orders.h"
#include "search/partition/layer.h"
#include "search/questions/deadline.h"
#include "search/questions/depth.h"
#include "search/questions/design.h"
#include "search/questions/nearby.h"
#include "search/questions/pareto.h"
#include "search/questions/region.h"
#include "search/questions/relax.h"
#include "search/questions/wider.h"
#include "search/robust.h"
#include "search/splits.h"
#include "search/time_to_accuracy.h"
#include "search/trial.h"
#include "sim/cost/piece.h"
#include "sim/engine/event_step.h"
#include "sim/plan/local.h"
#include "tests/check_ok.h"
#include "tests/draw.h"
#include "tests/kept.h"
#include "tests/search/searching.h"

#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

enum {
    FIRST_SEED = 70000,
    PLANNED = 80,
    SEARCHED = 80,
    INTERRUPTED = 40,
    OTHERS = 16,
    INFEASIBLE = 24,
    WALKS = 9,
    WIDE = 240,
    FIRST_WIDE = PLANNED + SEARCHED + INTERRUPTED + OTHERS + INFEASIBLE + WALKS,
    QUESTIONS = FIRST_WIDE + WIDE,
    PLANS = 4
};

static struct question question;
static struct text answers;

/* --- predictions ------------------------------------------------------------------------------ */

static double weighted_parts_s(const struct prediction *prediction)
{
    double sum_s = 0;
    for (int i = 0; i < num_time_parts; i++)
        sum_s += (i + 1) * time_part_s(&prediction->time, i);
    return sum_s;
}

static double weighted_bytes(const struct prediction *prediction)
{
    double sum = 0;
    for (int stage = 0; stage < prediction->num_stages; stage++) {
        const struct stage_memory *of = &prediction->stages[stage];
        double parts[] = { of->weights_bytes,     of->gradients_bytes, of->optimizer_bytes,
                           of->step_bytes,        of->logits_bytes,    of->recompute_bytes,
                           of->activations_bytes, of->buckets_bytes,   of->library_bytes,
                           of->slack_bytes,       of->network_bytes,   of->context_bytes };
        for (int i = 0; i < (int)LENGTH(parts); i++)
            sum += (stage + 1) * (i + 1) * parts[i];
    }
    return sum;
}

static double weighted_idle_s(struct evaluator *evaluator, const struct plan *plan)
{
    double *idle_s = ARENA_ARRAY(&question.arena, double, (size_t)plan->pp), sum_s = 0;
    evaluate_idle(evaluator, plan, idle_s);
    for (int stage = 0; stage < plan->pp; stage++)
        sum_s += (stage + 1) * idle_s[stage];
    return sum_s;
}

static void add_bounds(struct evaluator *evaluator, const struct plan *plan)
{
    struct rank_orders orders = orders_new(plan, true, &question.arena);
    struct err err = { 0 };
    struct event_step step;
    text_add(&answers, " bound=%.10g floor=%.10g", evaluate_bound_s(evaluator, plan),
             evaluate_floor_s(evaluator, plan));
    text_add(&answers, " work=%.10g any=%.10g", evaluate_work_floor_s(evaluator, plan),
             evaluate_unplaced_floor_s(evaluator, plan, &orders));
    text_add(&answers, " bytes=%.10g,%.10g,%.10g,%.10g", evaluate_unplaced_bytes(evaluator, plan),
             evaluate_state_floor_bytes(evaluator, plan),
             evaluate_first_stage_bytes(evaluator, plan),
             evaluate_least_grouped_bytes(evaluator, plan));
    check_ok(event_step_run(evaluator, &question.model, plan, &question.arena, &step, &err), &err);
    text_add(&answers, " events=%.10g", step.step_s);
}

/* Mixes numbers into a digest (FNV-1a). */
static void mix(uint32_t *digest, const struct ids *ids)
{
    for (int i = 0; i < ids->count; i++)
        *digest = (*digest ^ (uint32_t)(ids->at[i] + 2)) * 16777619u;
    *digest = (*digest ^ 1u) * 16777619u;
}

static double weighted_sizes(const struct ops *list)
{
    double sizes = 0;
    for (int i = 0; i < list->count; i++) {
        const struct op *op = &list->at[i];
        sizes += (i + 1) * (op->flops + 2 * op->model_flops + 3 * op->bytes + 4 * op->comm_bytes +
                            5 * op->sum_bytes + 6 * op->kept_bytes + 7 * op->kernels + 8 * op->m +
                            9 * op->n + 10 * op->k);
    }
    return sizes;
}

/* Writes a hash of the ops in an op list (sequence of operations) and of the values that each op
 * reads, computes and keeps; then the sum of the ops' sizes, each weighted by its position. */
static void add_list(const char *name, const struct ops *list)
{
    uint32_t digest = 2166136261u;
    for (int i = 0; i < list->count; i++) {
        const struct op *op = &list->at[i];
        struct ids place = { 3, { (short)op->pass, (short)op->stream, (short)op->after } };
        for (const char *at = op->name; *at; at++)
            digest = (digest ^ (unsigned char)*at) * 16777619u;
        mix(&digest, &place);
        mix(&digest, &op->in);
        mix(&digest, &op->out);
        mix(&digest, &op->weights);
        mix(&digest, &op->saved);
    }
    text_add(&answers, " %s=", name);
    for (int i = 0; i < 7; i++)
        text_add(&answers, "%c", 'a' + (int)(digest / (1u << (4 * i)) % 16));
    text_add(&answers, " of %.10g", weighted_sizes(list));
}

static void add_lists(const struct plan *plan)
{
    struct layer_options options = plan_layer_options(plan, &question.system);
    struct rank_share share = rank_share_of(plan);
    bool overlaps = plan_overlaps(plan, &question.system.stack, OVERLAP_TP);
    struct arena *arena = &question.arena;
    double seq = question.model.seq;
    struct model last = model_of_kind(&question.model, model_num_kinds(&question.model) - 1);
    struct local_ops layer = local_layer(share, &last, seq, &options, overlaps, arena);
    struct local_ops embedding =
        local_embedding(share, &question.model, seq, &options, overlaps, arena);
    struct local_ops head = local_head(share, &question.model, seq, &options, overlaps, arena);
    text_add(&answers, "\n   ");
    add_list("forward", &layer.forward);
    add_list("backward", &layer.backward);
    add_list("embedding", &embedding.forward);
    add_list("its backward", &embedding.backward);
    add_list("head", &head.forward);
    add_list("its backward", &head.backward);
}

static double mixed(const struct partition_score *score)
{
    return isfinite(score->cost) ? score->cost + 2 * score->comm + 3 * score->units : 0;
}

/* Writes the costs of the layer's operators, with every sharding, and the best partition. */
static void add_partition(const struct plan *plan)
{
    struct layer_partition of = { &question.system, &question.model, plan };
    struct partition_problem problem = layer_partition_problem(&of, &question.arena);
    double own = 0, bytes = 0, between = 0;
    struct partition best;
    for (int i = 0; i < problem.num_operators; i++)
        for (int s = 0; s < NUM_SHARDINGS; s++)
            if (partition_allows(&problem, i, (enum sharding)s)) {
                own += (i + 1) * (s + 1) * mixed(&problem.operators[i].score[s]);
                bytes += (i + 1) * (s + 1) * problem.operators[i].score[s].bytes;
            }
    for (int e = 0; e < problem.num_edges; e++)
        for (int s = 0; s < NUM_SHARDINGS; s++)
            for (int t = 0; t < NUM_SHARDINGS; t++)
                if (partition_allows(&problem, problem.edges[e].from, (enum sharding)s) &&
                    partition_allows(&problem, problem.edges[e].to, (enum sharding)t))
                    between += (e + 1) * (s + 2 * t + 1) * mixed(&problem.edges[e].score[s][t]);
    text_add(&answers, "\n    partition: own=%.10g bytes=%.10g between=%.10g budget=%.10g", own,
             bytes, between, problem.budget_bytes);
    if (!partition_by_dynamic(&problem, &best))
        return;
    text_add(&answers, " best=%.10g,%.10g ", best.total.cost, best.total.bytes);
    for (int i = 0; i < problem.num_operators; i++)
        text_add(&answers, "%c", "abcdefghij"[best.of[i]]);
}

/* Sums the sizes of all ops in the op lists of one layer of each kind. */
static double sum_of_sizes(struct rank_share share, const struct layer_options *options,
                           bool overlaps)
{
    double sum = 0;
    for (int kind = 0; kind < model_num_kinds(&question.model); kind++) {
        struct model of = model_of_kind(&question.model, kind);
        struct local_ops layer =
            local_layer(share, &of, of.seq, options, overlaps, &question.arena);
        sum += (kind + 1) * (weighted_sizes(&layer.forward) + 2 * weighted_sizes(&layer.backward));
    }
    return sum;
}

/* Writes less of a plan than add_plan: sums of its times, bytes, bounds and sizes of ops. */
static void add_wide_plan(struct evaluator *evaluator, const struct plan *plan)
{
    struct prediction got = evaluate(evaluator, plan);
    struct layer_options options = plan_layer_options(plan, &question.system);
    struct rank_share share = rank_share_of(plan);
    bool overlaps = plan_overlaps(plan, &question.system.stack, OVERLAP_TP);
    struct event_step step;
    struct err err = { 0 };
    text_add(&answers, "  %s: step=%.10g parts=%.10g bytes=%.10g idle=%.10g",
             question_layout(&question, plan), got.step_s,
             weighted_parts_s(&got) + got.step_low_s + 2 * got.mfu, weighted_bytes(&got),
             weighted_idle_s(evaluator, plan));
    check_ok(event_step_run(evaluator, &question.model, plan, &question.arena, &step, &err), &err);
    text_add(&answers, " bounds=%.10g events=%.10g ops=%.10g\n",
             evaluate_bound_s(evaluator, plan) + 2 * evaluate_floor_s(evaluator, plan) +
                 3 * evaluate_work_floor_s(evaluator, plan),
             step.step_s, sum_of_sizes(share, &options, overlaps));
}

static void add_plan(struct evaluator *evaluator, const struct plan *plan)
{
    struct prediction got = evaluate(evaluator, plan);
    text_add(&answers, "  %s:", question_layout(&question, plan));
    text_add(&answers, " step=%.10g low=%.10g mfu=%.10g hfu=%.10g", got.step_s, got.step_low_s,
             got.mfu, got.hfu);
    text_add(&answers, " parts=%.10g peak=%.10g high=%.10g oom=%.10g", weighted_parts_s(&got),
             got.peak_memory_bytes, got.memory_high_bytes, got.p_oom > 1e-9 ? got.p_oom : 0);
    text_add(&answers, " bytes=%.10g idle=%.10g", weighted_bytes(&got),
             weighted_idle_s(evaluator, plan));
    add_bounds(evaluator, plan);
    add_lists(plan);
    if (plan->tp > 1 && question.model.experts == 0)
        add_partition(plan);
    text_add(&answers, "\n");
}

/* If the model has experts, sets a random number of expert ranks up to 8 that breaks no rule.
 */
static void add_expert_ranks(struct plan *plan)
{
    struct err err = { 0 };
    for (int ep = 8; ep > 1 && question.model.experts > 0; ep /= 2) {
        struct plan with = *plan;
        with.ep = ep;
        if (plan_check(&with, &question.model, question.model.batch, question.system.num_gpus,
                       &err) == NULL &&
            random_below(&question.rng, 2)) {
            *plan = with;
            return;
        }
    }
}

static void add_plans(bool are_wide)
{
    struct evaluator *evaluator = evaluator_new(&question.system, &question.model);
    for (int i = 0; i < PLANS; i++) {
        struct plan plan;
        if (!(are_wide ? question_plan_wide : question_plan)(&question, &plan))
            continue;
        if (!are_wide)
            add_expert_ranks(&plan);
        (are_wide ? add_wide_plan : add_plan)(evaluator, &plan);
    }
    evaluator_free(evaluator);
}

/* --- searches --------------------------------------------------------------------------------- */

static const char *const methods[] = { "bnb",  "bnb", "bnb", "exhaustive", "dp",
                                       "milp", "zo",  "rl",  "random" };

static bool one_in(int many)
{
    return random_below(&question.rng, many) == 0;
}

static struct search_request request_by(const char *method)
{
    struct search_request request = question_request(&question);
    request.method = method;
    request.budget = search_method_find(method)->is_drawn ? 200 : 0;
    request.top = PICK(&question.rng, 1, 2, 3);
    bool divides = search_method_divides(search_method_find(method));
    request.uneven = divides && one_in(3) && question.model.layers <= 8;
    request.recompute_mixes = divides && one_in(4) && question.model.layers <= 8;
    request.recompute_modules = one_in(6);
    if (divides && (request.uneven || request.recompute_mixes || strcmp(method, "bnb") != 0))
        request.objective = OBJECTIVE_TIME;
    request.oom_risk = one_in(2) ? 0.05 : 0;
    request.max_memory_bytes = one_in(3) ? between(&question.rng, 1e9, 8e9) : 0;
    request.placement = one_in(4) && question.system.num_gpus <= 8;
    request.chunks = PICK(&question.rng, CHUNKS_MEGATRON, CHUNKS_EVEN);
    if (search_method_joins(search_method_find(method))) {
        request.stage_types = PICK(&question.rng, 0, 1, 2);
        request.same_recompute = one_in(3);
        request.host_memory_bytes = one_in(2) ? between(&question.rng, 1e9, 1e11) : 0;
    }
    return request;
}

static void add_scored(const char *name, const struct scored_plan *scored)
{
    text_add(&answers, "\n  %s %s: step=%.10g peak=%.10g", name,
             question_layout(&question, &scored->plan), scored->prediction.step_s,
             scored->prediction.peak_memory_bytes);
}

static void add_result(const struct search_result *got)
{
    text_add(&answers, " candidates=%.10g evaluated=%.10g bounded=%.10g infeasible=%.10g",
             got->candidates, got->evaluated, got->bounded, got->infeasible);
    text_add(&answers, " least=%.10g planned=%.10g gpus=%d proved=%d", got->lower_bound_s,
             got->planned_bytes, got->fewest_gpus, got->proved_optimal);
    for (int i = 0; i < got->num_exclusions; i++)
        text_add(&answers, " %s=%.10g", got->exclusions[i].rule, got->exclusions[i].count);
    for (int i = 0; i < got->num_top; i++)
        add_scored("best", &got->top[i]);
    if (got->tight)
        add_scored("tight", got->tight);
    if (got->even_best)
        add_scored("even", got->even_best);
    if (got->has_nearest)
        add_scored("nearest", &got->nearest);
    if (got->fewest_gpus > 0)
        add_scored("on the fewest GPUs", &got->fewest);
}

static void add_relaxations(const struct search_request *request, const struct search_result *got)
{
    struct relaxations relaxations;
    search_relax(request, got, &relaxations);
    for (int i = 0; i < relaxations.count; i++) {
        const struct relaxation *of = &relaxations.at[i];
        add_scored(relaxed_names[of->what], &of->best);
        text_add(&answers, " from=%.10g to=%.10g without='%s'", of->from, of->to, of->word);
    }
    relaxations_release(&relaxations);
}

static void add_standing(const struct search_request *request, const struct search_result *got)
{
    struct plan plan;
    struct standing standing;
    struct err err = { 0 };
    if (!question_plan(&question, &plan))
        return;
    check_ok(search_standing(request, got, &plan, &question.arena, &standing, &err), &err);
    add_scored("a drawn plan", &standing.plan);
    text_add(&answers, " is %.10g of %.10g, loses %.10g", standing.rank, standing.of,
             standing.lost_share);
}

static void add_wider(const struct search_request *request, const struct search_result *got)
{
    struct wider wider[MOST_WIDER];
    int count = search_wider(request, &got->top[0], &question.arena, wider);
    for (int i = 0; i < count; i++) {
        add_scored(wider[i].option, &wider[i].best);
        text_add(&answers, " gain=%.10g", wider[i].gain);
    }
}

static void add_robustness(const struct search_request *request, const struct search_result *got)
{
    struct robust_request robust = { .system = request->system,
                                     .model = request->model,
                                     .rivals = got->top,
                                     .num_rivals = got->num_top,
                                     .spread = 0.3,
                                     .num_draws = 20,
                                     .seed = 5,
                                     .jobs = 1 };
    struct robustness found = search_robust(&robust);
    text_add(&answers, "\n  robust: %.10g %.10g %.10g safe=%d often=%d", found.choice.best_share,
             found.choice.largest_regret, found.choice.mean_regret, found.safe.rival,
             found.often.rival);
    for (int i = 0; i < num_cost_classes; i++)
        text_add(&answers, " %.10g to %d", found.flips[i].factor, found.flips[i].to);
}

/* Counts the reports of a search's progress, and keeps the last one. */
static struct progress {
    int times;
    double last;
} progress;

static void note_progress(double done, void *context)
{
    struct progress *noted = context;
    ck_assert_double_ge(done, 0);
    ck_assert_double_le(done, 1);
    noted->times++;
    noted->last = done;
}

static void add_search_of(struct search_request request)
{
    struct search_result got;
    struct err err = { 0 };
    progress = (struct progress){ 0 };
    request.progress = note_progress;
    request.progress_context = &progress;
    text_add(&answers, "  %s%s%s:", request.method, request.uneven ? " uneven" : "",
             request.recompute_mixes ? " mixed" : "");
    if (search_run(&request, &got, &err)) {
        add_result(&got);
        if (got.num_top == 0)
            add_relaxations(&request, &got);
        else if (one_in(3))
            add_standing(&request, &got);
        else if (one_in(2))
            add_wider(&request, &got);
        else if (got.num_top > 1)
            add_robustness(&request, &got);
        text_add(&answers, "\n  progress %d %.10g", progress.times, progress.last);
    } else {
        text_add(&answers, " %s: %s", err.where, err.msg);
    }
    text_add(&answers, "\n");
    search_result_release(&got);
}

/* Counts families (plans that differ only in recompute and ZeRO) and their members by the reason
 * that rules them out. */
static void add_certificate(const struct search_request *request, const struct scored_plan *answer)
{
    static const char *const reasons[] = { "bound", "memory", "time" };
    struct err err = { 0 };
    json_t *certificate = certificate_of(request, answer, &err), *family, *member;
    size_t i, k, members[LENGTH(reasons)] = { 0 }, by_bytes = 0;
    double floors_s = 0;
    if (!certificate) {
        text_add(&answers, "\n  certificate: %s", err.where);
        return;
    }
    json_array_foreach (json_object_get(certificate, "families"), i, family) {
        by_bytes += json_object_get(family, "floor_bytes") != NULL;
        floors_s += json_number_value(json_object_get(family, "floor_s"));
        json_array_foreach (json_object_get(family, "members"), k, member)
            for (size_t why = 0; why < LENGTH(reasons); why++)
                members[why] +=
                    strcmp(json_string_value(json_array_get(member, 1)), reasons[why]) == 0;
    }
    text_add(&answers, "\n  certificate: %zu families, %zu by bytes, floors=%.10g", i, by_bytes,
             floors_s);
    for (size_t why = 0; why < LENGTH(reasons); why++)
        text_add(&answers, " %s=%zu", reasons[why], members[why]);
    json_decref(certificate);
}

static void add_search(void)
{
    add_search_of(request_by(methods[random_below(&question.rng, LENGTH(methods))]));
}

/* Searches with a randomised method, whose budget is large enough to learn from many plans. */
static void add_walk(int i)
{
    static const char *const drawn[] = { "zo", "rl", "random" };
    struct search_request request = request_by(drawn[i % (int)LENGTH(drawn)]);
    request.budget = 2000;
    request.fix = NULL;
    request.forbid = NULL;
    request.max_memory_bytes = 0;
    request.seed = i;
    add_search_of(request);
}

/* Makes a question without a feasible plan: too little memory, or words or a batch that no plan can
 * have. */
static void add_infeasible(void)
{
    static const char *const fixed[] = {
        "tp3",     "pp5", "mb5",   "tp2 pp2 mb3",       "cp2 zero1", "vpp2 pp2", "recompute=none",
        "dp1 mb2", "pp2", "zero0", "tp1 recompute=none"
    };
    struct search_request request = request_by(one_in(3) ? "exhaustive" : "bnb");
    request.uneven = request.recompute_mixes = request.recompute_modules = false;
    request.fix = one_in(2) ? fixed[random_below(&question.rng, LENGTH(fixed))] : NULL;
    question.model.batch = one_in(3) ? 17 : question.model.batch;
    if (one_in(2))
        question.system.gpu.memory_bytes *= between(&question.rng, 0.03, 0.2);
    add_search_of(request);
    struct search_result got;
    struct err err = { 0 };
    request.objective = OBJECTIVE_TIME;
    if (search_run(&request, &got, &err) && certificate_can_be(&request, &err))
        add_certificate(&request, got.num_top > 0 ? &got.top[0] : NULL);
    text_add(&answers, "\n");
    search_result_release(&got);
}

/* --- searches that end early ------------------------------------------------------------------ */

static int polls_left;

static bool after_some_polls(void)
{
    return polls_left-- <= 0;
}

/* With one worker a search always polls at the same places. Its lower bound holds also for the
 * plans that it has not seen. */
static void add_interrupted(void)
{
    struct search_request request =
        request_by(methods[random_below(&question.rng, LENGTH(methods))]);
    struct search_result got, whole;
    struct err err = { 0 };
    request.objective = OBJECTIVE_TIME;
    if (request.recompute_modules)
        return;
    if (!search_run(&request, &whole, &err)) {
        search_result_release(&whole);
        return;
    }
    request.interrupted = after_some_polls;
    polls_left = PICK(&question.rng, 0, 1, 2, 3, 5, 8, 20, 60, 200, 600);
    text_add(&answers, "  %s%s%s, %d polls:", request.method, request.uneven ? " uneven" : "",
             request.recompute_mixes ? " mixed" : "", polls_left);
    check_ok(search_run(&request, &got, &err), &err);
    text_add(&answers, " interrupted=%d", got.was_interrupted);
    add_result(&got);
    text_add(&answers, "\n");
    if (whole.num_top > 0)
        ck_assert_double_le(got.lower_bound_s, whole.top[0].prediction.step_s * (1 + 1e-9));
    if (!got.was_interrupted)
        ck_assert_int_eq(got.proved_optimal, whole.proved_optimal);
    ck_assert(!got.was_interrupted || !got.proved_optimal);
    search_result_release(&got);
    search_result_release(&whole);
}

/* --- other questions -------------------------------------------------------------------------- */

static void add_deadline(const struct search_request *request, double budget_s)
{
    struct deadline_result met;
    struct err err = { 0 };
    check_ok(search_deadline(request, budget_s, &met, &err), &err);
    text_add(&answers, "\n  deadline: met=%d gpus=%d searched=%d interrupted=%d", met.is_met,
             met.num_gpus, met.num_searched, met.was_interrupted);
    if (met.num_gpus > 0) {
        add_scored("best", &met.best);
        text_add(&answers, " trains=%.10g", met.train_s < HUGE_VAL ? met.train_s : 0);
    }
    deadline_result_release(&met);
}

static void add_depth(const struct search_request *request)
{
    struct depth depth;
    struct err err = { 0 };
    if (search_depth(request, &depth, &err))
        text_add(&answers, "\n  depth: %d interrupted=%d", depth.most, depth.was_interrupted);
    else
        text_add(&answers, "\n  depth: %s: %s", err.where, err.msg);
}

static void add_front(const struct search_request *request)
{
    struct pareto_result front;
    struct err err = { 0 };
    if (!search_pareto(request, 1e8, &front, &err)) {
        text_add(&answers, "\n  front: %s: %s", err.where, err.msg);
        return;
    }
    text_add(&answers, "\n  front: %d of %d, candidates=%.10g evaluated=%.10g bounded=%.10g",
             front.count, front.num_on_front, front.candidates, front.evaluated, front.bounded);
    text_add(&answers, " interrupted=%d", front.was_interrupted);
    double sum_s = 0, sum_bytes = 0;
    for (int i = 0; i < front.count; i++) {
        sum_s += (i + 1) * front.at[i].scored.prediction.step_s;
        sum_bytes += (i + front.at[i].num_gpus) * front.at[i].scored.prediction.peak_memory_bytes;
    }
    text_add(&answers, " times=%.10g bytes=%.10g", sum_s, sum_bytes);
    pareto_result_release(&front);
}

static void add_design(const struct search_request *request, double budget_s)
{
    struct design design;
    struct err err = { 0 };
    struct design_request asked = {
        .search = request,
        .aspect = (enum aspect)random_below(&question.rng, NUM_ASPECTS),
        .law = &loss_laws[random_below(&question.rng, NUM_LOSS_LAWS)],
        .time_s = one_in(4) ? 0 : budget_s,
        .budget = { .flops = 1e19, .served = one_in(2) ? 1e8 : 0, .unique = one_in(2) ? 1e9 : 0 }
    };
    if (!search_design(&asked, &design, &err)) {
        text_add(&answers, "\n  design: %s: %s", err.where, err.msg);
        return;
    }
    text_add(&answers, "\n  design: loss=%.10g parameters=%.10g tokens=%.10g batch=%.10g",
             design.best.loss < HUGE_VAL ? design.best.loss : 0, design.best.training.parameters,
             design.best.training.tokens, design.best.model.batch);
    text_add(&answers, " flops=%.10g searches=%d interrupted=%d", design.flops, design.searches,
             design.was_interrupted);
}

static void add_nearby(const struct search_request *request)
{
    struct nearby near[] = { nearby_gpus(request, 0, &question.arena),
                             nearby_batch(request, &question.arena),
                             nearby_both(request, &question.arena) };
    for (int i = 0; i < (int)LENGTH(near); i++)
        if (near[i].num_gpus > 0) {
            add_scored("nearby", &near[i].best);
            text_add(&answers, " on %d, batch %.10g", near[i].num_gpus, near[i].batch);
        }
}

/* A plan that is not the best has no certificate. The answer that nothing fits has none either. */
static void check_false_answers(const struct search_request *request,
                                const struct scored_plan *answer)
{
    struct scored_plan slower = *answer;
    struct err err = { 0 };
    slower.prediction.step_s *= 1.01;
    ck_assert(!certificate_of(request, &slower, &err));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_str_eq(err.where, "--certificate");
    ck_assert_msg(strstr(err.msg, " s, less than the best plan"), "%s", err.msg);
    err = (struct err){ 0 };
    ck_assert(!certificate_of(request, NULL, &err));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
}

static void add_region(const struct search_request *request, const struct scored_plan *answer)
{
    static const struct uncertain constants[] = {
        { "gemm_efficiency", false, offsetof(struct profile, gemm_efficiency), 0.06 },
        { "memory_efficiency", false, offsetof(struct profile, memory_efficiency), 0.2 },
        { "kernel", false, offsetof(struct profile, kernel_s), 0.2 },
    };
    struct region_request asked = { .search = request,
                                    .choice = &answer->plan,
                                    .constants = constants,
                                    .num_constants = LENGTH(constants),
                                    .probability = 0.9,
                                    .most_timed = 400 };
    struct region region;
    struct err err = { 0 };
    if (region_find(&asked, &region, &err)) {
        text_add(&answers,
                 "\n  region: best=%.10g beaten=%.10g parts=%d plans=%.10g timed=%.10g decides=%d",
                 region.best_share, region.beaten_share, region.parts, region.plans, region.timed,
                 region.decides);
        for (int i = 0; i < region.num_faster; i++)
            text_add(&answers, " faster=%.10g", region.faster[i].volume);
        for (int i = 0; i < region.num_closest; i++)
            text_add(&answers, " closest=%.10g", region.closest[i].volume);
    } else {
        text_add(&answers, "\n  region: %s", err.msg);
    }
    region_release(&region);
}

static void add_accuracy(const struct search_request *asked)
{
    struct search_request request = *asked;
    struct accuracy_result accuracy;
    struct err err = { 0 };
    request.objective = OBJECTIVE_ACCURACY;
    if (!search_time_to_accuracy(&request, &accuracy, &err)) {
        text_add(&answers, "\n  accuracy: %s: %s", err.where, err.msg);
        accuracy_result_release(&accuracy);
        return;
    }
    text_add(&answers, "\n  accuracy: %d of %d searches, candidates=%.10g proved=%d",
             accuracy.count, accuracy.searches, accuracy.candidates, accuracy.proved);
    for (int i = 0; i < accuracy.count && i < 4; i++) {
        add_scored("with", &accuracy.at[i].scored);
        text_add(&answers, " takes=%.10g", accuracy.at[i].to.seconds);
    }
    accuracy_result_release(&accuracy);
}

/* Writes which plan to run as a trial before one of the two or three best plans is chosen. */
static void add_trials(const struct search_request *request, const struct search_result *got)
{
    enum { MOST = 3 };
    struct trial_place place = { request->system, request->model, 1 };
    struct trial trials[MOST];
    struct believed items[2 * MOST];
    int runs[MOST], rivals = got->num_top < MOST ? got->num_top : MOST;
    for (int i = 0; i < rivals; i++) {
        trials[i] = trial_of(&place, &got->top[i].plan, i, &question.arena);
        const struct scored_plan *plans[] = { &got->top[i], &trials[i].plan };
        for (int k = 0; k < 2; k++)
            items[k * rivals + i] = (struct believed){ .step_s = plans[k]->prediction.step_s,
                                                       .parts = &plans[k]->prediction.time,
                                                       .plan = &plans[k]->plan,
                                                       .rival = i,
                                                       .is_slice = k == 1 };
        runs[i] = rivals + i;
        text_add(&answers, "\n  trial on %d GPUs, batch %.10g: step=%.10g", trials[i].gpus,
                 trials[i].batch, trials[i].plan.prediction.step_s);
    }
    struct belief belief;
    struct proposal proposed[MOST_TRIALS];
    belief_begin(request->system, items, 2 * rivals, rivals, NULL, &belief);
    int count = trials_propose(&belief, trials, runs, rivals, proposed);
    for (int i = 0; i < count; i++)
        text_add(&answers, " %d: %.10g %.10g", proposed[i].trial, proposed[i].outlook.p_best,
                 proposed[i].outlook.bits);
}

/* Further questions about the best plans by time. */
static void add_proofs(const struct search_request *asked)
{
    struct search_request request = *asked;
    request.top = 3;
    request.interrupted = NULL;
    struct search_result got = search_of(&request);
    if (got.num_top > 0) {
        add_certificate(&request, &got.top[0]);
        if (certificate_can_be(&request, &(struct err){ 0 }))
            check_false_answers(&request, &got.top[0]);
        add_region(&request, &got.top[0]);
        add_trials(&request, &got);
    }
    search_result_release(&got);
}

static void add_other(void)
{
    struct search_request request = request_by("bnb");
    double budget_s = between(&question.rng, 2e3, 1e5);
    question.model.tokens = 1e8;
    request.top = 1;
    request.uneven = request.recompute_mixes = request.recompute_modules = false;
    if (random_below(&question.rng, 4) > 0) {
        request.fix = NULL;
        request.max_memory_bytes = 0;
    }
    polls_left = one_in(4) ? PICK(&question.rng, 1, 5, 30, 100, 300) : 1 << 30;
    request.interrupted = after_some_polls;
    text_add(&answers, "  asked:");
    add_front(&request);
    add_nearby(&request);
    request.objective = OBJECTIVE_TIME;
    add_deadline(&request, budget_s);
    add_depth(&request);
    add_proofs(&request);
    if (one_in(3))
        add_accuracy(&request);
    if (question.model.experts == 0 && question.model.blocks.num_kinds == 0)
        add_design(&request, budget_s);
    text_add(&answers, "\n");
}

/* --- the file --------------------------------------------------------------------------------- */

/* Gives some models packed documents, a tied head, a multi-token-prediction module, or sliding
 * windows; changes that make an invalid model are left out. */
static void vary(struct model *model, int i)
{
    struct model changed = *model;
    struct err err = { 0 };
    if (i % 5 == 1)
        changed.documents = documents_of_spread(changed.seq / 3.0, 1);
    if (i % 6 == 3)
        changed.tied = !changed.tied;
    if (i % 7 == 2)
        changed.mtp = 1;
    if (i % 9 == 5)
        changed.dropout = 0.1;
    if (model_check(&changed, &err))
        *model = changed;
}

static void answer(int i)
{
    (i < FIRST_WIDE ? question_draw : question_draw_wide)((uint64_t)(FIRST_SEED + i), &question);
    if (i < FIRST_WIDE)
        draw_experts(&question.model, question.seed);
    if (i < PLANNED)
        vary(&question.model, i);
    text_add(&answers, "$ %s, %s layers %d hidden %d batch %g\n", question.words,
             question.model.name, question.model.layers, question.model.hidden,
             question.model.batch);
    if (i < PLANNED || i >= FIRST_WIDE)
        add_plans(i >= FIRST_WIDE);
    else if (i < PLANNED + SEARCHED)
        add_search();
    else if (i < PLANNED + SEARCHED + INTERRUPTED)
        add_interrupted();
    else if (i < PLANNED + SEARCHED + INTERRUPTED + OTHERS)
        add_other();
    else if (i < PLANNED + SEARCHED + INTERRUPTED + OTHERS + INFEASIBLE)
        add_infeasible();
    else
        add_walk(i);
    question_release(&question);
}

START_TEST(answers_to_random_questions_equal_the_stored_ones)
{
    if (kept_is_written() || (IS_ASAN && is_spared(_i, 1)))
        return;
    answer(_i);
    kept_check(text_get(&answers));
    text_release(&answers);
}
END_TEST

START_TEST(the_answers_are_written)
{
    for (int i = 0; i < QUESTIONS && kept_is_written(); i++)
        answer(i);
    if (kept_is_written())
        kept_write(text_get(&answers));
    text_release(&answers);
}
END_TEST

static Suite *suite(void)
{
    kept_read("tests/golden/drawn.txt");
    TCase *tc = tcase_create("drawn");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, the_answers_are_written);
    tcase_add_loop_test(tc, answers_to_random_questions_equal_the_stored_ones, 0, QUESTIONS);
    Suite *s = suite_create("drawn");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
