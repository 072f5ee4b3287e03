#include "cli/accuracy_view.h"

#include "cli/answer.h"
#include "cli/command.h"
#include "cli/infeasible.h"
#include "cli/patience.h"
#include "cli/show.h"
#include "search/accuracy.h"

#include <stdio.h>

static json_t *row_json(const struct setup *setup, const struct accurate_plan *plan)
{
    json_t *object = prediction_json(setup, &plan->scored.plan, &plan->scored.prediction, false);
    json_object_set_new(object, "steps", json_real(plan->to.steps));
    json_object_set_new(object, "transient_steps", json_real(plan->to.transient_steps));
    json_object_set_new(object, "all_reduce_steps", json_real(plan->to.all_reduce_steps));
    json_object_set_new(object, "seconds_to_accuracy", json_real(plan->to.seconds));
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

static void show_rows(const struct accuracy_result *result)
{
    printf("\n  %9s %11s %11s %9s  layout\n", "days", "steps", "transient", "step s");
    for (int i = 0; i < result->count; i++) {
        const struct accurate_plan *plan = &result->at[i];
        struct text layout = { 0 };
        plan_write(&plan->scored.plan, &layout);
        printf("  %9.4g %11.4g %11.4g %9.4g  %s\n", plan->to.seconds / 86400, plan->to.steps,
               plan->to.transient_steps, plan->scored.prediction.step_s, text_get(&layout));
        text_release(&layout);
    }
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
               result->proved ? "the fastest step of each is proved"
                              : "not every search came to its end");
        printf("steps: theory's orders, scaled to %s, to where all-reduce is after all tokens\n",
               setup_convergence_name(setup));
    }
    show_rows(result);
}

int answer_accuracy(const struct options *options, struct setup *setup,
                    struct search_request *request, struct err *err)
{
    struct accuracy_result result = { 0 };
    struct patience patience;
    if (setup->model.tokens <= 0) {
        err_set(err, ERR_USAGE, "--tokens",
                "is missing: time-to-accuracy is that of training on all of them");
        return exit_code_of(err);
    }
    patience_begin(&patience, options, request);
    bool ok = search_accuracy(request, &result, err);
    patience_end(&patience);
    if (ok && result.count == 0)
        err_set(err, ERR_INFEASIBLE, "",
                "no plan fits with any exchange; the search without --objective says why");
    else if (ok)
        setup_note_exchange(setup, &result.at[0].scored.plan);
    if (ok && options->json)
        print_rows(setup, &result, err);
    else if (ok && result.count > 0)
        show_result(options, setup, &result);
    accuracy_result_release(&result);
    return err->code != ERR_NONE ? exit_code_of(err) : EXIT_DONE;
}
