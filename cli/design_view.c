/* Shows the model that a budget should train, as text and as JSON. */
#include "cli/design_view.h"

#include "base/units.h"
#include "cli/input/command.h"
#include "cli/views/answer.h"
#include "cli/views/goodput_view.h"
#include "cli/views/infeasible.h"
#include "cli/views/searched.h"
#include "cli/views/show.h"

#include <stdio.h>

/* a count as text: "70.6 B" */
struct count_text {
    char text[32];
};

static struct count_text count_of(double value)
{
    struct count_text count;
    units_show_count(value, count.text, sizeof count.text);
    return count;
}

static double repeats_of(struct training training)
{
    return training.unique > 0 ? training.tokens / training.unique : 1;
}

/* The model and tokens that another published law gives for the design's FLOPs. Its loss is
 * predicted by the design's own law. */
static struct training by_law(const struct design_view *view, const struct size_law *law)
{
    struct scaling_budget budget = { view->design->flops, view->served,
                                     view->design->best.training.unique };
    double parameters = scaling_law_size(law, budget.flops);
    return (struct training){ parameters, scaling_tokens(budget, parameters), budget.unique };
}

/* --- text output ---------------------------------------------------------------------------- */

static void show_training(const struct design_view *view)
{
    const struct design_size *best = &view->design->best;
    struct loss_interval interval = scaling_loss_interval(&loss_laws[view->law], best->training);
    struct terminal terminal = terminal_of_stdout();
    printf(
        "\n  %sDESIGN      %s parameters on %s tokens: loss %.3f nats per token (%.2f to %.2f)%s\n",
        terminal_bold(&terminal), count_of(best->training.parameters).text,
        count_of(best->training.tokens).text, best->loss, interval.low, interval.high,
        terminal_plain(&terminal));
    if (repeats_of(best->training) > 1)
        printf("  data        %.2f passes over the %s different tokens, which lower the loss as "
               "much as %s tokens without repeats\n",
               repeats_of(best->training), count_of(best->training.unique).text,
               count_of(scaling_effective_tokens(best->training)).text);
}

static void show_shape(const struct design_view *view)
{
    const struct model *model = &view->design->best.model;
    printf("  shape       %d layers of width %d, %d heads", model->layers, model->hidden,
           model->heads);
    if (model->kv_heads != model->heads)
        printf(" (%d of keys and values)", model->kv_heads);
    printf(", feed-forward %d, vocabulary %d\n              %s\n", model->ffn, model->vocab,
           aspect_source(view->aspect));
}

static void show_budget(const struct design_view *view)
{
    const struct design *design = view->design;
    printf("  budget      %.3g FLOPs", design->flops);
    if (view->served > 0)
        printf(", %.3g of them to serve %s tokens",
               2 * design->best.training.parameters * view->served, count_of(view->served).text);
    printf("\n");
}

static void show_laws(const struct design_view *view)
{
    const struct loss_law *law = &loss_laws[view->law];
    printf("\n  other size laws    params   tokens    loss   (for the same FLOPs)\n");
    for (int i = 0; i < num_size_laws; i++) {
        struct training training = by_law(view, &size_laws[i]);
        bool trains = training.tokens > 0;
        printf("  %-14s  %9s", size_laws[i].name, count_of(training.parameters).text);
        if (trains)
            printf("  %7s  %6.3f", count_of(training.tokens).text, scaling_loss(law, training));
        else
            printf("  %7s  %6s", "-", "-");
        printf("   %s\n", size_laws[i].summary);
    }
    printf("  losses are those of the law %s: %s\n", loss_law_names[view->law], law->source);
}

void show_design(const struct design_view *view)
{
    struct terminal terminal = terminal_of_stdout();
    if (view->setup)
        show_header(&terminal, view->setup);
    else
        printf("simsearch %s\n", SIMSEARCH_VERSION);
    show_training(view);
    show_shape(view);
    show_budget(view);
    show_laws(view);
    if (!view->setup)
        return;
    const struct scored_plan *best = &view->result->top[0];
    show_plan(&terminal, view->setup, "BEST PLAN", &best->plan, &best->prediction, false);
    show_goodput(&terminal, view->setup, &best->plan, &best->prediction);
    printf("\nnumber of model sizes for which plans were searched: %d\n", view->design->searches);
    show_searched(view->result);
    show_proof(view->result);
}

/* --- JSON output ---------------------------------------------------------------------------- */

static json_t *laws_json(const struct design_view *view)
{
    json_t *rows = json_array();
    for (int i = 0; i < num_size_laws; i++) {
        struct training training = by_law(view, &size_laws[i]);
        bool trains = training.tokens > 0;
        json_t *row = json_object();
        json_object_set_new(row, "name", json_string(size_laws[i].name));
        json_object_set_new(row, "params", json_real(training.parameters));
        json_object_set_new(row, "tokens", json_real(trains ? training.tokens : 0));
        json_object_set_new(row, "loss",
                            trains ? json_real(scaling_loss(&loss_laws[view->law], training))
                                   : json_null());
        json_object_set_new(row, "summary", json_string(size_laws[i].summary));
        json_object_set_new(row, "source", json_string(size_laws[i].source));
        json_array_append_new(rows, row);
    }
    return rows;
}

static void add_plan_json(json_t *object, const struct design_view *view)
{
    const struct setup *setup = view->setup;
    const struct scored_plan *best = view->setup ? &view->result->top[0] : NULL;
    struct text layout = { 0 };
    if (best)
        plan_write(&best->plan, &layout);
    json_object_set_new(object, "layout", best ? json_string(text_get(&layout)) : json_null());
    double run_s = best ? goodput_of_plan(setup, &best->plan, &best->prediction).run_s.mean : 0;
    json_object_set_new(object, "days", best ? finite_json(run_s / DAY_S) : json_null());
    text_release(&layout);
    if (!best)
        return;
    json_object_set_new(object, "dollars", finite_json(dollars_of(setup, run_s)));
    json_object_set_new(object, "gpus", json_integer(setup->system.num_gpus));
    json_object_set_new(object, "cluster", json_string(setup->system.cluster.name));
    json_object_set_new(object, "best",
                        prediction_json(setup, &best->plan, &best->prediction, true));
    json_object_set_new(object, "proved_optimal", json_boolean(view->result->proved_optimal));
    json_object_set(object, "assumptions", setup->assumptions);
}

void print_design_json(const struct design_view *view)
{
    const struct design *design = view->design;
    const struct training *training = &design->best.training;
    struct loss_interval interval = scaling_loss_interval(&loss_laws[view->law], *training);
    json_t *object = json_object();
    json_object_set_new(object, "version", json_string(SIMSEARCH_VERSION));
    json_object_set_new(object, "params", number_json(training->parameters));
    json_object_set_new(object, "active_params", number_json(training->parameters));
    json_object_set_new(object, "tokens", json_real(training->tokens));
    json_object_set_new(object, "loss", json_real(design->best.loss));
    json_object_set_new(object, "loss_low", json_real(interval.low));
    json_object_set_new(object, "loss_high", json_real(interval.high));
    json_object_set_new(object, "law", json_string(loss_law_names[view->law]));
    json_object_set_new(object, "law_source", json_string(loss_laws[view->law].source));
    json_object_set_new(object, "flops", json_real(design->flops));
    json_object_set_new(object, "unique_tokens",
                        training->unique > 0 ? json_real(training->unique) : json_null());
    json_object_set_new(object, "epochs",
                        training->unique > 0 ? json_real(repeats_of(*training)) : json_null());
    json_object_set_new(object, "inference_tokens", json_real(view->served));
    json_object_set_new(object, "batch", number_json(design->best.model.batch));
    json_object_set_new(object, "model", model_write(&design->best.model));
    json_object_set_new(object, "aspect_source", json_string(aspect_source(view->aspect)));
    json_object_set_new(object, "searches", json_integer(design->searches));
    json_object_set_new(object, "laws", laws_json(view));
    add_plan_json(object, view);
    print_json(object);
    json_decref(object);
}

void print_no_design_json(const struct setup *setup, const struct err *err)
{
    json_t *object = json_object();
    json_object_set_new(object, "version", json_string(SIMSEARCH_VERSION));
    json_object_set(object, "assumptions", setup->assumptions);
    add_infeasible_json(object, NULL, err);
    print_json(object);
    json_decref(object);
}
