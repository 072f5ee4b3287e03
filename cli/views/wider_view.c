#include "cli/views/wider_view.h"

#include "base/text.h"
#include "cli/print/scale.h"

#include <stdio.h>

struct wider_view wider_find(struct setup *setup, const struct search_request *request,
                             const struct search_result *result)
{
    struct wider_view view = { .count = 0 };
    bool is_usual = !request->method && request->objective == OBJECTIVE_TIME;
    if (is_usual && result->num_top > 0 && result->proved_optimal)
        view.count = search_wider(request, &result->top[0], &setup->arena, view.at);
    return view;
}

void show_wider(const struct wider_view *view)
{
    for (int i = 0; i < view->count; i++) {
        const struct wider *wider = &view->at[i];
        double step_s = wider->best.prediction.step_s;
        struct time_scale scale = time_scale_of(step_s);
        struct text layout = { 0 };
        plan_write(&wider->best.plan, &layout);
        printf("\n"
               "  with %s  a plan with #1's degrees takes %.1f %% less time, %.*f %s: %s\n",
               wider->option, 100 * wider->gain, scale.decimals, step_s * scale.per_s, scale.unit,
               text_get(&layout));
        text_release(&layout);
    }
}

void add_wider_json(json_t *object, const struct wider_view *view)
{
    json_t *array = json_array();
    for (int i = 0; i < view->count; i++) {
        struct text layout = { 0 };
        plan_write(&view->at[i].best.plan, &layout);
        json_t *item = json_object();
        json_object_set_new(item, "option", json_string(view->at[i].option));
        json_object_set_new(item, "gain", json_real(view->at[i].gain));
        json_object_set_new(item, "layout", json_string(text_get(&layout)));
        json_object_set_new(item, "step_s", json_real(view->at[i].best.prediction.step_s));
        json_array_append_new(array, item);
        text_release(&layout);
    }
    json_object_set_new(object, "wider", array);
}
