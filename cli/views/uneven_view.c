#include "cli/views/uneven_view.h"

#include "base/text.h"
#include "cli/print/scale.h"
#include "cli/views/finalists.h"

#include <stdio.h>

/* Step times by the event engine; searches use the recurrence instead. 0: the plan has too many
 * instructions for the event engine. */
struct second_opinion {
    double best_s, even_s;
};

static struct second_opinion ask(const struct setup *setup, const struct search_result *result)
{
    struct second_opinion opinion = { finalist_step_s(setup, &result->top[0].plan), 0 };
    if (opinion.best_s > 0)
        opinion.even_s = finalist_step_s(setup, &result->even_best->plan);
    return opinion;
}

static double gain(double even_s, double best_s)
{
    return 1 - best_s / even_s;
}

static bool is_even(const struct search_result *result)
{
    return result->even_best && plan_equal(&result->top[0].plan, &result->even_best->plan);
}

static void show_gain(const struct setup *setup, const struct search_result *result)
{
    double even_s = result->even_best->prediction.step_s;
    double best_s = result->top[0].prediction.step_s;
    struct time_scale scale = time_scale_of(even_s);
    struct text layout = { 0 };
    plan_write(&result->even_best->plan, &layout);
    printf("\n  without uneven stages  %s\n    %.*f %s; #1 takes %.2f %% less time",
           text_get(&layout), scale.decimals + 1, even_s * scale.per_s, scale.unit,
           100 * gain(even_s, best_s));
    struct second_opinion events = ask(setup, result);
    if (events.even_s > 0)
        printf("; simulated event by event, this plan takes %.*f %s and #1 %.2f %% less time",
               scale.decimals + 1, events.even_s * scale.per_s, scale.unit,
               100 * gain(events.even_s, events.best_s));
    printf("\n");
    text_release(&layout);
}

void show_even_best(const struct setup *setup, const struct search_result *result)
{
    if (!result->with_uneven)
        return;
    if (!result->even_best)
        printf("\n  without uneven stages  no plan fits\n");
    else if (is_even(result))
        printf("\n  uneven stages  no examined plan with uneven stages is faster\n");
    else
        show_gain(setup, result);
}

static json_t *even_best_json(const struct setup *setup, const struct search_result *result)
{
    const struct scored_plan *even = result->even_best;
    struct text layout = { 0 };
    plan_write(&even->plan, &layout);
    json_t *object = json_object();
    json_object_set_new(object, "layout", json_string(text_get(&layout)));
    json_object_set_new(object, "step_s", json_real(even->prediction.step_s));
    json_object_set_new(object, "gain",
                        json_real(gain(even->prediction.step_s, result->top[0].prediction.step_s)));
    struct second_opinion events = ask(setup, result);
    if (events.even_s > 0) {
        json_object_set_new(object, "event_step_s", json_real(events.even_s));
        json_object_set_new(object, "event_gain", json_real(gain(events.even_s, events.best_s)));
    }
    text_release(&layout);
    return object;
}

void add_even_best_json(json_t *object, const struct setup *setup,
                        const struct search_result *result)
{
    if (result->with_uneven)
        json_object_set_new(object, "even_best",
                            result->even_best ? even_best_json(setup, result) : json_null());
}
