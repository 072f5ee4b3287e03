/* Finds the constants and standard errors for the region of `search --robust region`. */
#include "cli/region.h"

#include "calibration/fit/constant.h"
#include "sim/cost/datafile.h"
#include "sim/cost/piece.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The fitted constants of the system's profile and stack on which the request's plans depend. */
struct found {
    struct setup *setup;
    const struct plan *base;
    struct uncertain *at; /* [MOST_UNCERTAIN] */
    int count;
};

/* Whether the plans do not use the constant: it belongs to another kernel or data type, or to
 * experts that the model lacks. */
static bool is_unread(const struct found *found, const char *key)
{
    const struct system *system = &found->setup->system;
    enum attention_kernel kernel = plan_attention_kernel(found->base, system);
    const char *of_kernel = strncmp(key, "attention.", 10) == 0 ? key + 10 : NULL;
    bool is_narrow = strncmp(key, "fp8_", 4) == 0 || strncmp(key, "fp4_", 4) == 0;
    if (of_kernel)
        return kernel == ATTENTION_UNFUSED ||
               strncmp(of_kernel, attention_names[kernel], strlen(attention_names[kernel])) != 0;
    if (is_narrow)
        return !precision_recipe(found->base->precision);
    return strcmp(key, "expert_wait") == 0 && found->setup->model.experts == 0;
}

/* Adds a constant. Omits it if the system has another value than the constant's file, as the error
 * of such a value is not known. */
static void add_constant(struct found *found, const char *file, const json_t *root, const char *key,
                         double log_sd)
{
    struct constant constant;
    struct err ignored = { 0 };
    double of_file;
    const char *dot = strrchr(key, '.');
    bool is_whole = !dot && !strchr(key, '[');
    if (found->count == MOST_UNCERTAIN || is_unread(found, key) || !(log_sd > 0) ||
        !constant_find(file, key, &constant, &ignored))
        return;
    if (is_whole && (!constant_read(&constant, json_object_get(root, key), &of_file, &ignored) ||
                     of_file != constant_get(&constant, &found->setup->system)))
        return;
    found->at[found->count++] = (struct uncertain){ .name = arena_text(&found->setup->arena, key),
                                                    .is_of_stack = constant.is_of_stack,
                                                    .offset = constant.field.offset,
                                                    .log_sd = log_sd };
}

static void add_file(struct found *found, const struct datafile_kind *kind, const char *folder,
                     const char *name)
{
    struct json_file file;
    struct err ignored = { 0 };
    char path[96];
    const char *job, *key;
    json_t *results, *error;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!datafile_open(kind, name, &file, &ignored))
        return;
    json_object_foreach (json_object_get(file.root, "residuals"), job, results)
        json_object_foreach (json_object_get(results, "standard_errors"), key, error)
            add_constant(found, path, file.root, key, json_number_value(error));
    json_file_release(&file);
}

bool find_region(const struct options *options, struct setup *setup,
                 const struct search_request *request, const struct search_result *result,
                 struct region **out, struct err *err)
{
    const double probability = 0.9;
    struct found found = { .setup = setup,
                           .base = &result->top[0].plan,
                           .at = ARENA_ARRAY(&setup->arena, struct uncertain, MOST_UNCERTAIN) };
    if (!options->search.robust_region || result->num_top == 0)
        return true;
    if (!result->proved_optimal)
        return err_set(err, ERR_USAGE, "--robust region",
                       "needs a proved best plan; the method %s did not prove one", result->method);
    add_file(&found, &profile_files, "profiles", setup->system.profile.name);
    add_file(&found, &stack_files, "stacks", setup->system.stack.name);
    struct region_request asked = { .search = request,
                                    .choice = &result->top[0].plan,
                                    .constants = found.at,
                                    .num_constants = found.count,
                                    .probability = probability };
    struct region *region = ARENA_NEW(&setup->arena, struct region);
    bool ok = region_find(&asked, region, err);
    *out = region;
    return ok;
}
