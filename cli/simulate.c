/* cli/simulate.c - the prediction of one plan. */
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/setup.h"
#include "cli/show.h"
#include "cli/terminal.h"
#include "sim/schedule/schedule.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_INSTRUCTIONS = 4000000 };

/* What the schedule of this plan needs beside compute. */
static struct lowering lowering_of(const struct plan *plan, const struct model *model)
{
    bool has_data_group = (double)plan->dp * plan->cp > 1;
    return (struct lowering){
        .recompute = plan->recompute >= RECOMPUTE_FULL,
        .gather_params = plan->zero == 3 && has_data_group,
        .reduce_each = plan->zero >= 2,
        .has_data_group = has_data_group,
        .gather_updated = (plan->zero == 1 || plan->zero == 2) && has_data_group,
        .tied = model->tied && plan->pp > 1,
    };
}

static bool print_schedule(struct setup *setup, const struct plan *plan, struct err *err)
{
    struct schedule_shape shape = { plan->pp, plan->vpp,
                                    plan_microbatches(plan, setup->model.batch) };
    struct lowering lowering = lowering_of(plan, &setup->model);
    double instructions = 8.0 * shape.num_stages * shape.chunks_per_stage * shape.num_microbatches;
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

static bool print_prediction(const struct options *options, struct setup *setup, struct err *err)
{
    struct evaluator *evaluator = evaluator_new(&setup->system, &setup->model);
    struct prediction prediction = evaluate(evaluator, &setup->plan);
    bool ok =
        !options->output || write_plan(options->output, setup, &setup->plan, &prediction, err);
    if (ok && options->json) {
        json_t *json = prediction_json(setup, &setup->plan, &prediction, true);
        json_object_set(json, "assumptions", setup->assumptions);
        print_json(json);
        json_decref(json);
    } else if (ok) {
        show_simulation(options, setup, &prediction);
    }
    evaluator_free(evaluator);
    return ok;
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
    else if (options.schedule_text && options.json)
        err_set(err, ERR_USAGE, "--schedule-text", "is text and can't be JSON");
    else if (setup_load(&options, path, &setup, err) && options.schedule_text)
        print_schedule(&setup, &setup.plan, err);
    else if (err->code == ERR_NONE)
        print_prediction(&options, &setup, err);
    setup_release(&setup);
    return exit_code_of(err);
}
