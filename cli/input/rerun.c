#include "cli/input/rerun.h"

#include "base/units.h"
#include "search/search.h"

#include <string.h>

/* Adds an option, with quotes if a shell would split its value. */
static void add_option(struct text *out, const char *name, const char *value)
{
    if (!value)
        return;
    bool quote = strpbrk(value, " \t$&;|<>()*?'\"\\`") != NULL;
    text_add(out, " %s %s%s%s", name, quote ? "'" : "", value, quote ? "'" : "");
}

static const char *name_of(const char *const *names, int index)
{
    return index >= 0 ? names[index] : NULL;
}

static void add_quantity(struct text *out, const char *name, double value, enum quantity quantity)
{
    char text[64];
    units_write(value, quantity, text, sizeof text);
    text_add(out, " %s '%s'", name, text);
}

/* The options that every command with a model and a system has. */
static void add_shared_options(const struct options *options, const struct setup *setup,
                               struct text *out)
{
    text_add(out, "--gpus %d", setup->system.num_gpus);
    add_option(out, "--model", options->model ? options->model : setup->model.name);
    if (options->num_files > 0 && !options->cluster && !options->gpu)
        add_option(out, "--cluster", setup->system.cluster.name);
    add_option(out, "--cluster", options->cluster);
    add_option(out, "--gpu", options->gpu);
    add_option(out, "--stack", options->stack);
    add_option(out, "--batch", options->batch);
    if (options->seq)
        text_add(out, " --seq %d", options->seq);
}

static void add_numbers(const struct options *options, struct text *out)
{
    add_option(out, "--precision", name_of(precision_names, options->precision));
    add_option(out, "--optimizer", name_of(optimizer_names, options->optimizer));
}

void add_case_options(const struct options *options, const struct setup *setup, struct text *out)
{
    add_shared_options(options, setup, out);
    add_option(out, "--documents", options->documents);
    add_option(out, "--routing", options->routing);
    add_option(out, "--dispatcher", name_of(dispatcher_names, options->dispatcher));
    if (options->quantized_dispatch)
        text_add(out, " --quantized-dispatch");
    add_numbers(options, out);
    if (options->train)
        text_add(out, " --train '%s'", options->train);
    if (options->reference)
        text_add(out, " --reference");
    if (options->reserve_bytes > 0)
        add_quantity(out, "--reserve", options->reserve_bytes, QUANTITY_BYTES);
}

bool add_export_options(const struct options *options, const struct setup *setup, struct text *out)
{
    if (options->train || options->reference)
        return false;
    add_shared_options(options, setup, out);
    add_numbers(options, out);
    return true;
}

void add_search_options(const struct options *options, struct text *out)
{
    if (options->search.fix)
        text_add(out, " --fix '%s'", options->search.fix);
    if (options->search.forbid)
        text_add(out, " --forbid '%s'", options->search.forbid);
    add_option(out, "--for", options->calibration.for_model);
    if (options->search.space >= 0)
        text_add(out, " --space %s", search_space_names[options->search.space]);
    if (options->search.uneven)
        text_add(out, " --uneven");
    if (options->search.recompute_modules >= 0)
        text_add(out, " --recompute-modules %s",
                 parts_space_names[options->search.recompute_modules]);
    if (options->search.recompute_mixes)
        text_add(out, " --recompute-mixes");
    if (options->search.stage_types > 0)
        text_add(out, " --stage-types %d", options->search.stage_types);
    if (options->search.same_recompute)
        text_add(out, " --same-recompute");
    if (options->search.host_memory_bytes > 0)
        add_quantity(out, "--host-memory", options->search.host_memory_bytes, QUANTITY_BYTES);
    if (options->search.placement)
        text_add(out, " --placement");
    add_option(out, "--method", options->search.method);
    if (options->search.budget)
        text_add(out, " --budget %d", options->search.budget);
    if (options->seed)
        text_add(out, " --seed %d", options->seed);
    if (options->search.objective != OBJECTIVE_TIME)
        text_add(out, " --objective %s", objective_names[options->search.objective]);
    if (options->max_memory_bytes > 0)
        add_quantity(out, "--max-memory", options->max_memory_bytes, QUANTITY_BYTES);
    if (options->search.oom_risk > 0)
        text_add(out, " --oom-risk %g", options->search.oom_risk);
    add_option(out, "--convergence", options->accuracy.convergence);
    if (options->tokens > 0)
        add_quantity(out, "--tokens", options->tokens, QUANTITY_TOKENS);
    if (options->search.largest && strcmp(options->search.largest, "layers") == 0)
        text_add(out, " --largest layers");
    if (options->price >= 0)
        add_quantity(out, "--price", options->price, QUANTITY_DOLLARS_PER_HOUR);
}
