#include "cli/input/search_request.h"

#include "base/parallel.h"
#include "base/text.h"

static const char *in_lower_case(const char *words, struct setup *setup)
{
    char *copy = words ? arena_text(&setup->arena, words) : NULL;
    if (copy)
        text_lower(copy);
    return copy;
}

/* The layout words to forbid. With --run the plan must be executable, so context parallelism is
 * forbidden. */
static const char *forbidden_words(const struct options *options, struct setup *setup)
{
    if (!options->run)
        return options->search.forbid;
    struct text words = { 0 };
    text_add(&words, "cp %s", options->search.forbid ? options->search.forbid : "");
    return text_keep(&words, &setup->arena);
}

int search_request_top(const struct options *options)
{
    enum { DEFAULT_TOP = 5 };
    return options->top > 0 ? options->top : DEFAULT_TOP;
}

struct search_request search_request_of(struct options *options, struct setup *setup)
{
    options->search.fix = in_lower_case(options->search.fix, setup);
    options->search.forbid = in_lower_case(options->search.forbid, setup);
    struct search_request request = {
        .system = &setup->system,
        .model = &setup->model,
        .method = options->search.method,
        .fix = options->search.fix,
        .forbid = forbidden_words(options, setup),
        .convergence = &setup->convergence.convergence,
        .base = setup->plan,
        .objective = options->search.objective,
        .uneven = options->search.uneven,
        .recompute_mixes = options->search.recompute_mixes,
        .stage_types = options->search.stage_types,
        .same_recompute = options->search.same_recompute,
        .host_memory_bytes = options->search.host_memory_bytes,
        .placement = options->search.placement,
        .max_memory_bytes = options->max_memory_bytes,
        .oom_risk = options->search.oom_risk > 0 ? options->search.oom_risk : default_oom_risk,
        .top = search_request_top(options),
        .jobs = options->jobs > 0 ? options->jobs : parallel_cores(),
        .time_limit_s = options->search.time_limit_s,
        .budget = options->search.budget,
        .seed = options->seed,
    };
    search_set_space(&request, options->search.space >= 0 ? (enum search_space)options->search.space
                                                          : SEARCH_MEGATRON);
    request.recompute_modules = options->search.recompute_modules < 0
                                    ? search_picks_parts(&request) && !options->search.pareto
                                    : options->search.recompute_modules == PARTS_ALL;
    return request;
}
