/* cli/design.c - the model that a budget should train. */
#include "search/questions/design.h"

#include "base/arena.h"
#include "cli/design_view.h"
#include "cli/input/command.h"
#include "cli/input/search_request.h"
#include "cli/input/setup_part.h"
#include "cli/views/answer.h"
#include "cli/views/progress_bar.h"

#include <math.h>
#include <stdlib.h>

static const char usual_style[] = "llama2-7b";

/* --- the budget ----------------------------------------------------------------------------- */

/* Reads FLOPs: a number like "5.76e23", or a model's name, which stands for 6 N D: N counts the
 * parameters that a token uses, D the tokens of its training. */
static bool read_flops(const char *text, double *flops, struct err *err)
{
    char *end;
    struct model model;
    *flops = strtod(text, &end);
    if (end != text && *end == '\0') {
        if (*flops >= 1e6 && *flops <= 1e36)
            return true;
        return err_set(err, ERR_USAGE, "--flops", "expected 1e6 to 1e36; found \"%.60s\"", text);
    }
    if (!model_load(text, &model, err)) {
        err_prefix(err, "--flops: ");
        return false;
    }
    *flops = 6 * model_active_parameters(&model) * model.tokens;
    if (*flops > 0)
        return true;
    return err_set(err, ERR_USAGE, "--flops", "%s does not say how many tokens it was trained on",
                   model.name);
}

static bool check_budget(const struct options *options, struct err *err)
{
    bool has_time = options->design.days > 0 || options->design.cost > 0;
    bool has_gpus = options->gpus > 0 || options->nodes > 0;
    const char *time = options->design.days > 0 ? "--days" : "--cost";
    if (options->design.flops && has_time)
        return err_set(err, ERR_USAGE, "--flops",
                       "cannot be combined with %s, as both set the budget; omit one of them",
                       time);
    if (!options->design.flops && !has_time)
        return err_set(err, ERR_USAGE, "--days",
                       "is missing: give a budget, as --days or --cost with --gpus, or as --flops");
    if (has_time && !has_gpus)
        return err_set(err, ERR_USAGE, "--gpus", "is missing: %s needs the number of GPUs", time);
    if (!has_gpus && options->output)
        return err_set(err, ERR_USAGE, "--output", "applies to a plan, which needs --gpus");
    return true;
}

/* Reads the time for which the GPUs are available. */
static bool read_time(const struct options *options, const struct setup *setup, double *time_s,
                      struct err *err)
{
    double price = setup->system.cluster.price_per_gpu_h, days_s = options->design.days * DAY_S;
    *time_s = options->design.days > 0 ? days_s : HUGE_VAL;
    if (options->design.cost <= 0)
        return true;
    if (price <= 0)
        return err_set(err, ERR_USAGE, "--price",
                       "is missing: %s states no price, which --cost needs",
                       setup->system.cluster.name);
    *time_s = fmin(*time_s, options->design.cost / (price * setup->system.num_gpus) * 3600);
    return true;
}

static struct design_view view_of(const struct options *options, const struct design *design)
{
    return (struct design_view){ .design = design,
                                 .law = (enum loss_law_name)options->design.law,
                                 .aspect = (enum aspect)options->design.aspect,
                                 .served = options->design.served_tokens };
}

static bool refuse_serving(const struct options *options, struct err *err)
{
    return err_set(err, ERR_INFEASIBLE, "--inference",
                   "serving %.3g tokens takes all of the budget and leaves none to train on",
                   options->design.served_tokens);
}

/* --- without GPUs --------------------------------------------------------------------------- */

/* Answers by the scaling law: the shape nearest to its size, and the tokens that the budget can
 * train on. */
static int answer_by_law(const struct options *options, struct err *err)
{
    struct design design = { 0 };
    struct scaling_budget budget = { .served = options->design.served_tokens,
                                     .unique = options->tokens };
    const struct loss_law *law = &loss_laws[options->design.law];
    struct model style, *model = &design.best.model;
    if (!model_load(options->model, &style, err) || !model_has_costs(&style, err) ||
        !read_flops(options->design.flops, &budget.flops, err))
        return exit_code_of(err);
    if (options->seq)
        style.seq = options->seq;
    if (style.positions == POSITION_LEARNED)
        style.max_positions = style.seq;
    double size = fmax(scaling_best(law, budget).parameters, shape_least(&style));
    if (!shape_of_size(&style, (enum aspect)options->design.aspect, size, model, err))
        return exit_code_of(err);
    double parameters = model_parameters(model), tokens = scaling_tokens(budget, parameters);
    design.best.training = (struct training){ parameters, tokens, budget.unique };
    if (tokens <= 0) {
        refuse_serving(options, err);
        return exit_code_of(err);
    }
    design.best.loss = scaling_loss(law, design.best.training);
    design.flops = design_flops(design.best.training, budget.served);
    model->tokens = tokens;
    model->batch = design_batch(design.flops, model->seq, 1);
    struct design_view view = view_of(options, &design);
    if (options->json)
        print_design_json(&view);
    else
        show_design(&view);
    return EXIT_DONE;
}

/* --- on GPUs -------------------------------------------------------------------------------- */

static bool refuse_all(const struct options *options, const struct setup *setup,
                       const struct design *design, struct err *err)
{
    if (design->best.fits && options->design.served_tokens > 0)
        return refuse_serving(options, err);
    if (design->best.fits)
        return err_set(err, ERR_INFEASIBLE, "",
                       "the training would never end: failures come faster than recoveries");
    return err_set(err, ERR_INFEASIBLE, "",
                   "no size in the style of %s has a feasible plan on %d GPUs", options->model,
                   setup->system.num_gpus);
}

static void assume(const struct options *options, struct setup *setup)
{
    const struct model *model = &setup->model;
    if (!options->batch)
        setup_assume(setup,
                     "batch %.0f sequences (%.3g tokens), the power of two near 0.2920 C^0.3271 "
                     "tokens (DeepSeek LLM, 2024) that divides over the GPUs",
                     model->batch, model->batch * model->seq);
    if (options->tokens > 0 && options->design.law != LAW_C4)
        setup_assume(setup, "in every law repeated tokens count less than new ones, as fitted on "
                            "C4 (Muennighoff et al. 2023)");
    if (options->design.served_tokens > 0)
        setup_assume(setup, "serving uses the GPUs as efficiently as training, so that a served "
                            "token takes a third of a trained token's time");
    setup_note_storage(setup);
}

/* Searches for the plan of the designed model, prints both and writes the plan. */
static int answer_plan(const struct options *options, struct setup *setup,
                       const struct search_request *request, const struct design *design,
                       struct err *err)
{
    struct search_result result = { 0 };
    struct design_view view = view_of(options, design);
    bool ok = search_run(request, &result, err);
    const struct scored_plan *best = result.num_top > 0 ? &result.top[0] : NULL;
    if (ok && !best)
        refuse_all(options, setup, design, err);
    view.setup = setup;
    view.result = &result;
    if (best && options->output)
        write_plan(options->output, setup, &best->plan, &best->prediction, err);
    if (err->code == ERR_NONE && !options_answer_is_hidden(options)) {
        if (options->json)
            print_design_json(&view);
        else
            show_design(&view);
    }
    search_result_release(&result);
    return exit_code_of(err);
}

static int answer_on_gpus(struct options *options, struct setup *setup, struct err *err)
{
    struct search_request request = search_request_of(options, setup);
    struct design_request asked = { .search = &request,
                                    .aspect = (enum aspect)options->design.aspect,
                                    .law = &loss_laws[options->design.law],
                                    .budget = { .served = options->design.served_tokens,
                                                .unique = options->tokens },
                                    .batch_is_stated = options->batch != NULL };
    struct design design;
    struct progress_bar progress_bar;
    if (options->design.flops ? !read_flops(options->design.flops, &asked.budget.flops, err)
                              : !read_time(options, setup, &asked.time_s, err))
        return exit_code_of(err);
    request.top = 1;
    progress_bar_begin(&progress_bar, options, &request);
    bool ok = search_design(&asked, &design, err);
    progress_bar_end(&progress_bar);
    if (!ok)
        return exit_code_of(err);
    bool has_answer = isfinite(design.best.loss);
    bool is_over = design.was_interrupted || design.timed_out;
    if (!has_answer && !is_over)
        refuse_all(options, setup, &design, err);
    setup->model = design.best.model;
    assume(options, setup);
    int code = design.was_interrupted ? EXIT_INTERRUPTED
               : design.timed_out     ? EXIT_TIME_LIMIT
                                      : EXIT_DONE;
    if (has_answer) {
        request.time_limit_s = 0;
        int failed = answer_plan(options, setup, &request, &design, err);
        return failed != EXIT_DONE ? failed : code;
    }
    if (err->code == ERR_INFEASIBLE && options->json)
        print_no_design_json(setup, err);
    return err->code != ERR_NONE ? exit_code_of(err) : code;
}

/* The batch follows from the model's size, so the setup gets a placeholder and assumes none. */
static bool load_setup(const struct options *options, struct setup *setup, struct err *err)
{
    struct options given = *options;
    given.tokens = 0; /* --tokens here is part of the budget, not of the run */
    if (!given.batch)
        given.batch = "1seq";
    return setup_load(&given, NULL, setup, err);
}

int cmd_design(int argc, char **argv, struct err *err)
{
    struct options options;
    struct setup setup = { 0 };
    if (!options_parse(COMMAND_DESIGN, 0, argc, argv, &options, err) ||
        !check_budget(&options, err))
        return exit_code_of(err);
    if (!options.model)
        options.model = usual_style;
    if (options.gpus == 0 && options.nodes == 0)
        return answer_by_law(&options, err);
    int code = EXIT_FAILED;
    if (load_setup(&options, &setup, err))
        code = answer_on_gpus(&options, &setup, err);
    setup_release(&setup);
    return err->code != ERR_NONE ? exit_code_of(err) : code;
}
