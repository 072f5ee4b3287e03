/* Corrects a profile's measured op times by the op times of a run. */
#include "calibration/measure/refine.h"

#include "base/core_share.h"

#include <math.h>
#include <stdio.h>

static const double most_factor = 4;

static bool read_seconds(const json_t *kind, const char *key, double *out, struct err *err)
{
    const json_t *number = json_object_get(kind, key);
    *out = json_number_value(number);
    return (json_is_number(number) && *out >= 0 && isfinite(*out)) ||
           err_set(err, ERR_INPUT, key, "expected seconds of 0 or more");
}

static bool read_factor(const json_t *kind, double *factor, struct err *err)
{
    double measured_s, predicted_s;
    if (!read_seconds(kind, "measured_s", &measured_s, err) ||
        !read_seconds(kind, "predicted_s", &predicted_s, err))
        return false;
    double ratio = predicted_s > 0 ? measured_s / predicted_s : 1;
    if (ratio > 1 / most_factor && ratio < most_factor)
        *factor = ratio;
    return true;
}

/* The weight of the correction at a point of a table. It is 1 at a shape that ran and falls with
 * the distance to the nearest such shape as a Gaussian of log size; a factor of two in size is two
 * standard deviations. */
static double nearness(const struct kernel *kernel, const double *size, const struct ops *ran)
{
    double least = HUGE_VAL;
    for (int i = 0; i < ran->count; i++) {
        double other[NUM_KERNEL_SIZES], squares = 0;
        if ((int)ran->at[i].kind != kernel->kind || (int)ran->at[i].pass != kernel->pass)
            continue;
        kernel_size_of(&ran->at[i], other);
        for (int d = 0; d < NUM_KERNEL_SIZES; d++)
            squares += pow(log2(size[d] / other[d]), 2);
        least = fmin(least, squares);
    }
    return exp(-2 * least);
}

static bool scale_kind(struct profile *profile, int kind, double factor, const struct ops *ran)
{
    bool has_table = false;
    for (int i = 0; i < profile->num_kernels; i++) {
        struct kernel *kernel = &profile->kernels[i];
        if (kernel->kind != kind)
            continue;
        has_table = true;
        for (int p = 0; p < kernel->num_points; p++)
            kernel->points[p].time_s *= pow(factor, nearness(kernel, kernel->points[p].size, ran));
        kernel_fit(kernel);
    }
    return has_table;
}

/* Refuses runs disturbed by other programs. A run without a core_share is accepted. */
static bool check_quiet(const json_t *run, struct err *err)
{
    const json_t *share = json_object_get(run, "core_share");
    if (!json_is_number(share) || json_number_value(share) >= quiet_core_share)
        return true;
    return err_set(err, ERR_INPUT, "core_share",
                   "expected a run whose ranks got %.0f %% of a core or more; found %.0f %%: "
                   "repeat the run on an idle machine",
                   100 * quiet_core_share, 100 * json_number_value(share));
}

bool refine_profile(const json_t *run, const struct ops *ran, struct profile *profile,
                    struct refinement *out, struct err *err)
{
    const json_t *kinds = json_object_get(run, "by_kind");
    if (!check_quiet(run, err))
        return false;
    if (!json_is_object(kinds))
        return err_set(err, ERR_INPUT, "by_kind", "expected the output of `run --json`");
    for (int i = 0; i < NUM_OP_KINDS; i++) {
        const json_t *kind = json_object_get(kinds, op_kind_infos[i].text);
        out->factor[i] = 1;
        if (kind && !read_factor(kind, &out->factor[i], err)) {
            char outer[64];
            snprintf(outer, sizeof outer, "by_kind.%s.", op_kind_infos[i].text);
            err_prefix(err, outer);
            return false;
        }
        if (!scale_kind(profile, i, out->factor[i], ran))
            out->factor[i] = 1;
    }
    return true;
}
