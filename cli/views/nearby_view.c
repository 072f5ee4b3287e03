/* Shows what slightly fewer GPUs, or a slightly different batch, would gain. */
#include "cli/views/nearby_view.h"

#include "base/clock.h"
#include "base/units.h"
#include "cli/print/scale.h"
#include "cli/views/answer.h"

#include <math.h>
#include <stdio.h>

/* Least relative gain in tokens/s for which another batch, or fewer GPUs, is shown. */
#define LEAST_GAIN 0.05

static void begin(const struct search_request *request, struct nearby_view *view)
{
    *view = (struct nearby_view){ .asked_gpus = request->system->num_gpus,
                                  .asked_batch = request->model->batch,
                                  .start_s = clock_now_s() };
}

static bool add(struct nearby found, struct nearby_view *view)
{
    if (found.num_gpus == 0)
        return false;
    view->at[view->count++] = found;
    return true;
}

static struct nearby other_batch(const struct search_request *asked, struct nearby_view *view)
{
    return nearby_batch(asked, &view->arena);
}

static struct nearby both_changed(const struct search_request *asked, struct nearby_view *view)
{
    return nearby_both(asked, &view->arena);
}

static struct nearby fewer_gpus(const struct search_request *asked, struct nearby_view *view)
{
    return nearby_gpus(asked, view->least, &view->arena);
}

/* All searches share the request's time limit. */
static bool add_by(struct nearby (*search)(const struct search_request *, struct nearby_view *),
                   const struct search_request *asked, struct nearby_view *view)
{
    struct search_request request = *asked;
    if (asked->time_limit_s > 0)
        request.time_limit_s -= clock_now_s() - view->start_s;
    bool has_time = asked->time_limit_s <= 0 || request.time_limit_s > 0;
    return has_time && add(search(&request, view), view);
}

static void add_batches(const struct search_request *request, struct nearby_view *view)
{
    add_by(other_batch, request, view);
    add_by(both_changed, request, view);
}

void nearby_instead(const struct search_request *request, struct nearby_view *out)
{
    begin(request, out);
    if (add_by(fewer_gpus, request, out))
        add_batches(request, out);
}

void nearby_beside(const struct search_request *request, int num_gpus,
                   const struct scored_plan *taken, struct nearby_view *out)
{
    begin(request, out);
    struct scored_plan kept = scored_plan_copy(taken, &out->arena);
    add((struct nearby){ num_gpus, request->model->batch, kept }, out);
    add_batches(request, out);
}

void nearby_better(const struct search_request *request, const struct scored_plan *best,
                   struct nearby_view *out)
{
    begin(request, out);
    out->least = (1 + LEAST_GAIN) * best->prediction.tokens_per_s;
    if (add_by(other_batch, request, out) && out->at[0].best.prediction.tokens_per_s < out->least)
        out->count = 0;
    if (!nearby_is_round(request))
        add_by(fewer_gpus, request, out);
}

void nearby_release(struct nearby_view *view)
{
    arena_release(&view->arena);
    view->count = 0;
}

/* --- text output -------------------------------------------------------------------------- */

/* Writes how the request was changed: "864 GPUs", "batch 1500", "992 GPUs, batch 1488". */
static void add_change(const struct nearby_view *view, const struct nearby *nearby,
                       struct text *out)
{
    if (nearby->num_gpus != view->asked_gpus)
        text_add(out, "%d GPUs", nearby->num_gpus);
    if (nearby->batch != view->asked_batch)
        text_add(out, "%sbatch %.0f", out->length > 0 ? ", " : "", nearby->batch);
}

/* GPU hours for 1e9 tokens. */
static double gpu_hours(const struct nearby *nearby)
{
    return nearby->num_gpus * 1e9 / nearby->best.prediction.tokens_per_s / 3600;
}

static void add_cost(const struct setup *setup, const struct nearby *nearby, struct text *out)
{
    double price = setup->system.cluster.price_per_gpu_h;
    char tokens_per_s[32];
    units_show_count(nearby->best.prediction.tokens_per_s, tokens_per_s, sizeof tokens_per_s);
    text_add(out, "%s tokens/s, %.0f GPU-hours", tokens_per_s, gpu_hours(nearby));
    if (price > 0)
        text_add(out, " (%.0f $)", price * gpu_hours(nearby));
    text_add(out, " per billion tokens");
}

static void show_one(const struct setup *setup, const struct nearby_view *view,
                     const struct nearby *nearby)
{
    struct text line = { 0 }, change = { 0 }, layout = { 0 };
    struct time_scale scale = time_scale_of(nearby->best.prediction.step_s);
    add_change(view, nearby, &change);
    plan_write(&nearby->best.plan, &layout);
    text_add_padded(&line, text_get(&change), 22);
    text_add(&line, "%.*f %s a step, ", scale.decimals,
             nearby->best.prediction.step_s * scale.per_s, scale.unit);
    add_cost(setup, nearby, &line);
    printf("    %s: %s\n", text_get(&line), text_get(&layout));
    text_release(&line);
    text_release(&change);
    text_release(&layout);
}

static void show_better(const struct nearby_view *view, const struct nearby *nearby,
                        const struct prediction *asked)
{
    const struct prediction *better = &nearby->best.prediction;
    struct time_scale scale = time_scale_of(better->step_s), before = time_scale_of(asked->step_s);
    if (nearby->num_gpus != view->asked_gpus)
        printf("  %d GPUs instead of %d: ", nearby->num_gpus, view->asked_gpus);
    else
        printf("  batch %.0f instead of %.0f: ", nearby->batch, view->asked_batch);
    printf("%.*f %s instead of %.*f %s, %.0f %% more tokens/s\n", scale.decimals,
           better->step_s * scale.per_s, scale.unit, before.decimals, asked->step_s * before.per_s,
           before.unit, 100 * (better->tokens_per_s / asked->tokens_per_s - 1));
}

void show_nearby_requests(const struct setup *setup, const struct prediction *best,
                          const struct nearby_view *view)
{
    bool is_answered = setup->system.num_gpus == view->asked_gpus;
    if (view->count > 0)
        printf("\n");
    if (view->count > 0 && !is_answered)
        printf("  no plan divides batch %.0f over %d GPUs; similar requests that have a plan:\n",
               view->asked_batch, view->asked_gpus);
    for (int i = 0; i < view->count; i++)
        if (is_answered)
            show_better(view, &view->at[i], best);
        else
            show_one(setup, view, &view->at[i]);
}

/* --- JSON --------------------------------------------------------------------------------- */

static json_t *nearby_json(const struct setup *setup, const struct nearby_view *view,
                           const struct nearby *nearby)
{
    struct setup changed = *setup; /* borrows everything from the setup */
    json_t *object = json_object();
    bool fewer = nearby->num_gpus != view->asked_gpus;
    changed.system.num_gpus = nearby->num_gpus;
    changed.model.batch = nearby->batch;
    json_object_set_new(object, "change", json_string(fewer ? "gpus" : "batch"));
    json_object_set_new(object, "from", number_json(fewer ? view->asked_gpus : view->asked_batch));
    json_object_set_new(object, "to", number_json(fewer ? nearby->num_gpus : nearby->batch));
    if (fewer && nearby->batch != view->asked_batch)
        json_object_set_new(object, "batch", number_json(nearby->batch));
    json_object_set_new(object, "gpu_hours_per_billion_tokens", json_real(gpu_hours(nearby)));
    json_object_set_new(
        object, "best",
        prediction_json(&changed, &nearby->best.plan, &nearby->best.prediction, false));
    return object;
}

void add_nearby_json(json_t *object, const struct setup *setup, const struct nearby_view *view)
{
    if (view->count == 0)
        return;
    json_t *list = json_array();
    for (int i = 0; i < view->count; i++)
        json_array_append_new(list, nearby_json(setup, view, &view->at[i]));
    json_object_set_new(object, "relaxations", list);
}
