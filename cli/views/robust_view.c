#include "cli/views/robust_view.h"

#include "cli/print/terminal.h"
#include "cli/views/answer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NUM_RIVALS = 256, NUM_DRAWS = 200, DEFAULT_SEED = 1 };

bool check_robust_options(struct options *options, struct err *err)
{
    static const struct field share = { .name = "--robust", .kind = FIELD_NUMBER, .max = 0.9 };
    const char *words = options->search.robust_words;
    if (!words)
        return true;
    if (options->search.objective == OBJECTIVE_MEMORY)
        return err_set(
            err, ERR_USAGE, "--robust",
            "expected --objective time or cost; found memory: --robust varies only times");
    options->search.robust_region = strcmp(words, "region") == 0;
    if (!options->search.robust_region &&
        !field_parse(&share, words, &options->search.robust, err)) {
        err->code = ERR_USAGE;
        return false;
    }
    if (options->search.robust_region && options->search.objective != OBJECTIVE_TIME)
        return err_set(err, ERR_USAGE, "--robust region", "expected --objective time; found %s",
                       objective_names[options->search.objective]);
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

/* --- text output -------------------------------------------------------------------------- */

static void show_score(const struct robust_view *view, const char *title,
                       const struct rival_score *score)
{
    struct text layout = { 0 };
    add_layout(view, score->rival, &layout);
    printf("    %-11s best in %3.0f %% of draws, within 1 %% of the best in %3.0f %%, fits in "
           "%3.0f %%, at most %.1f %% slower than the best: %s\n",
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
        text_add(&layout, "no plan fits");
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
        printf("    no error up to %.0f %% makes another plan the best: %s\n", 100 * LARGEST_FLIP,
               text_get(&names));
    text_release(&names);
}

void show_robustness(const struct robust_view *view)
{
    const struct robustness *found = &view->found;
    struct terminal terminal = terminal_of_stdout();
    bool any = false;
    if (!view->is_asked)
        return;
    printf("\n"
           "  robust    %d random draws of the errors of %d classes of cost, each up to %.0f %%; "
           "the %d best plans are compared\n",
           found->num_draws, num_cost_classes, 100 * found->spread, found->num_rivals);
    show_score(view, "#1", &found->choice);
    if (found->often.rival != 0)
        show_score(view, "more often", &found->often);
    if (found->safe.rival != 0)
        show_score(view, "safest", &found->safe);
    for (int i = 0; i < num_cost_classes; i++)
        any |= found->flips[i].factor != 0;
    if (any)
        printf("    smallest error of one class of cost that makes another plan the best:\n");
    for (int i = 0; i < num_cost_classes; i++)
        if (found->flips[i].factor != 0)
            show_flip(view, &terminal, i);
    show_steady(view);
}

/* Adds four percentages: "13, 60, 71 and 20 %". */
static void add_quarters(const double quarters[NUM_QUARTERS], struct text *out)
{
    for (int q = 0; q < NUM_QUARTERS; q++)
        text_add(out, "%s%.0f",
                 q == 0                  ? ""
                 : q == NUM_QUARTERS - 1 ? " and "
                                         : ", ",
                 100 * quarters[q]);
    text_add(out, " %%");
}

static void show_range(const struct region_range *range, bool decides)
{
    struct text best = { 0 }, beaten = { 0 };
    add_quarters(range->best, &best);
    add_quarters(range->beaten, &beaten);
    printf("      %-28s %9.3g to %-9.3g: in the quarters of this range #1 is the best in %s of the "
           "region and beaten in %s%s\n",
           range->of->name, range->low, range->high, text_get(&best), text_get(&beaten),
           decides ? " (largest influence)" : "");
    text_release(&best);
    text_release(&beaten);
}

static void show_rivals(const char *what, const struct region_rival *rivals, int count)
{
    for (int i = 0; i < count; i++) {
        struct text layout = { 0 };
        plan_write(&rivals[i].plan, &layout);
        printf("    %-17s %4.1f %% of the region: %s\n", what, 100 * rivals[i].volume,
               text_get(&layout));
        text_release(&layout);
    }
}

void show_region(const struct region *region)
{
    if (!region)
        return;
    double undecided = fmax(0, 1 - region->best_share - region->beaten_share);
    printf("\n  robust    the 90 %% confidence region of %d fitted constant%s, divided into %d "
           "cells; #1 is compared with %.0f plans\n",
           region->num_ranges, region->num_ranges == 1 ? "" : "s", region->parts, region->plans);
    printf("    #1 is proved within %.1f %% of the best in at least %.1f %% of the region, and "
           "proved beaten in at least %.1f %%; %.1f %% are undecided\n",
           100 * BEST_WITHIN, floor(1000 * region->best_share) / 10,
           floor(1000 * region->beaten_share) / 10, 100 * undecided);
    show_rivals("faster in", region->faster, region->num_faster);
    show_rivals("perhaps faster in", region->closest, region->num_closest);
    for (int i = 0; i < region->num_ranges; i++)
        show_range(&region->ranges[i], i == region->decides);
    if (region->num_ranges == 0)
        printf("    no constant of this profile and stack was fitted with a standard error\n");
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

static json_t *quarters_json(const double quarters[NUM_QUARTERS])
{
    json_t *list = json_array();
    for (int q = 0; q < NUM_QUARTERS; q++)
        json_array_append_new(list, json_real(quarters[q]));
    return list;
}

static json_t *ranges_json(const struct region *region)
{
    json_t *list = json_array();
    for (int i = 0; i < region->num_ranges; i++) {
        const struct region_range *range = &region->ranges[i];
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:o, s:o}", "name", range->of->name,
                            "of", range->of->is_of_stack ? "stack" : "profile", "value",
                            range->value, "standard_error", range->of->log_sd, "low", range->low,
                            "high", range->high, "best_by_quarter", quarters_json(range->best),
                            "beaten_by_quarter", quarters_json(range->beaten)));
    }
    return list;
}

static json_t *rivals_json(const struct region_rival *rivals, int count)
{
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        struct text layout = { 0 };
        plan_write(&rivals[i].plan, &layout);
        json_array_append_new(
            list, json_pack("{s:s, s:f}", "layout", text_get(&layout), "share", rivals[i].volume));
        text_release(&layout);
    }
    return list;
}

void add_region_json(json_t *object, const struct region *region)
{
    if (!region)
        return;
    double undecided = fmax(0, 1 - region->best_share - region->beaten_share);
    json_t *json =
        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:f}", "probability", region->probability,
                  "deviations", region->z, "within", BEST_WITHIN, "best_share", region->best_share,
                  "beaten_share", region->beaten_share, "undecided_share", undecided, "parts",
                  region->parts, "plans", region->plans);
    json_object_set_new(json, "decides",
                        region->decides >= 0 ? json_string(region->ranges[region->decides].of->name)
                                             : json_null());
    json_object_set_new(json, "constants", ranges_json(region));
    json_object_set_new(json, "faster", rivals_json(region->faster, region->num_faster));
    json_object_set_new(json, "closest", rivals_json(region->closest, region->num_closest));
    json_object_set_new(object, "region", json);
}
