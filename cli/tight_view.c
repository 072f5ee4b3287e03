#include "cli/tight_view.h"

#include "base/text.h"
#include "cli/answer.h"
#include "cli/scale.h"

#include <stdio.h>

static void keep(const struct scored_plan *plan, double best_s, struct tight_view *view)
{
    view->is_found = true;
    view->plan = scored_plan_copy(plan, &view->arena);
    view->saved_share = 1 - view->plan.prediction.step_s / best_s;
}

struct tight_view tight_find(const struct search_request *request,
                             const struct search_result *result)
{
    struct tight_view view = { 0 };
    struct search_request any = *request;
    if (result->tight)
        keep(result->tight, result->top[0].prediction.step_s, &view);
    if (result->knows_tight || result->num_top == 0 || request->oom_risk <= 0 ||
        request->oom_risk >= 0.5)
        return view;
    struct search_result found;
    struct err ignored = { 0 };
    any.oom_risk = 0;
    any.top = 1;
    any.progress = NULL;
    double best_s = result->top[0].prediction.step_s;
    bool ok = search_run(&any, &found, &ignored);
    if (ok && found.num_top > 0 && found.top[0].prediction.step_s < best_s)
        keep(&found.top[0], best_s, &view);
    search_result_release(&found);
    return view;
}

void tight_release(struct tight_view *view)
{
    arena_release(&view->arena);
}

void show_tight(const struct tight_view *view)
{
    if (!view->is_found)
        return;
    const struct prediction *p = &view->plan.prediction;
    struct time_scale scale = time_scale_of(p->step_s);
    struct text layout = { 0 };
    plan_write(&view->plan.plan, &layout);
    printf("\n  tight, saves %.1f %%: %s  %.*f %s, %.1f GiB, P(out of memory) %s\n",
           100 * view->saved_share, text_get(&layout), scale.decimals, p->step_s * scale.per_s,
           scale.unit, p->peak_memory_bytes / GIB, risk_words(p->p_oom).text);
    text_release(&layout);
}

void add_tight_json(json_t *object, const struct setup *setup, const struct tight_view *view)
{
    if (!view->is_found)
        return;
    json_t *tight = prediction_json(setup, &view->plan.plan, &view->plan.prediction, false);
    json_object_set_new(tight, "saved_share", json_real(view->saved_share));
    json_object_set_new(object, "tight", tight);
}
