#include "cli/views/tipping_view.h"

#include "base/text.h"

#include <math.h>
#include <stdio.h>

/* Largest error of costs that is considered (see docs/accuracy.md). */
#define WITHIN 0.2

struct tipping_view tipping_find(const struct setup *setup, const struct search_request *request,
                                 const struct search_result *result)
{
    struct system system = setup->system;
    struct tipping_view view = { .is_known = result->num_top > 1 &&
                                             request->objective != OBJECTIVE_MEMORY };
    system.gpu.memory_bytes = setup->memory_bytes;
    struct robust_request asked = { .system = &system,
                                    .model = &setup->model,
                                    .rivals = result->top,
                                    .num_rivals = result->num_top,
                                    .jobs = request->jobs };
    if (view.is_known)
        view.point = search_tipping_point(&asked, WITHIN);
    int routing = setup->model.routing.kind;
    view.has_experts = view.is_known && setup->model.experts > 0 &&
                       (routing == ROUTING_BALANCED || routing == ROUTING_SKEWED);
    if (view.has_experts)
        view.routing = search_routing_flip(&asked);
    return view;
}

static void show_routing_flip(const struct tipping_view *view, const struct search_result *result)
{
    const struct routing_flip *flip = &view->routing;
    if (!view->has_experts)
        return;
    if (!(flip->cv > 0))
        printf("  #1 stays fastest    for any imbalance of experts' loads up to --routing cv=%g\n",
               LARGEST_CV);
    else if (flip->to >= 0 && flip->cv < 0.005)
        printf("  #%d is faster        as soon as experts' loads differ (--routing random)\n",
               flip->to + 1);
    else if (flip->to >= 0)
        printf("  #%d is faster        from --routing cv=%.2f on\n", flip->to + 1, flip->cv);
    else
        printf(
            "  #1 no longer fits   from --routing cv=%.2f on, nor does any other of the %d plans\n",
            flip->cv, result->num_top);
}

void show_tipping_point(const struct tipping_view *view, const struct search_result *result)
{
    show_routing_flip(view, result);
    const struct flip *flip = &view->point.flip;
    if (!view->is_known)
        return;
    if (view->point.cost_class < 0) {
        printf("  #1 stays fastest    if the prediction of any one class of cost is wrong by at "
               "most %.0f %%\n",
               100 * WITHIN);
        return;
    }
    if (flip->to >= 0)
        printf("  #%d is faster        ", flip->to + 1);
    else
        printf("  #1 no longer fits   ");
    printf("if this cost is %.1f %% %s than predicted: %s", 100 * fabs(flip->factor - 1),
           flip->factor > 1 ? "larger" : "smaller", cost_classes[view->point.cost_class].summary);
    if (flip->to < 0)
        printf("; nor does any other of the %d plans fit", result->num_top);
    printf("\n");
}

static void add_routing_flip(json_t *object, const struct tipping_view *view,
                             const struct search_result *result)
{
    const struct routing_flip *flip = &view->routing;
    struct text layout = { 0 };
    json_t *point = json_null();
    if (!view->has_experts)
        return;
    if (flip->to >= 0)
        plan_write(&result->top[flip->to].plan, &layout);
    if (flip->cv > 0)
        point = json_pack("{s:f, s:o}", "cv", flip->cv, "to",
                          flip->to >= 0 ? json_string(text_get(&layout)) : json_null());
    json_object_set_new(object, "routing_tipping_point", point);
    text_release(&layout);
}

void add_tipping_json(json_t *object, const struct tipping_view *view,
                      const struct search_result *result)
{
    add_routing_flip(object, view, result);
    const struct flip *flip = &view->point.flip;
    if (!view->is_known || view->point.cost_class < 0) {
        json_object_set_new(object, "tipping_point", json_null());
        return;
    }
    const struct cost_class *cost = &cost_classes[view->point.cost_class];
    json_t *point = json_pack("{s:s, s:s, s:f}", "name", cost->name, "summary", cost->summary,
                              "factor", flip->factor);
    struct text layout = { 0 };
    if (flip->to >= 0)
        plan_write(&result->top[flip->to].plan, &layout);
    json_object_set_new(point, "to", flip->to >= 0 ? json_string(text_get(&layout)) : json_null());
    json_object_set_new(object, "tipping_point", point);
    text_release(&layout);
}
