#include "cli/search_for.h"

#include "base/text.h"
#include "cli/input/search_request.h"
#include "cli/runnable.h"

bool begin_for_target(struct options *options, struct err *err)
{
    const struct target *target = options->calibration.for_model
                                      ? target_find(options->calibration.for_model, "--for", err)
                                      : NULL;
    if (target && (options->search.pareto || options->search.certificate ||
                   options->search.objective == OBJECTIVE_ACCURACY))
        return err_set(err, ERR_USAGE, "--for",
                       "cannot be combined with --pareto, --certificate or time-to-accuracy");
    if (target && !options->stack)
        options->stack = target->stack;
    return target || !options->calibration.for_model;
}

void ask_for_target(const struct options *options, struct setup *setup,
                    struct search_request *request)
{
    struct err ignored = { 0 };
    struct text words = { 0 };
    if (!options->calibration.for_model)
        return;
    const struct target *target = target_find(options->calibration.for_model, "--for", &ignored);
    runnable_ask(target, request, &setup->arena);
    text_add(&words, "only plans that keep the %d rules of %s", *target->num_rules, target->name);
    json_array_append_new(setup->assumptions, json_string(text_get(&words)));
    text_release(&words);
}

bool search_runnable(const struct options *options, const struct setup *setup,
                     const struct search_request *request, struct search_result *result,
                     struct err *err)
{
    const struct target *target = target_find(options->calibration.for_model, "--for", err);
    return target &&
           runnable_search(target, setup, request, search_request_top(options), result, err);
}
