#include "cli/views/routing_view.h"

#include "base/length.h"
#include "cli/print/scale.h"
#include "sim/plan/local.h"

#include <stdio.h>

/* Coefficients of variation of the experts' loads; training with an auxiliary loss shows 0.1 to 0.5
 * (Wang et al. 2024, arXiv:2408.15664, as recalled). */
static const struct routing shown[NUM_ROUTING_CASES] = {
    { .kind = ROUTING_BALANCED },          { .kind = ROUTING_RANDOM },
    { .kind = ROUTING_SKEWED, .cv = 0.1 }, { .kind = ROUTING_SKEWED, .cv = 0.2 },
    { .kind = ROUTING_SKEWED, .cv = 0.3 }, { .kind = ROUTING_SKEWED, .cv = 0.5 },
};

static struct routing_case cost_of(const struct setup *setup, const struct routing *routing)
{
    struct model model = setup->model;
    struct rank_share share = rank_share_of(&setup->plan);
    struct layer_dims dims = local_dims(share, &model, model.seq);
    struct routed routed = expert_routed(share, &model, dims.norm_tokens);
    model.routing = *routing;
    struct evaluator *evaluator = evaluator_new(&setup->system, &model);
    struct prediction prediction = evaluate(evaluator, &setup->plan);
    evaluator_free(evaluator);
    return (struct routing_case){
        .routing = *routing,
        .rank_factor = routing_rank_factor(routing, &routed),
        .expert_factor = routing_expert_factor(routing, &routed),
        .peak_factor = routing_peak_factor(routing, &routed, model.layers),
        .step_s = prediction.step_s,
        .memory_bytes = prediction.peak_memory_bytes,
    };
}

bool routing_cases(const struct setup *setup, struct routing_case cases[NUM_ROUTING_CASES])
{
    if (setup->model.experts == 0)
        return false;
    for (int i = 0; i < NUM_ROUTING_CASES; i++)
        cases[i] = cost_of(setup, &shown[i]);
    return true;
}

static void name_case(const struct routing *routing, char *out, size_t size)
{
    if (routing->kind == ROUTING_SKEWED)
        snprintf(out, size, "cv=%g", routing->cv);
    else
        snprintf(out, size, "%s", routing_names[routing->kind]);
}

void show_routing(const struct terminal *terminal, const struct setup *setup)
{
    struct routing_case cases[NUM_ROUTING_CASES];
    if (!routing_cases(setup, cases))
        return;
    struct time_scale scale = time_scale_of(cases[0].step_s);
    printf("\n  %s%-14s %12s %14s %12s %9s, %-2s %12s%s\n", terminal_bold(terminal), "routing",
           "busiest rank", "busiest expert", "at the peak", "step", scale.unit, "memory, GiB",
           terminal_plain(terminal));
    for (int i = 0; i < NUM_ROUTING_CASES; i++) {
        char name[32];
        name_case(&cases[i].routing, name, sizeof name);
        printf("  %-14s %12.3f %14.3f %12.3f %13.*f %12.2f\n", name, cases[i].rank_factor,
               cases[i].expert_factor, cases[i].peak_factor, scale.decimals + 1,
               cases[i].step_s * scale.per_s, cases[i].memory_bytes / GIB);
    }
}

void add_routing_json(json_t *object, const struct setup *setup)
{
    struct routing_case cases[NUM_ROUTING_CASES];
    if (!routing_cases(setup, cases))
        return;
    json_t *list = json_array();
    for (int i = 0; i < NUM_ROUTING_CASES; i++) {
        char name[32];
        name_case(&cases[i].routing, name, sizeof name);
        json_array_append_new(list, json_pack("{s:s, s:f, s:f, s:f, s:f, s:f}", "routing", name,
                                              "rank_factor", cases[i].rank_factor, "expert_factor",
                                              cases[i].expert_factor, "peak_factor",
                                              cases[i].peak_factor, "step_s", cases[i].step_s,
                                              "peak_memory_bytes", cases[i].memory_bytes));
    }
    json_object_set_new(object, "routing", list);
}
