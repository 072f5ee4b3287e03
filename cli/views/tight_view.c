#include "cli/views/tight_view.h"

#include "base/text.h"
#include "cli/print/scale.h"
#include "cli/views/answer.h"

#include <stdio.h>

static double saved_share(const struct scored_plan *tight, const struct scored_plan *best)
{
    return 1 - tight->prediction.step_s / best->prediction.step_s;
}

void show_tight(const struct scored_plan *tight, const struct scored_plan *best)
{
    const struct prediction *p = &tight->prediction;
    struct time_scale scale = time_scale_of(p->step_s);
    struct text layout = { 0 };
    plan_write(&tight->plan, &layout);
    printf("\n  tight on memory, %.1f %% less time than #1: %s  %.*f %s, %.1f GiB, P(out of "
           "memory) %s\n",
           100 * saved_share(tight, best), text_get(&layout), scale.decimals,
           p->step_s * scale.per_s, scale.unit, p->peak_memory_bytes / GIB,
           risk_words(p->p_oom).text);
    text_release(&layout);
}

void add_tight_json(json_t *object, const struct setup *setup, const struct scored_plan *tight,
                    const struct scored_plan *best)
{
    json_t *json = prediction_json(setup, &tight->plan, &tight->prediction, false);
    json_object_set_new(json, "saved_share", json_real(saved_share(tight, best)));
    json_object_set_new(object, "tight", json);
}
