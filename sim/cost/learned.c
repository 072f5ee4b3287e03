#include "sim/cost/learned.h"

#include "base/json.h"
#include "base/length.h"
#include "base/normal.h"

#include <math.h>
#include <string.h>

#define AT(member) .offset = offsetof(struct learned_stack, member)

// clang-format off
const struct field learned_fields[] = {
    { .name = "stack", .kind = FIELD_TEXT, AT(stack), .size = sizeof((struct learned_stack *)0)->stack,
      .doc = "Name of the stack." },
    { .name = "experts", .kind = FIELD_BOOL, AT(experts), .fallback = "no",
      .doc = "Learned from models with experts; no: from dense models." },
    { .name = "time_ratio", .kind = FIELD_NUMBER, AT(time_ratio), .min = 0.01, .max = 100,
      .doc = "Factor on all times: measured / predicted time, shrunk towards 1. Applied if it lowers the error with a probability of at least 62 %." },
    { .name = "ratio_error", .kind = FIELD_NUMBER, AT(ratio_error), .min = 0, .max = 10,
      .doc = "Standard deviation of the logarithm of time_ratio." },
    { .name = "shift", .kind = FIELD_NUMBER, AT(shift), .min = 0, .max = 10,
      .doc = "Half width, in log time, of the 90 % interval of the error that all runs still have in common." },
    { .name = "runs", .kind = FIELD_INT, AT(runs), .min = 1, .max = 1e6,
      .doc = "Number of runs from which the factor was learned." },
    { .name = "prior_ratio", .kind = FIELD_NUMBER, AT(prior_ratio), .min = 0.01, .max = 100, .fallback = "1",
      .doc = "time_ratio before these runs." },
    { .name = "prior_error", .kind = FIELD_NUMBER, AT(prior_error), .min = 0, .max = 10, .fallback = "0",
      .doc = "Scale of the distribution of the logarithm of prior_ratio." },
    { .name = "prior_freedom", .kind = FIELD_NUMBER, AT(prior_freedom), .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Degrees of freedom of this distribution (a t distribution); 0: a normal distribution." },
    { .name = "ratios", .kind = FIELD_OTHER, .fallback = "[]",
      .doc = "Measured / predicted time of each of these runs; later runs are learned together with them." },
    { .name = "profiles", .kind = FIELD_OTHER, .doc = "Profiles of the GPUs on which the runs ran." },
};
// clang-format on
const size_t num_learned_fields = LENGTH(learned_fields);

static const struct field file_fields[] = {
    { .name = "format", .kind = FIELD_OTHER, .doc = "Version of the file's form: 1." },
    { .name = "source",
      .kind = FIELD_OTHER,
      .fallback = "",
      .doc = "Program that wrote the file." },
    { .name = "stacks", .kind = FIELD_OTHER, .doc = "One object per stack and kind of model." },
};

static bool read_profiles(const json_t *list, struct arena *arena, struct learned_stack *out,
                          struct err *err)
{
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count == 0 || count > MOST_LEARNED_GPUS)
        return err_set(err, ERR_INPUT, "profiles", "expected a list of 1 to %d names",
                       MOST_LEARNED_GPUS);
    for (size_t i = 0; i < count; i++) {
        const char *name = json_plain_text(json_array_get(list, i));
        if (!name)
            return err_set(err, ERR_INPUT, "profiles", "expected names of profiles");
        out->profiles[out->num_profiles++] = arena_text(arena, name);
    }
    return true;
}

static bool read_ratios(const json_t *list, struct arena *arena, struct learned_stack *out,
                        struct err *err)
{
    size_t count = json_array_size(list);
    if (list && (!json_is_array(list) || count > MOST_RATIOS))
        return err_set(err, ERR_INPUT, "ratios", "expected a list of at most %d numbers",
                       MOST_RATIOS);
    if (count > 0 && !(out->prior_error > 0))
        return err_set(err, ERR_INPUT, "prior_error",
                       "expected a number above 0, as `ratios` has runs");
    double *ratios = ARENA_ARRAY(arena, double, count + 1);
    for (size_t i = 0; i < count; i++) {
        double ratio = json_number_value(json_array_get(list, i));
        if (!(ratio >= 0.01 && ratio <= 100))
            return err_set(err, ERR_INPUT, "ratios", "expected numbers from 0.01 to 100");
        ratios[i] = log(ratio);
    }
    out->ratios = ratios;
    out->num_ratios = (int)count;
    return true;
}

static bool read_stacks(const json_t *root, struct learned *out, struct err *err)
{
    struct learned_stack none;
    const json_t *list = json_object_get(root, "stacks");
    size_t count = json_array_size(list);
    if (!fields_read(file_fields, LENGTH(file_fields), root, &none, err))
        return false;
    if (json_integer_value(json_object_get(root, "format")) != 1)
        return err_set(err, ERR_INPUT, "format", "expected 1");
    if (!json_is_array(list) || count > MOST_LEARNED)
        return err_set(err, ERR_INPUT, "stacks", "expected a list of at most %d", MOST_LEARNED);
    out->at = ARENA_ARRAY(&out->arena, struct learned_stack, count);
    for (size_t i = 0; i < count; i++) {
        const json_t *object = json_array_get(list, i);
        struct learned_stack *entry = &out->at[i];
        if (!fields_read(learned_fields, num_learned_fields, object, entry, err) ||
            !read_profiles(json_object_get(object, "profiles"), &out->arena, entry, err) ||
            !read_ratios(json_object_get(object, "ratios"), &out->arena, entry, err))
            return err_within_item(err, "stacks", i);
        out->count++;
    }
    return true;
}

bool learned_load(const char *path, struct learned *out, struct err *err)
{
    struct json_file file;
    *out = (struct learned){ 0 };
    if (!json_file_load(&file, path, err))
        return false;
    bool ok = read_stacks(file.root, out, err) || json_file_blame(&file, err);
    json_file_release(&file);
    return ok;
}

void learned_release(struct learned *learned)
{
    arena_release(&learned->arena);
    *learned = (struct learned){ 0 };
}

json_t *learned_write(const struct learned *learned)
{
    json_t *list = json_array();
    for (int i = 0; i < learned->count; i++) {
        const struct learned_stack *entry = &learned->at[i];
        json_t *object = fields_write(learned_fields, num_learned_fields, entry);
        json_t *profiles = json_array();
        for (int k = 0; k < entry->num_profiles; k++)
            json_array_append_new(profiles, json_string(entry->profiles[k]));
        json_object_set_new(object, "profiles", profiles);
        json_t *ratios = json_array();
        for (int k = 0; k < entry->num_ratios; k++)
            json_array_append_new(ratios, json_real(exp(entry->ratios[k])));
        json_object_set_new(object, "ratios", ratios);
        json_array_append_new(list, object);
    }
    return json_pack("{s:i, s:s, s:o}", "format", 1, "source", "`simsearch learn`", "stacks", list);
}

const struct learned_stack *learned_find(const struct learned *learned, const char *stack,
                                         bool experts)
{
    for (int i = 0; i < learned->count; i++)
        if (learned->at[i].experts == experts && strcmp(learned->at[i].stack, stack) == 0)
            return &learned->at[i];
    return NULL;
}

static bool had_profile(const struct learned_stack *entry, const char *profile)
{
    for (int i = 0; i < entry->num_profiles; i++)
        if (strcmp(entry->profiles[i], profile) == 0)
            return true;
    return false;
}

double learned_chance(const struct learned_stack *of)
{
    double size = fabs(log(of->time_ratio));
    if (of->ratio_error > 0)
        return normal_cdf(size / (2 * of->ratio_error));
    return size > 0 ? 1 : 0.5;
}

double learned_factor(const struct learned_stack *of)
{
    return learned_chance(of) >= SURE_FACTOR ? of->time_ratio : 1;
}

/* If the factor is not applied, the mean of the shift is log(time_ratio) instead of 0. */
double learned_shift(const struct learned_stack *of)
{
    double mean = log(of->time_ratio / learned_factor(of));
    return hypot(of->shift, normal_90 * mean);
}

void learned_apply(const struct learned *learned, struct system *system)
{
    struct stack *stack = &system->stack;
    struct profile *profile = &system->profile;
    const struct learned_stack *dense = learned_find(learned, stack->name, false);
    const struct learned_stack *expert = learned_find(learned, stack->name, true);
    if (dense) {
        stack->learned.time_ratio = learned_factor(dense);
        stack->errors.source = fmin(stack->errors.source, learned_shift(dense));
    }
    if (dense && had_profile(dense, profile->name))
        profile->source_error = fmin(profile->source_error, learned_shift(dense));
    if (expert) {
        stack->learned.expert_time_ratio = learned_factor(expert);
        stack->errors.of_experts = fmin(stack->errors.of_experts, learned_shift(expert));
    }
}
