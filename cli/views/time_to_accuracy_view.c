/* Shows the plans with the shortest time to an accuracy. */
#include "cli/views/time_to_accuracy_view.h"

#include "base/units.h"
#include "cli/input/command.h"
#include "cli/views/answer.h"
#include "cli/views/goodput_view.h"
#include "cli/views/infeasible.h"
#include "cli/views/progress_bar.h"
#include "cli/views/show.h"
#include "search/time_to_accuracy.h"

#include <stdio.h>
#include <string.h>

void accuracy_set_basis(json_t *object, const struct time_to_accuracy *to)
{
    json_object_set_new(object, "steps_by", json_string(steps_basis_names[to->basis]));
    json_object_set_new(object, "steps_source", json_string(to->source));
    if (to->gradient_error > 0)
        json_object_set_new(object, "gradient_error", json_real(to->gradient_error));
    json_object_set_new(object, "steps_at_most", finite_json(to->most_steps));
    json_object_set_new(object, "seconds_at_most", finite_json(to->most_seconds));
}

static json_t *row_json(const struct setup *setup, const struct accurate_plan *plan)
{
    json_t *object = prediction_json(setup, &plan->scored.plan, &plan->scored.prediction, false);
    json_object_set_new(object, "steps", json_real(plan->to.steps));
    json_object_set_new(object, "transient_steps", finite_json(plan->to.transient_steps));
    json_object_set_new(object, "all_reduce_steps", json_real(plan->to.all_reduce_steps));
    json_object_set_new(object, "seconds_to_accuracy", json_real(plan->to.seconds));
    accuracy_set_basis(object, &plan->to);
    return object;
}

static void print_rows(const struct setup *setup, const struct accuracy_result *result,
                       const struct err *err)
{
    json_t *object = json_object(), *rows = json_array();
    for (int i = 0; i < result->count; i++)
        json_array_append_new(rows, row_json(setup, &result->at[i]));
    json_object_set_new(object, "version", json_string(SIMSEARCH_VERSION));
    json_object_set_new(object, "exchanges", rows);
    json_object_set_new(object, "searches", json_integer(result->searches));
    json_object_set_new(object, "proved_optimal", json_boolean(result->proved));
    json_object_set_new(object, "elapsed_s", json_real(result->elapsed_s));
    json_object_set(object, "assumptions", setup->assumptions);
    if (err->code == ERR_INFEASIBLE)
        add_infeasible_json(object, NULL, err);
    print_json(object);
    json_decref(object);
}

/* Adds the exchange even when it is the default, as rows differ in it. */
static void add_layout(struct text *out, const struct plan *plan)
{
    plan_write(plan, out);
    if (exchange_is_default(&plan->exchange)) {
        text_add(out, " exchange=");
        exchange_write(&plan->exchange, out);
    }
}

/* When only a bound is known, no expected time is shown. */
static void show_plan_row(const struct accurate_plan *plan)
{
    const struct time_to_accuracy *to = &plan->to;
    char time[40], most[40], steps[32];
    struct text layout = { 0 };
    bool is_known = to->basis != STEPS_BOUND;
    units_show_duration(to->seconds, time, sizeof time);
    units_show_duration(to->most_seconds, most, sizeof most);
    units_show_count(to->steps, steps, sizeof steps);
    add_layout(&layout, &plan->scored.plan);
    printf("  %10s  %19s  %7s  %8.4g  %-9s  %s\n", is_known ? time : "-", most,
           is_known ? steps : "-", plan->scored.prediction.step_s, steps_basis_names[to->basis],
           text_get(&layout));
    text_release(&layout);
}

static bool shares_source(const struct accurate_plan *a, const struct accurate_plan *b)
{
    return a->to.basis == b->to.basis && strcmp(a->to.source, b->to.source) == 0;
}

/* Lists the exchanges with the same evidence as row `first`. */
static void show_basis(const struct accuracy_result *result, int first)
{
    static const char *const meanings[] = {
        [STEPS_EXACT] = "as many steps as all-reduce: it computes the same sums",
        [STEPS_FITTED] = "",
        [STEPS_PUBLISHED] = "as many steps as all-reduce: ",
        [STEPS_BOUND] = "no such run was published: ranked by the worst case in theory",
    };
    const struct accurate_plan *row = &result->at[first];
    printf("  %-9s  %s%s (", steps_basis_names[row->to.basis], meanings[row->to.basis],
           row->to.source);
    for (int i = first; i < result->count; i++)
        if (shares_source(&result->at[i], row))
            printf("%s%s", i == first ? "" : ", ",
                   exchange_method_of(&result->at[i].scored.plan.exchange)->name);
    printf(")\n");
}

static void show_bases(const struct accuracy_result *result)
{
    for (int i = 0; i < result->count; i++) {
        bool is_told = false;
        for (int j = 0; j < i; j++)
            is_told = is_told || shares_source(&result->at[j], &result->at[i]);
        if (!is_told)
            show_basis(result, i);
    }
}

static void show_rows(const struct accuracy_result *result)
{
    printf("\n  %10s  %19s  %7s  %8s  %-9s  layout\n", "time", "at most", "steps", "step s",
           "steps by");
    for (int i = 0; i < result->count; i++)
        show_plan_row(&result->at[i]);
    printf("\n");
    show_bases(result);
}

static void show_result(const struct options *options, const struct setup *setup,
                        const struct accuracy_result *result)
{
    struct terminal terminal = terminal_of_stdout();
    if (!options->quiet) {
        show_header(&terminal, setup);
        printf("searched %.0f plans in %.1f s: each exchange on each number of data ranks, %d "
               "searches; %s\n",
               result->candidates, result->elapsed_s, result->searches,
               result->proved ? "each search proved its plan the fastest"
                              : "not every search was completed");
        printf("steps: until the loss that all-reduce reaches after all tokens; at most: the worst "
               "case in theory, with the constants of %s\n",
               setup_convergence_name(setup));
    }
    if (result->count == 0)
        printf("%s: no plan had been found by then\n",
               result->was_interrupted ? "INTERRUPTED" : "TIME LIMIT");
    else
        show_rows(result);
    if (result->count > 0) {
        const struct scored_plan *best = &result->at[0].scored;
        show_goodput(&terminal, setup, &best->plan, &best->prediction);
    }
}

int answer_accuracy(const struct options *options, struct setup *setup,
                    struct search_request *request, struct err *err)
{
    struct accuracy_result result = { 0 };
    struct progress_bar progress_bar;
    if (setup->model.tokens <= 0) {
        err_set(err, ERR_USAGE, "--tokens",
                "is missing; the target is the loss that all-reduce reaches after these tokens");
        return exit_code_of(err);
    }
    progress_bar_begin(&progress_bar, options, request);
    bool ok = search_time_to_accuracy(request, &result, err);
    progress_bar_end(&progress_bar);
    int code = result.was_interrupted ? EXIT_INTERRUPTED
               : result.timed_out     ? EXIT_TIME_LIMIT
                                      : EXIT_DONE;
    if (ok && result.count == 0 && code == EXIT_DONE)
        err_set(err, ERR_INFEASIBLE, "",
                "no plan fits with any exchange; the search without --objective says why");
    else if (ok && result.count > 0)
        setup_note_exchange(setup, &result.at[0].scored.plan);
    if (ok && options->json)
        print_rows(setup, &result, err);
    else if (ok && err->code == ERR_NONE)
        show_result(options, setup, &result);
    accuracy_result_release(&result);
    return err->code != ERR_NONE ? exit_code_of(err) : code;
}
