/* cli/search.c - searches for the best plans. */
#include "search/search.h"

#include "base/text.h"
#include "cli/input/command.h"
#include "cli/input/options.h"
#include "cli/input/planfile.h"
#include "cli/input/search_request.h"
#include "cli/input/setup.h"
#include "cli/print/terminal.h"
#include "cli/region.h"
#include "cli/search_for.h"
#include "cli/search_run.h"
#include "cli/views/answer.h"
#include "cli/views/chances_view.h"
#include "cli/views/deadline_view.h"
#include "cli/views/infeasible.h"
#include "cli/views/largest.h"
#include "cli/views/nearby_view.h"
#include "cli/views/pareto_view.h"
#include "cli/views/progress_bar.h"
#include "cli/views/ranking.h"
#include "cli/views/relax_view.h"
#include "cli/views/remedy_view.h"
#include "cli/views/robust_view.h"
#include "cli/views/time_to_accuracy_view.h"
#include "cli/views/uneven_view.h"
#include "search/certificate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Further answers, shown with the best plans. */
struct extras {
    struct comparison comparison;
    struct deadline deadline;
    struct robust_view robust;
    struct region *region; /* NULL: not requested */
    struct finalists finalists;
    struct relaxations relaxations;
    struct largest *largest;
    struct nearby_view nearby;
    /* plan with a high risk of running out of memory; NULL: not shown */
    const struct scored_plan *tight;
    struct kinds kinds;
    struct search_result by_kind; /* the best plan of each kind; borrows from the result */
    struct tipping_view tipping;
    struct wider_view wider;
    int asked_gpus; /* number of GPUs requested, when a plan on fewer is shown; else 0 */
};

/* --- JSON --------------------------------------------------------------------------------- */

/* A number, or null for NaN and infinity. */
static json_t *real_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *space_json(const struct search_result *result)
{
    json_t *object = json_object(), *reasons = json_object();
    for (int i = 0; i < result->num_exclusions; i++)
        json_object_set_new(reasons, result->exclusions[i].rule,
                            number_json(result->exclusions[i].count));
    json_object_set_new(object, "candidates", number_json(result->candidates));
    json_object_set_new(object, "evaluated", number_json(result->evaluated));
    json_object_set_new(object, "bounded", number_json(result->bounded));
    json_object_set_new(object, "infeasible", number_json(result->infeasible));
    json_object_set_new(object, "infeasible_by", reasons);
    return object;
}

static json_t *scored_json(const struct setup *setup, const struct scored_plan *scored,
                           bool with_plan)
{
    return prediction_json(setup, &scored->plan, &scored->prediction, with_plan);
}

static json_t *finalist_json(const struct setup *setup, const struct search_result *result,
                             const struct finalists *finalists, const double *chance, int i,
                             bool with_plan)
{
    json_t *object = scored_json(setup, &result->top[i], with_plan);
    json_object_set_new(object, "p_best", json_real(chance[i]));
    if (i < finalists->count && finalists->step_s[i] > 0)
        json_object_set_new(object, "event_step_s", json_real(finalists->step_s[i]));
    return object;
}

static json_t *top_json(const struct setup *setup, const struct search_result *result,
                        const struct finalists *finalists, const double *chance)
{
    json_t *top = json_array();
    for (int i = 0; i < result->num_top; i++)
        json_array_append_new(top, finalist_json(setup, result, finalists, chance, i, false));
    return top;
}

static json_t *comparison_json(const struct setup *setup, const struct search_result *result,
                               const struct comparison *comparison)
{
    const struct standing *rank = comparison->rank;
    json_t *object = NULL;
    if (rank->is_valid) {
        object = scored_json(setup, &rank->plan, false);
        json_object_set_new(object, "rank", number_json(rank->rank));
        json_object_set_new(object, "of", number_json(rank->of));
        json_object_set_new(object, "lost_share", json_real(rank->lost_share));
        json_object_set_new(object, "left_out", json_boolean(comparison->left_out));
        if (!rank->plan.prediction.fits)
            add_remedies_json(object, setup, &rank->plan.plan, result->planned_bytes);
    } else {
        struct text layout = { 0 };
        plan_write(&rank->plan.plan, &layout);
        object = json_object();
        json_object_set_new(object, "layout", json_string(text_get(&layout)));
        json_object_set_new(object, "reason", json_string(comparison->reason));
        text_release(&layout);
    }
    json_object_set_new(object, "valid", json_boolean(rank->is_valid));
    return object;
}

/* Adds the changes that would help when nothing fits. */
static void add_relaxation(json_t *object, const struct setup *setup,
                           const struct search_result *result,
                           const struct relaxations *relaxations)
{
    if (result->has_nearest) {
        double lacks = result->nearest.prediction.peak_memory_bytes - setup->memory_bytes;
        json_t *nearest = scored_json(setup, &result->nearest, false);
        json_object_set_new(nearest, "lacks_bytes", number_json(round(lacks)));
        json_object_set_new(object, "nearest", nearest);
    }
    if (result->fewest_gpus > 0) {
        struct setup smaller = *setup; /* borrows everything from the setup */
        smaller.system.num_gpus = result->fewest_gpus;
        json_object_set_new(object, "fewest_gpus", json_integer(result->fewest_gpus));
        json_object_set_new(object, "fewest", scored_json(&smaller, &result->fewest, false));
    }
    json_object_set_new(object, "relaxations", relaxations_json(setup, relaxations));
}

static json_t *result_json(const struct setup *setup, const struct search_result *result,
                           const struct extras *extras)
{
    const struct comparison *comparison = &extras->comparison;
    bool found = result->num_top > 0;
    double *chance = top_chances(&setup->system, result);
    json_t *object = json_object();
    json_object_set_new(object, "version", json_string(SIMSEARCH_VERSION));
    json_object_set_new(object, "model", json_string(setup->model.name));
    json_object_set_new(object, "cluster", json_string(setup->system.cluster.name));
    json_object_set_new(object, "stack", json_string(setup->system.stack.name));
    json_object_set_new(object, "gpus", json_integer(setup->system.num_gpus));
    if (extras->asked_gpus > 0)
        json_object_set_new(object, "asked_gpus", json_integer(extras->asked_gpus));
    add_deadline_json(object, &extras->deadline);
    add_largest_json(object, setup, extras->largest);
    json_object_set_new(object, "method", json_string(result->method));
    json_object_set_new(object, "space_name", json_string(result->space_name));
    json_object_set_new(object, "oom_risk", json_real(result->oom_risk));
    if (extras->tight)
        add_tight_json(object, setup, extras->tight, &result->top[0]);
    json_object_set_new(object, "leaves_out", json_string(result->leaves_out));
    json_object_set_new(object, "best",
                        found ? finalist_json(setup, result, &extras->finalists, chance, 0, true)
                              : json_null());
    json_object_set_new(object, "top", top_json(setup, result, &extras->finalists, chance));
    free(chance);
    if (found)
        add_even_best_json(object, setup, result);
    if (found)
        add_nearby_json(object, setup, &extras->nearby);
    if (found)
        add_tipping_json(object, &extras->tipping, &extras->by_kind);
    else
        add_relaxation(object, setup, result, &extras->relaxations);
    if (found)
        add_wider_json(object, &extras->wider);
    if (comparison->rank)
        json_object_set_new(object, "compared", comparison_json(setup, result, comparison));
    add_robustness_json(object, &extras->robust);
    add_region_json(object, extras->region);
    json_object_set_new(object, "space", space_json(result));
    json_object_set_new(object, "proved_optimal", json_boolean(result->proved_optimal));
    json_object_set_new(object, "lower_bound_s", real_or_null(result->lower_bound_s));
    json_object_set_new(object, "gap", json_real(search_gap(result)));
    json_object_set_new(object, "elapsed_s", json_real(result->elapsed_s));
    json_object_set(object, "assumptions", setup->assumptions);
    return object;
}

/* --- the command -------------------------------------------------------------------------- */

static bool check_method(const char *name, struct err *err)
{
    enum { MOST_METHODS = 64 };
    const char *names[MOST_METHODS];
    if (!name || search_method_find(name))
        return true;
    int count = num_search_methods < MOST_METHODS ? num_search_methods : MOST_METHODS;
    for (int i = 0; i < count; i++)
        names[i] = search_methods[i].name;
    const char *nearest = text_nearest(name, names, (size_t)count);
    if (nearest)
        return err_set(err, ERR_USAGE, "--method", "there is no \"%.60s\"; did you mean \"%s\"?",
                       name, nearest);
    return err_set(err, ERR_USAGE, "--method", "there is no \"%.60s\"; `list methods` names them",
                   name);
}

/* Rejects options of random methods if the method is not random. */
static bool check_draws(const struct options *options, struct err *err)
{
    const char *name = options->search.method ? options->search.method : search_methods[0].name;
    bool seeds = options->seed && !options->search.robust_words;
    if (search_method_find(name)->is_drawn || (!options->search.budget && !seeds))
        return true;
    return err_set(err, ERR_USAGE, options->search.budget ? "--budget" : "--seed",
                   "applies to the methods zo, rl and random; found %s, which draws no plans",
                   name);
}

/* Compares with the layout of --compare. An infeasible layout is an answer; an unreadable one is an
 * error. */
static bool compare(const struct options *options, struct setup *setup,
                    const struct search_request *request, const struct search_result *result,
                    struct standing *rank, struct err *reason, struct err *err)
{
    struct plan plan;
    struct err broken = { 0 };
    if (!setup_parse(setup, options, "--compare", options->search.compare, &plan, err))
        return false;
    if (!search_standing(request, result, &plan, &setup->arena, rank, &broken))
        return err_pass(err, &broken);
    *reason = broken;
    return true;
}

static int exit_code_of_result(const struct setup *setup, const struct search_result *result,
                               const struct extras *extras, struct err *err)
{
    if (result->was_interrupted)
        return EXIT_INTERRUPTED;
    if (result->timed_out || extras->largest->timed_out)
        return EXIT_TIME_LIMIT;
    if (refuse_deadline(&extras->deadline, err))
        return EXIT_NO_PLAN;
    if (result->num_top > 0)
        return EXIT_DONE;
    struct text sentence = { 0 };
    add_infeasible_sentence(setup, result, &sentence);
    add_relaxations_words(&extras->relaxations, &sentence);
    err_set(err, ERR_INFEASIBLE, "", "%s", text_get(&sentence));
    text_release(&sentence);
    return EXIT_NO_PLAN;
}

static void print_result(const struct options *options, const struct setup *setup,
                         const struct search_result *result, const struct extras *extras,
                         const struct err *err)
{
    if (options->json) {
        json_t *json = result_json(setup, result, extras);
        if (err->code == ERR_INFEASIBLE)
            add_infeasible_json(json, result, err);
        print_json(json);
        json_decref(json);
        return;
    }
    show_deadline(setup, &extras->deadline);
    show_largest(setup, extras->largest);
    if (result->num_top > 0)
        show_ranking(options, setup,
                     &(struct ranking){ .result = &extras->by_kind,
                                        .kinds = &extras->kinds,
                                        .comparison = &extras->comparison,
                                        .robust = &extras->robust,
                                        .region = extras->region,
                                        .finalists = &extras->finalists,
                                        .tight = extras->tight,
                                        .nearby = &extras->nearby,
                                        .tipping = &extras->tipping,
                                        .wider = &extras->wider });
    else
        show_infeasible(options, setup, result, &extras->relaxations);
}

static bool find_plans(const struct options *options, const struct setup *setup,
                       struct search_request *request, const struct deadline *deadline,
                       struct search_result *result, struct relaxations *relaxations,
                       struct err *err)
{
    struct progress_bar progress_bar;
    if (deadline_ended_early(deadline)) {
        deadline_fill_result(deadline, result);
        return true;
    }
    progress_bar_begin(&progress_bar, options, request);
    bool ok = options->calibration.for_model ? search_runnable(options, setup, request, result, err)
                                             : search_run(request, result, err);
    if (ok)
        relax_find(request, result, relaxations);
    progress_bar_end(&progress_bar);
    return ok;
}

/* When no plan fits whole racks of 72 GPUs, tries 64 GPUs of each rack. A plan found this way
 * replaces the empty result. */
static bool take_segments(const struct options *options, struct setup *setup,
                          struct search_request *request, struct extras *extras,
                          struct search_result *result, struct err *err)
{
    struct cluster *cluster = &setup->system.cluster;
    struct system whole = setup->system;
    struct search_result found = { 0 };
    int asked = setup->system.num_gpus, node = cluster_node_size(cluster);
    bool has_ended_early = result->timed_out || result->was_interrupted;
    if (result->num_top > 0 || has_ended_early || cluster->segment <= 0 || asked % node != 0 ||
        cluster->segment >= node || options->search.deadline_s > 0 || extras->largest->family)
        return true;
    setup->system.num_gpus = asked / node * cluster->segment;
    cluster->levels[0].size = cluster_node_share(cluster, setup->system.num_gpus);
    struct relaxations unneeded = { 0 };
    bool ok = find_plans(options, setup, request, &extras->deadline, &found, &unneeded, err);
    relaxations_release(&unneeded);
    if (ok && found.num_top > 0) {
        search_result_release(result);
        *result = found;
        extras->asked_gpus = asked;
        setup_note_segment(setup, asked);
        struct search_request all = *request;
        all.system = &whole;
        nearby_beside(&all, setup->system.num_gpus, &result->top[0], &extras->nearby);
        return true;
    }
    search_result_release(&found);
    setup->system.num_gpus = asked;
    cluster->levels[0].size = node;
    return ok;
}

/* Whether only words of --fix or --forbid prevent a plan. */
static bool words_are_to_blame(const struct relaxations *relaxations)
{
    for (int i = 0; i < relaxations->count; i++)
        if (relaxations->at[i].what == RELAXED_FIX || relaxations->at[i].what == RELAXED_FORBID)
            return true;
    return false;
}

/* Whether a plan on fewer GPUs is an acceptable answer; it is not with --run, which uses the given
 * GPUs. */
static bool may_take_fewer(const struct options *options, const struct setup *setup,
                           const struct extras *extras, const struct search_result *result)
{
    bool has_ended_early = result->timed_out || result->was_interrupted;
    return result->num_top == 0 && result->proved_optimal && !has_ended_early &&
           result->fewest_gpus > 0 && result->fewest_gpus < setup->system.num_gpus &&
           options->search.deadline_s <= 0 && !options->run && !extras->largest->family &&
           !words_are_to_blame(&extras->relaxations);
}

/* When no plan divides over all GPUs, tries fewer. A plan found this way replaces the empty
 * result. */
static bool take_fewer(const struct options *options, struct setup *setup,
                       struct search_request *request, struct extras *extras,
                       struct search_result *result, struct err *err)
{
    struct nearby_view *nearby = &extras->nearby;
    struct progress_bar progress_bar;
    if (!may_take_fewer(options, setup, extras, result))
        return true;
    progress_bar_begin(&progress_bar, options, request);
    nearby_instead(request, nearby);
    progress_bar_end(&progress_bar);
    if (nearby->count == 0)
        return true;
    search_result_release(result);
    setup->system.num_gpus = nearby->at[0].num_gpus;
    extras->asked_gpus = nearby->asked_gpus;
    setup_note_fewer(setup, nearby->asked_gpus);
    struct relaxations unneeded = { 0 };
    bool ok = find_plans(options, setup, request, &extras->deadline, result, &unneeded, err);
    relaxations_release(&unneeded);
    return ok;
}

/* Finds further answers, only with the default method: it is fast enough to search nearby requests,
 * and it finds the plans whose risk is too high. */
static void look_beside(const struct options *options, const struct search_request *request,
                        const struct search_result *result, struct extras *extras)
{
    bool is_usual = !request->method && request->objective != OBJECTIVE_MEMORY &&
                    !request->uneven && !request->recompute_mixes && !request->placement;
    if (result->num_top > 0 && result->proved_optimal && is_usual && extras->asked_gpus == 0 &&
        options->search.deadline_s <= 0 && !extras->largest->family)
        nearby_better(request, &result->top[0], &extras->nearby);
    if (result->proved_optimal && is_usual && request->objective == OBJECTIVE_TIME &&
        options->search.deadline_s <= 0)
        extras->tight = result->tight;
}

/* In text output, keeps only the best plan of each kind. JSON output contains the best plans of all
 * kinds. */
static void sort_kinds(struct search_result *result, int shown, struct extras *extras)
{
    extras->kinds = kinds_of(result, shown);
    extras->by_kind = kinds_result(&extras->kinds, result,
                                   ARENA_ARRAY(&result->arena, struct scored_plan, MOST_KINDS));
}

/* If the layout of --compare is faster than the best plan found, the space was too narrow. The
 * search is then repeated with the layout's values added to the space. */
static bool compare_and_widen(const struct options *options, struct setup *setup,
                              struct search_request *request, struct search_result *result,
                              struct standing *rank, struct extras *extras, struct err *reason,
                              struct err *err)
{
    if (!options->search.compare || result->num_top == 0)
        return true;
    if (!compare(options, setup, request, result, rank, reason, err))
        return false;
    extras->comparison.rank = rank;
    const struct prediction *p = &rank->plan.prediction;
    /* false for a plan with a high risk of running out of memory, which `tight` may show */
    bool is_planned = p->peak_memory_bytes <= result->planned_bytes;
    bool is_faster = rank->is_valid && is_planned && rank->lost_share < -1e-9;
    if (!is_faster || request->objective != OBJECTIVE_TIME || result->timed_out)
        return true;
    struct plan *compared = ARENA_NEW(&setup->arena, struct plan);
    *compared = rank->plan.plan;
    *request = search_including(request, compared);
    struct search_result wider = { 0 };
    struct relaxations unneeded = { 0 };
    bool ok = find_plans(options, setup, request, &extras->deadline, &wider, &unneeded, err);
    relaxations_release(&unneeded);
    if (!ok || wider.num_top == 0) {
        search_result_release(&wider);
        return ok;
    }
    extras->comparison.left_out = true;
    search_result_release(result);
    *result = wider;
    return compare(options, setup, request, result, rank, reason, err);
}

/* Writes the certificate, with model and system as in a plan file. If no plan is feasible, the
 * certificate proves this. Nothing is written if the search ended early. */
static bool write_certificate(const struct options *options, const struct setup *setup,
                              const struct search_request *request,
                              const struct search_result *result, struct err *err)
{
    const struct scored_plan *best = result->num_top > 0 ? &result->top[0] : NULL;
    if (!options->search.certificate || (!best && !result->proved_optimal))
        return true;
    if (!result->proved_optimal)
        return err_set(err, ERR_USAGE, "--certificate",
                       "needs a proved best plan; the method %s did not prove one", result->method);
    json_t *certificate = certificate_of(request, best, err);
    if (!certificate)
        return false;
    json_object_set_new(certificate, "version", json_string(SIMSEARCH_VERSION));
    json_object_set_new(
        certificate, "question",
        planfile_json(&setup->system, &setup->model, best ? &best->plan : &setup->plan, NULL));
    bool ok = planfile_write(options->search.certificate, certificate, err);
    json_decref(certificate);
    return ok;
}

static int answer(struct options *options, struct setup *setup, struct largest *largest,
                  struct err *err)
{
    struct search_request request = search_request_of(options, setup);
    ask_for_target(options, setup, &request);
    if (!largest_choose(largest, options, setup, &request, err) ||
        (options->search.certificate && !certificate_can_be(&request, err)))
        return exit_code_of(err);
    setup_note_storage(setup);
    if (options->search.pareto)
        return answer_pareto(options, setup, &request, err);
    if (options->search.objective == OBJECTIVE_ACCURACY)
        return answer_accuracy(options, setup, &request, err);
    struct search_result result = { 0 };
    struct standing rank;
    struct err reason = { 0 };
    struct extras extras = { .comparison = { .reason = reason.msg }, .largest = largest };
    int code = EXIT_FAILED;
    int shown = request.top;
    request.top = robust_top(options, kinds_top(shown));
    if (!deadline_choose_gpus(options, setup, &request, &extras.deadline, err) ||
        !find_plans(options, setup, &request, &extras.deadline, &result, &extras.relaxations,
                    err) ||
        !take_segments(options, setup, &request, &extras, &result, err) ||
        !take_fewer(options, setup, &request, &extras, &result, err) ||
        !compare_and_widen(options, setup, &request, &result, &rank, &extras, &reason, err))
        goto done;
    look_beside(options, &request, &result, &extras);
    extras.wider = wider_find(setup, &request, &result);
    extras.robust = robust_find(options, setup, &request, &result);
    if (!find_region(options, setup, &request, &result, &extras.region, err))
        goto done;
    if (result.num_top > 0)
        setup_note_exchange(setup, &result.top[0].plan);
    sort_kinds(&result, shown, &extras);
    extras.tipping = tipping_find(setup, &request, &extras.by_kind);
    if (result.num_top > shown)
        result.num_top = shown;
    extras.finalists =
        finalists_judge(setup, options->json ? &result : &extras.by_kind, request.jobs);
    if (options->output && result.num_top > 0 &&
        !write_plan(options->output, setup, &result.top[0].plan, &result.top[0].prediction, err))
        goto done;
    if (!write_certificate(options, setup, &request, &result, err))
        goto done;
    code = exit_code_of_result(setup, &result, &extras, err);
    bool is_hidden = options_answer_is_hidden(options) || (options->run && options->json);
    if (!is_hidden || code != EXIT_DONE)
        print_result(options, setup, &result, &extras, err);
    if (options->run && code == EXIT_DONE)
        code = search_run_best(options, setup, &result, err);
done:
    search_result_release(&result);
    relaxations_release(&extras.relaxations);
    nearby_release(&extras.nearby);
    deadline_release(&extras.deadline);
    if (extras.region)
        region_release(extras.region);
    return err->code != ERR_NONE ? exit_code_of(err) : code;
}

int cmd_search(int argc, char **argv, struct err *err)
{
    struct options options;
    struct setup setup = { 0 };
    struct largest largest = { 0 };
    if (!options_parse(COMMAND_SEARCH, 0, argc, argv, &options, err) ||
        !check_method(options.search.method, err) || !check_draws(&options, err) ||
        !check_pareto_options(&options, err) || !check_robust_options(&options, err))
        return exit_code_of(err);
    int code = EXIT_FAILED;
    if (begin_for_target(&options, err) && largest_name_model(&options, &largest, err) &&
        setup_load(&options, NULL, &setup, err))
        code = answer(&options, &setup, &largest, err);
    setup_release(&setup);
    largest_release(&largest);
    return err->code != ERR_NONE ? exit_code_of(err) : code;
}
