/* cli/simulate.c - predicts one plan. */
#include "cli/input/command.h"
#include "cli/input/options.h"
#include "cli/input/setup.h"
#include "cli/print/terminal.h"
#include "cli/timeline/trace.h"
#include "cli/views/answer.h"
#include "cli/views/remedy_view.h"
#include "cli/views/show.h"
#include "cli/views/time_to_accuracy_view.h"
#include "sim/campaign/time_to_accuracy.h"
#include "sim/engine/event_step.h"
#include "sim/plan/lowering.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_INSTRUCTIONS = 4000000, MOST_DRAWN = 1000000, DEFAULT_SEED = 1 };
static const double most_in_draws = 2e8; /* about half a minute of computing */

static bool print_schedule(struct setup *setup, const struct plan *plan, struct err *err)
{
    struct schedule_shape shape = plan_shape(plan, setup->model.batch);
    struct lowering lowering = plan_lowering(plan, &setup->model);
    double instructions = plan_instructions(plan, setup->model.batch);
    if (instructions > MOST_INSTRUCTIONS)
        return err_set(err, ERR_USAGE, "--schedule-text",
                       "expected at most %d instructions; this plan has about %.0f",
                       MOST_INSTRUCTIONS, instructions);
    const struct generator *generator = generator_find(plan_schedule(plan));
    struct schedule *schedule = schedule_new(generator, &shape, &lowering, &setup->arena, err);
    if (!schedule)
        return false;
    struct text text = { 0 };
    schedule_write(schedule, &text);
    printf("%s", text_get(&text));
    text_release(&text);
    return true;
}

/* Runs the event engine for the picture and the trace, if requested. */
static bool run_events(const struct options *options, struct setup *setup,
                       struct evaluator *evaluator, struct event_step *step, struct err *err)
{
    const char *option = options->trace ? "--trace" : "--gantt";
    double instructions = plan_instructions(&setup->plan, setup->model.batch);
    if (!options->trace && !options->gantt)
        return true;
    if (instructions > MOST_DRAWN)
        return err_set(err, ERR_USAGE, option,
                       "expected at most %d instructions; this plan has about %.0f", MOST_DRAWN,
                       instructions);
    return event_step_run(evaluator, &setup->model, &setup->plan, &setup->arena, step, err);
}

/* Runs drawn steps, if requested. */
static bool run_draws(const struct options *options, struct setup *setup,
                      struct evaluator *evaluator, struct drawn_steps *drawn, struct err *err)
{
    struct draws draws = { options->draws, options->seed > 0 ? options->seed : DEFAULT_SEED };
    double instructions = plan_instructions(&setup->plan, setup->model.batch) * draws.count;
    if (draws.count == 0)
        return true;
    if (instructions > most_in_draws)
        return err_set(err, ERR_USAGE, "--draws",
                       "expected at most %.0f instructions in all draws; these have about %.0f",
                       most_in_draws, instructions);
    return event_step_draw(evaluator, &setup->model, &setup->plan, draws, drawn, err);
}

/* The event engine's results, shown with the prediction. */
struct event_answer {
    struct event_step step;   /* timeline NULL: not run */
    struct drawn_steps drawn; /* draws.count 0: not drawn */
};

static json_t *drawn_json(const struct drawn_steps *drawn)
{
    return json_pack("{s:i, s:i, s:f, s:f}", "count", drawn->draws.count, "seed", drawn->draws.seed,
                     "median_s", drawn->median_s, "p90_s", drawn->p90_s);
}

/* The time to an accuracy; null if the accuracy is never reached. */
static json_t *accuracy_json(const struct setup *setup, const struct prediction *prediction)
{
    struct time_to_accuracy to = time_to_accuracy(&setup->convergence.convergence, &setup->system,
                                                  &setup->model, &setup->plan, prediction->step_s);
    bool is_reached = isfinite(to.steps);
    json_t *json = json_pack("{s:f, s:f, s:o, s:o}", "all_reduce_steps", to.all_reduce_steps,
                             "transient_steps", to.transient_steps, "steps",
                             is_reached ? json_real(to.steps) : json_null(), "seconds",
                             is_reached ? json_real(to.seconds) : json_null());
    accuracy_set_basis(json, &to);
    return json;
}

static json_t *answer_json(const struct setup *setup, const struct prediction *prediction,
                           const struct event_answer *events)
{
    json_t *json = prediction_json(setup, &setup->plan, prediction, true);
    if (events->step.timeline)
        json_object_set_new(json, "event_step_s", json_real(events->step.step_s));
    if (events->drawn.draws.count > 0)
        json_object_set_new(json, "draws", drawn_json(&events->drawn));
    if (!prediction->fits)
        add_remedies_json(json, setup, &setup->plan, remedy_usual_bytes(setup));
    if (!exchange_is_default(&setup->plan.exchange) && setup->model.tokens > 0)
        json_object_set_new(json, "time_to_accuracy", accuracy_json(setup, prediction));
    json_object_set(json, "assumptions", setup->assumptions);
    return json;
}

static bool write_trace(const struct options *options, const struct setup *setup,
                        const struct prediction *prediction, const struct event_step *step,
                        struct err *err)
{
    json_t *about = json_object();
    struct text layout = { 0 };
    plan_write(&setup->plan, &layout);
    json_object_set_new(about, "version", json_string(SIMSEARCH_VERSION));
    json_object_set_new(about, "model", json_string(setup->model.name));
    json_object_set_new(about, "cluster", json_string(setup->system.cluster.name));
    json_object_set_new(about, "layout", json_string(text_get(&layout)));
    json_object_set_new(about, "step_s", json_real(prediction->step_s));
    json_object_set_new(about, "event_step_s", json_real(step->step_s));
    bool ok = trace_write(options->trace, step->timeline, prediction, about, err);
    text_release(&layout);
    json_decref(about);
    return ok;
}

static void print_answer(const struct options *options, const struct setup *setup,
                         const struct prediction *prediction, const struct event_answer *events)
{
    if (!options->json) {
        show_simulation(options, setup, prediction, events->step.timeline ? &events->step : NULL,
                        events->drawn.draws.count > 0 ? &events->drawn : NULL);
        return;
    }
    json_t *json = answer_json(setup, prediction, events);
    print_json(json);
    json_decref(json);
}

/* Writes files first, so that a failure leaves stdout empty. */
static bool print_prediction(const struct options *options, struct setup *setup, struct err *err)
{
    setup_note_storage(setup);
    struct evaluator *evaluator = evaluator_new(&setup->system, &setup->model);
    struct prediction prediction = evaluate(evaluator, &setup->plan);
    struct event_answer events = { 0 };
    bool ok =
        run_events(options, setup, evaluator, &events.step, err) &&
        run_draws(options, setup, evaluator, &events.drawn, err) &&
        (!options->trace || write_trace(options, setup, &prediction, &events.step, err)) &&
        (!options->output || write_plan(options->output, setup, &setup->plan, &prediction, err));
    if (ok && !options_answer_is_hidden(options))
        print_answer(options, setup, &prediction, &events);
    evaluator_free(evaluator);
    return ok;
}

/* Rejects combinations of options that print different answers. */
static bool check_options(const struct options *options, struct err *err)
{
    const char *text = options->schedule_text ? "--schedule-text"
                       : options->gantt       ? "--gantt"
                                              : NULL;
    if (text && options->json)
        return err_set(err, ERR_USAGE, text, "is text and has no JSON form");
    if (options->schedule_text && (options->gantt || options->trace))
        return err_set(err, ERR_USAGE, "--schedule-text",
                       "prints no prediction, so %s has no effect",
                       options->gantt ? "--gantt" : "--trace");
    if (options->schedule_text && options->draws > 0)
        return err_set(err, ERR_USAGE, "--schedule-text", "runs no step, so --draws has no effect");
    if (options->seed > 0 && options->draws == 0)
        return err_set(err, ERR_USAGE, "--seed", "needs --draws, which is missing");
    return true;
}

int cmd_simulate(int argc, char **argv, struct err *err)
{
    struct options options;
    struct setup setup = { 0 };
    if (!options_parse(COMMAND_SIMULATE, 1, argc, argv, &options, err))
        return exit_code_of(err);
    const char *path = options.num_files > 0 ? options.files[0] : NULL;
    if (!path && !options.layout)
        err_set(err, ERR_USAGE, "--layout",
                "is missing; expected a layout like \"tp8 pp16 mb1 sp zero1\", or a plan file");
    else if (check_options(&options, err) && setup_load(&options, path, &setup, err) &&
             options.schedule_text)
        print_schedule(&setup, &setup.plan, err);
    else if (err->code == ERR_NONE)
        print_prediction(&options, &setup, err);
    setup_release(&setup);
    return exit_code_of(err);
}
