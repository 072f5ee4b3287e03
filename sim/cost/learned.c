#include "sim/cost/learned.h"

#include "base/json.h"
#include "base/length.h"
#include "base/normal.h"

#include <math.h>
#include <string.h>

#define AT(member)     .offset = offsetof(struct learned_stack, member)
#define OF_GPU(member) .offset = offsetof(struct learned_gpu, member)
#define TEXT(of, member)                                       \
    .kind = FIELD_TEXT, .offset = offsetof(struct of, member), \
    .size = sizeof((struct of *)0)->member

// clang-format off
const struct field learned_fields[] = {
    { .name = "stack", TEXT(learned_stack, stack), .doc = "Name of the stack; for versions of a stack, that of their family." },
    { .name = "experts", .kind = FIELD_BOOL, AT(experts), .fallback = "no",
      .doc = "Learned from models with experts; no: from dense models." },
    { .name = "time_ratio", .kind = FIELD_NUMBER, AT(factor.time_ratio), .min = 0.01, .max = 100,
      .doc = "Factor on all times on GPUs without runs: measured / predicted time, shrunk towards 1. The factors are applied only if the factor of some GPU with runs lowers the error with a probability of at least 68 %." },
    { .name = "ratio_error", .kind = FIELD_NUMBER, AT(factor.ratio_error), .min = 0, .max = 10,
      .doc = "Standard deviation of the logarithm of time_ratio." },
    { .name = "shift", .kind = FIELD_NUMBER, AT(factor.shift), .min = 0, .max = 10,
      .doc = "Half width, in log time, of the 90 % interval of the error that all runs still have in common." },
    { .name = "prior_error", .kind = FIELD_NUMBER, AT(prior_error), .min = 1e-6, .max = 10,
      .doc = "Scale of the prior t distribution of the logarithm of time_ratio." },
    { .name = "prior_freedom", .kind = FIELD_NUMBER, AT(prior_freedom), .min = 0.1, .max = 1e6,
      .doc = "Degrees of freedom of this distribution." },
    { .name = "gpus", .kind = FIELD_OTHER, .doc = "One object per GPU that had runs." },
};
const struct field learned_gpu_fields[] = {
    { .name = "profile", TEXT(learned_gpu, profile), .doc = "Name of the GPU's profile." },
    { .name = "time_ratio", .kind = FIELD_NUMBER, OF_GPU(factor.time_ratio), .min = 0.01, .max = 100,
      .doc = "Factor on all times on this GPU." },
    { .name = "ratio_error", .kind = FIELD_NUMBER, OF_GPU(factor.ratio_error), .min = 0, .max = 10,
      .doc = "Standard deviation of the logarithm of time_ratio." },
    { .name = "shift", .kind = FIELD_NUMBER, OF_GPU(factor.shift), .min = 0, .max = 10,
      .doc = "Half width, in log time, of the 90 % interval of the error that all runs still have in common." },
    { .name = "prior_error", .kind = FIELD_NUMBER, OF_GPU(prior_error), .min = 0, .max = 10,
      .doc = "Scale of the prior t distribution of the logarithm of this GPU's own part of the factor; 0: the factor has no such part." },
    { .name = "prior_freedom", .kind = FIELD_NUMBER, OF_GPU(prior_freedom), .min = 0.1, .max = 1e6,
      .doc = "Degrees of freedom of this distribution." },
    { .name = "ratios", .kind = FIELD_OTHER,
      .doc = "Measured / predicted time of each run on this GPU; later runs are learned together with them." },
};
// clang-format on
const size_t num_learned_fields = LENGTH(learned_fields);
const size_t num_learned_gpu_fields = LENGTH(learned_gpu_fields);

static const struct field file_fields[] = {
    { .name = "format", .kind = FIELD_OTHER, .doc = "Version of the file's form: 2." },
    { .name = "source",
      .kind = FIELD_OTHER,
      .fallback = "",
      .doc = "Program that wrote the file." },
    { .name = "stacks", .kind = FIELD_OTHER, .doc = "One object per stack and kind of model." },
};

static bool read_ratios(const json_t *list, struct arena *arena, struct learned_gpu *out,
                        struct err *err)
{
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count == 0 || count > MOST_RATIOS)
        return err_set(err, ERR_INPUT, "ratios", "expected a list of 1 to %d numbers", MOST_RATIOS);
    double *ratios = ARENA_ARRAY(arena, double, count);
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

static bool read_gpus(const json_t *list, struct arena *arena, struct learned_stack *out,
                      struct err *err)
{
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count == 0 || count > MOST_LEARNED_GPUS)
        return err_set(err, ERR_INPUT, "gpus", "expected a list of 1 to %d GPUs",
                       MOST_LEARNED_GPUS);
    for (size_t i = 0; i < count; i++) {
        const json_t *object = json_array_get(list, i);
        struct learned_gpu *gpu = &out->gpus[i];
        if (!fields_read(learned_gpu_fields, num_learned_gpu_fields, object, gpu, err) ||
            !read_ratios(json_object_get(object, "ratios"), arena, gpu, err))
            return err_within_item(err, "gpus", i);
        out->num_gpus++;
    }
    return true;
}

static bool read_stacks(const json_t *root, struct learned *out, struct err *err)
{
    struct learned_stack none;
    const json_t *list = json_object_get(root, "stacks");
    size_t count = json_array_size(list);
    if (!fields_read(file_fields, LENGTH(file_fields), root, &none, err))
        return false;
    if (json_integer_value(json_object_get(root, "format")) != 2)
        return err_set(err, ERR_INPUT, "format",
                       "expected 2; run `learn` on the runs again to write such a file");
    if (!json_is_array(list) || count > MOST_LEARNED)
        return err_set(err, ERR_INPUT, "stacks", "expected a list of at most %d", MOST_LEARNED);
    out->at = ARENA_ARRAY(&out->arena, struct learned_stack, count);
    for (size_t i = 0; i < count; i++) {
        const json_t *object = json_array_get(list, i);
        struct learned_stack *entry = &out->at[i];
        if (!fields_read(learned_fields, num_learned_fields, object, entry, err) ||
            !read_gpus(json_object_get(object, "gpus"), &out->arena, entry, err))
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

static json_t *write_gpu(const struct learned_gpu *gpu)
{
    json_t *object = fields_write(learned_gpu_fields, num_learned_gpu_fields, gpu);
    json_t *ratios = json_array();
    for (int i = 0; i < gpu->num_ratios; i++)
        json_array_append_new(ratios, json_real(exp(gpu->ratios[i])));
    json_object_set_new(object, "ratios", ratios);
    return object;
}

json_t *learned_write(const struct learned *learned)
{
    json_t *list = json_array();
    for (int i = 0; i < learned->count; i++) {
        const struct learned_stack *entry = &learned->at[i];
        json_t *object = fields_write(learned_fields, num_learned_fields, entry);
        json_t *gpus = json_array();
        for (int k = 0; k < entry->num_gpus; k++)
            json_array_append_new(gpus, write_gpu(&entry->gpus[k]));
        json_object_set_new(object, "gpus", gpus);
        json_array_append_new(list, object);
    }
    return json_pack("{s:i, s:s, s:o}", "format", 2, "source", "`simsearch learn`", "stacks", list);
}

const struct learned_stack *learned_find(const struct learned *learned, const struct stack *stack,
                                         bool experts)
{
    for (int i = 0; i < learned->count; i++)
        if (learned->at[i].experts == experts &&
            strcmp(learned->at[i].stack, stack_family(stack)) == 0)
            return &learned->at[i];
    return NULL;
}

const struct learned_gpu *learned_gpu_find(const struct learned_stack *of, const char *profile)
{
    for (int i = 0; i < of->num_gpus; i++)
        if (strcmp(of->gpus[i].profile, profile) == 0)
            return &of->gpus[i];
    return NULL;
}

int learned_runs(const struct learned_stack *of)
{
    int runs = 0;
    for (int i = 0; i < of->num_gpus; i++)
        runs += of->gpus[i].num_ratios;
    return runs;
}

static const struct learned_factor *factor_on(const struct learned_stack *of, const char *profile)
{
    const struct learned_gpu *gpu = learned_gpu_find(of, profile);
    return gpu ? &gpu->factor : &of->factor;
}

double learned_chance(const struct learned_stack *of)
{
    double most = 0.5;
    for (int i = 0; i < of->num_gpus; i++) {
        const struct learned_factor *factor = &of->gpus[i].factor;
        double size = fabs(log(factor->time_ratio));
        if (size > 0)
            most = fmax(most, normal_cdf(size / (2 * factor->ratio_error)));
    }
    return most;
}

double learned_ratio(const struct learned_stack *of, const char *profile)
{
    return learned_chance(of) >= SURE_FACTOR ? factor_on(of, profile)->time_ratio : 1;
}

/* If the factor is not applied, the mean of the shift is log(time_ratio) instead of 0. */
double learned_shift(const struct learned_stack *of, const char *profile)
{
    const struct learned_factor *factor = factor_on(of, profile);
    double mean = log(factor->time_ratio / learned_ratio(of, profile));
    return hypot(factor->shift, normal_90 * mean);
}

void learned_apply(const struct learned *learned, struct system *system)
{
    struct stack *stack = &system->stack;
    struct profile *profile = &system->profile;
    const struct learned_stack *dense = learned_find(learned, stack, false);
    const struct learned_stack *expert = learned_find(learned, stack, true);
    if (dense) {
        double shift = learned_shift(dense, profile->name);
        stack->learned.time_ratio = learned_ratio(dense, profile->name);
        stack->errors.source = fmin(stack->errors.source, shift);
        if (learned_gpu_find(dense, profile->name))
            profile->source_error = fmin(profile->source_error, shift);
    }
    if (expert) {
        stack->learned.expert_time_ratio = learned_ratio(expert, profile->name);
        stack->errors.of_experts =
            fmin(stack->errors.of_experts, learned_shift(expert, profile->name));
    }
}
