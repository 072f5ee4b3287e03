#include "cli/views/infeasible.h"

#include "cli/print/scale.h"
#include "cli/views/answer.h"
#include "cli/views/searched.h"
#include "cli/views/show.h"

#include <stdio.h>

void add_infeasible_sentence(const struct setup *setup, const struct search_result *result,
                             struct text *out)
{
    double capacity = result->planned_bytes;
    text_add(out, "no plan %s", result->proved_optimal ? "" : "was found that ");
    if (result->has_nearest) {
        text_add(out, "fits: the smallest needs %.1f GiB per GPU, but only %.1f GiB are available",
                 result->nearest.prediction.peak_memory_bytes / GIB, capacity / GIB);
        if (capacity < setup->memory_bytes)
            text_add(out, " at P(out of memory) <= %s", risk_words(result->oom_risk).text);
    } else if (result->num_exclusions > 0)
        text_add(out, "is feasible: %.0f of %.0f plans break rule `%s`",
                 result->exclusions[0].count, result->candidates, result->exclusions[0].rule);
    else
        text_add(out, "%s", result->proved_optimal ? "is feasible" : "fits");
    if (result->fewest_gpus > 0)
        text_add(out, "; smallest number of GPUs with a plan that fits: %d", result->fewest_gpus);
}

static void show_nearest(const struct terminal *terminal, const struct search_result *result)
{
    struct text layout = { 0 }, words = { 0 };
    const struct scored_plan *nearest = &result->nearest;
    const struct scored_plan *fewest = &result->fewest;
    if (result->has_nearest) {
        double lacks = nearest->prediction.peak_memory_bytes - result->planned_bytes;
        plan_write(&nearest->plan, &layout);
        printf("\n  the plan nearest to fitting lacks %.1f GiB on stage %d: %s\n", lacks / GIB,
               nearest->prediction.peak_stage, text_get(&layout));
    }
    if (result->fewest_gpus > 0) {
        struct time_scale scale = time_scale_of(fewest->prediction.step_s);
        add_plan_words(terminal, &fewest->plan, fewest->prediction.num_microbatches, &words);
        printf("%s  smallest number of GPUs with a plan that fits: %d (%s; %.*f %s per step)\n",
               result->has_nearest ? "" : "\n", result->fewest_gpus, text_get(&words),
               scale.decimals, fewest->prediction.step_s * scale.per_s, scale.unit);
    }
    text_release(&layout);
    text_release(&words);
}

void show_infeasible(const struct options *options, const struct setup *setup,
                     const struct search_result *result, const struct relaxations *relaxations)
{
    struct terminal terminal = terminal_of_stdout();
    if (!options->quiet)
        show_header(&terminal, setup);
    show_searched(result);
    if (result->timed_out || result->was_interrupted)
        show_proof(result);
    if (result->num_exclusions > 0)
        printf("\n       plans  break the rule\n");
    for (int i = 0; i < result->num_exclusions; i++) {
        struct text count = { 0 };
        add_count(&count, result->exclusions[i].count);
        printf("  %10s  %-18s %s\n", text_get(&count), result->exclusions[i].rule,
               result->exclusions[i].summary);
        text_release(&count);
    }
    show_nearest(&terminal, result);
    show_relaxations(relaxations);
}

static json_t *reason_json(const char *rule, const char *sentence, double count)
{
    json_t *reason = json_pack("{s:s, s:s}", "rule", rule, "sentence", sentence);
    if (count > 0)
        json_object_set_new(reason, "count", number_json(count));
    return reason;
}

void add_infeasible_json(json_t *object, const struct search_result *result, const struct err *err)
{
    json_t *reasons = json_array();
    json_array_append_new(reasons, reason_json(err->where, err->msg, 0));
    for (int i = 0; result && i < result->num_exclusions; i++)
        json_array_append_new(reasons,
                              reason_json(result->exclusions[i].rule, result->exclusions[i].summary,
                                          result->exclusions[i].count));
    json_object_set_new(object, "feasible", json_false());
    json_object_set_new(object, "reasons", reasons);
    if (!json_object_get(object, "nearest"))
        json_object_set_new(object, "nearest", json_object());
}
