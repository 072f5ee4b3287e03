#include "cli/input/search_request.h"

#include "base/parallel.h"
#include "base/text.h"

static const double default_oom_risk = 0.05;

static const char *in_lower_case(const char *words, struct setup *setup)
{
    char *copy = words ? arena_text(&setup->arena, words) : NULL;
    if (copy)
        text_lower(copy);
    return copy;
}

/* With --run, plans must be executable: context parallelism is not. */
static const char *forbidden_words(const struct options *options, struct setup *setup)
{
    if (!options->run)
        return options->forbid;
    struct text words = { 0 };
    text_add(&words, "cp %s", options->forbid ? options->forbid : "");
    return text_keep(&words, &setup->arena);
}

int search_request_top(const struct options *options)
{
    enum { DEFAULT_TOP = 5 };
    return options->top > 0 ? options->top : DEFAULT_TOP;
}

struct search_request search_request_of(struct options *options, struct setup *setup)
{
    options->fix = in_lower_case(options->fix, setup);
    options->forbid = in_lower_case(options->forbid, setup);
    struct search_request request = {
        .system = &setup->system,
        .model = &setup->model,
        .method = options->method,
        .fix = options->fix,
        .forbid = forbidden_words(options, setup),
        .convergence = &setup->convergence.convergence,
        .base = setup->plan,
        .objective = options->objective,
        .uneven = options->uneven,
        .recompute_mixes = options->recompute_mixes,
        .stage_types = options->stage_types,
        .same_recompute = options->same_recompute,
        .host_memory_bytes = options->host_memory_bytes,
        .placement = options->placement,
        .max_memory_bytes = options->max_memory_bytes,
        .oom_risk = options->oom_risk > 0 ? options->oom_risk : default_oom_risk,
        .top = search_request_top(options),
        .jobs = options->jobs > 0 ? options->jobs : parallel_cores(),
        .time_limit_s = options->time_limit_s,
        .budget = options->budget,
        .seed = options->seed,
    };
    search_set_space(&request,
                     options->space >= 0 ? (enum search_space)options->space : SEARCH_MEGATRON);
    return request;
}
