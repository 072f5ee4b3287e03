#include "cli/views/robust_view.h"

#include "cli/print/terminal.h"
#include "cli/views/answer.h"

#include <math.h>
#include <stdio.h>

enum { NUM_RIVALS = 256, NUM_DRAWS = 200, DEFAULT_SEED = 1 };

bool check_robust_options(const struct options *options, struct err *err)
{
    if (options->search.robust >= 0 && options->search.objective == OBJECTIVE_MEMORY)
        return err_set(err, ERR_USAGE, "--robust",
                       "expected --objective time or cost; found memory: what is drawn are times");
    return true;
}

int robust_top(const struct options *options, int top)
{
    return options->search.robust >= 0 && top < NUM_RIVALS ? NUM_RIVALS : top;
}

struct robust_view robust_find(const struct options *options, const struct setup *setup,
                               const struct search_request *request,
                               const struct search_result *result)
{
    struct robust_view view = { .is_asked = options->search.robust >= 0 && result->num_top > 0,
                                .seed = options->seed > 0 ? options->seed : DEFAULT_SEED,
                                .result = result };
    struct system system = setup->system;
    system.gpu.memory_bytes = result->planned_bytes;
    struct robust_request asked = { .system = &system,
                                    .model = &setup->model,
                                    .rivals = result->top,
                                    .num_rivals = result->num_top,
                                    .spread = options->search.robust,
                                    .num_draws = NUM_DRAWS,
                                    .seed = (uint64_t)view.seed,
                                    .jobs = request->jobs };
    if (asked.num_rivals > NUM_RIVALS)
        asked.num_rivals = NUM_RIVALS;
    if (view.is_asked)
        view.found = search_robust(&asked);
    return view;
}

static void add_layout(const struct robust_view *view, int rival, struct text *out)
{
    plan_write(&view->result->top[rival].plan, out);
}

/* --- for people --------------------------------------------------------------------------- */

static void show_score(const struct robust_view *view, const char *title,
                       const struct rival_score *score)
{
    struct text layout = { 0 };
    add_layout(view, score->rival, &layout);
    printf("    %-11s best in %3.0f %% of draws, within 1 %% of it in %3.0f %%, fits in %3.0f %%, "
           "loses %.1f %% at most: %s\n",
           title, 100 * score->best_share, 100 * score->close_share, 100 * score->fits_share,
           100 * score->largest_regret, text_get(&layout));
    text_release(&layout);
}

static void show_flip(const struct robust_view *view, const struct terminal *terminal, int i)
{
    const struct flip *flip = &view->found.flips[i];
    struct text layout = { 0 };
    if (flip->to >= 0)
        add_layout(view, flip->to, &layout);
    else
        text_add(&layout, "nothing that fits");
    printf("      %s%4.1f %%  %-42s %s\n", flip->factor < 1 ? terminal_minus(terminal) : "+",
           100 * fabs(flip->factor - 1), cost_classes[i].summary, text_get(&layout));
    text_release(&layout);
}

static void show_steady(const struct robust_view *view)
{
    struct text names = { 0 };
    for (int i = 0; i < num_cost_classes; i++)
        if (view->found.flips[i].factor == 0)
            text_add(&names, "%s%s", names.length > 0 ? ", " : "", cost_classes[i].name);
    if (names.length > 0)
        printf("    no other up to %.0f %% of: %s\n", 100 * LARGEST_FLIP, text_get(&names));
    text_release(&names);
}

void show_robustness(const struct robust_view *view)
{
    const struct robustness *found = &view->found;
    struct terminal terminal = terminal_of_stdout();
    bool any = false;
    if (!view->is_asked)
        return;
    printf("\n  robust    %d draws, %d sorts of cost each up to %.0f %% off, among the %d best\n",
           found->num_draws, num_cost_classes, 100 * found->spread, found->num_rivals);
    show_score(view, "#1", &found->choice);
    if (found->often.rival != 0)
        show_score(view, "more often", &found->often);
    if (found->safe.rival != 0)
        show_score(view, "safest", &found->safe);
    for (int i = 0; i < num_cost_classes; i++)
        any |= found->flips[i].factor != 0;
    if (any)
        printf("    alone, this would make another the best:\n");
    for (int i = 0; i < num_cost_classes; i++)
        if (found->flips[i].factor != 0)
            show_flip(view, &terminal, i);
    show_steady(view);
}

/* --- JSON --------------------------------------------------------------------------------- */

static void set_layout(json_t *object, const char *key, const struct robust_view *view, int rival)
{
    struct text layout = { 0 };
    add_layout(view, rival, &layout);
    json_object_set_new(object, key, json_string(text_get(&layout)));
    text_release(&layout);
}

static json_t *score_json(const struct robust_view *view, const struct rival_score *score)
{
    json_t *object = json_object();
    set_layout(object, "layout", view, score->rival);
    json_object_set_new(object, "rank", json_integer(score->rival + 1));
    json_object_set_new(object, "best_share", json_real(score->best_share));
    json_object_set_new(object, "close_share", json_real(score->close_share));
    json_object_set_new(object, "fits_share", json_real(score->fits_share));
    json_object_set_new(object, "largest_regret", json_real(score->largest_regret));
    json_object_set_new(object, "mean_regret", json_real(score->mean_regret));
    return object;
}

static json_t *flip_json(const struct robust_view *view, int i)
{
    const struct flip *flip = &view->found.flips[i];
    json_t *object = json_object();
    json_object_set_new(object, "name", json_string(cost_classes[i].name));
    json_object_set_new(object, "summary", json_string(cost_classes[i].summary));
    json_object_set_new(object, "flip_factor",
                        flip->factor != 0 ? json_real(flip->factor) : json_null());
    if (flip->factor != 0 && flip->to >= 0)
        set_layout(object, "to", view, flip->to);
    else
        json_object_set_new(object, "to", json_null());
    return object;
}

void add_robustness_json(json_t *object, const struct robust_view *view)
{
    const struct robustness *found = &view->found;
    if (!view->is_asked)
        return;
    json_t *robustness = json_object(), *classes = json_array();
    for (int i = 0; i < num_cost_classes; i++)
        json_array_append_new(classes, flip_json(view, i));
    json_object_set_new(robustness, "spread", json_real(found->spread));
    json_object_set_new(robustness, "draws", json_integer(found->num_draws));
    json_object_set_new(robustness, "seed", json_integer(view->seed));
    json_object_set_new(robustness, "rivals", json_integer(found->num_rivals));
    json_object_set_new(robustness, "choice", score_json(view, &found->choice));
    json_object_set_new(robustness, "most_often", score_json(view, &found->often));
    json_object_set_new(robustness, "safest", score_json(view, &found->safe));
    json_object_set_new(robustness, "classes", classes);
    json_object_set_new(object, "robustness", robustness);
}
