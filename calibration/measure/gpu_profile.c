/* Writes measurements of GPUs as a cluster file. */
#include "calibration/measure/gpu_profile.h"

#include "base/json.h"
#include "base/statistics.h"
#include "base/units.h"
#include "calibration/measure/host_profile_part.h"
#include "sim/cost/datafile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- files --------------------------------------------------------------------------------- */

static bool load_gpu(const char *name, struct gpu *gpu, struct err *err)
{
    if (gpu_load(name, gpu, err))
        return true;
    *err = (struct err){ 0 };
    return err_set(err, ERR_UNAVAILABLE, "cuda",
                   "no file in calibration/hardware has the driver's name of this GPU, \"%.60s\", "
                   "among its \"words\"",
                   name);
}

/* The profile shipped for the GPU, for constants that were not measured. */
static bool load_profile(const struct gpu *gpu, struct profile *profile, struct err *err)
{
    struct json_file file;
    if (!datafile_open(&profile_files, gpu->name, &file, err))
        return false;
    bool ok = profile_read(file.root, profile, err);
    json_file_release(&file);
    return ok;
}

bool gpu_is_known(const struct nvml_words *words, struct err *err)
{
    struct gpu gpu;
    struct profile profile = { 0 };
    bool ok = load_gpu(words->gpu, &gpu, err) && load_profile(&gpu, &profile, err);
    profile_release(&profile);
    return ok;
}

/* --- measured parts ------------------------------------------------------------------------ */

/* Writes the bandwidth that was fitted to all memory-bound ops, or else the bandwidth of one large
 * copy. kernel_s is at least the time of an empty kernel. */
static void put_bandwidth(const struct host_measured *m, const struct gpu *gpu,
                          struct profile *profile)
{
    struct bandwidth_fit fit = bandwidth_fit(&m->traffic);
    double bytes_per_s = fit.bytes_per_s > 0 ? fit.bytes_per_s : m->copy_bytes_per_s;
    profile->kernel_s = fmax(m->launch.kernel_s, fit.kernel_s);
    profile->memory_efficiency = fmin(1, bytes_per_s / gpu->memory_bytes_per_s);
}

/* Writes the copy efficiency of the slowest case. Copies in both directions at once are one of the
 * cases, as they occur in offloading. */
static void put_copies(const struct host_copies *copies, const struct gpu *gpu,
                       struct profile *profile)
{
    double each_bytes_per_s =
        fmin(fmin(copies->up_bytes_per_s, copies->down_bytes_per_s), copies->both_bytes_per_s / 2);
    if (each_bytes_per_s > 0 && gpu->pcie_bytes_per_s > 0)
        profile->host_copy_efficiency = fmin(1, each_bytes_per_s / gpu->pcie_bytes_per_s);
}

static void put_measured(const struct host_measured *m, const struct gpu_log *log,
                         const struct gpu *gpu, struct profile *profile)
{
    for (int i = 0; i < profile->num_kernels; i++)
        kernel_release(&profile->kernels[i]);
    free(profile->kernels);
    profile->kernels = host_kernels(&m->ops, &profile->num_kernels);
    host_source_words(m, profile->source, sizeof profile->source);
    size_t said = strlen(profile->source);
    snprintf(profile->source + said, sizeof profile->source - said, "; %.60s, driver %.40s",
             log->words.gpu, log->words.driver);
    profile->measured = true;
    profile->source_error = 0;
    put_bandwidth(m, gpu, profile);
    put_copies(&m->copies, gpu, profile);
    profile->error_log = host_interval_of(profile->kernels, profile->num_kernels);
    if (m->num_ranks < 2)
        return;
    struct host_slowdown slowdown = host_overlaps_mean(&m->overlaps);
    profile->overlap_compute_slowdown = slowdown.compute;
    profile->overlap_comm_slowdown = slowdown.comm;
    profile->drift_s = m->drift_s;
}

static json_t *range_json(double *numbers, int count)
{
    numbers_sort(numbers, (size_t)count);
    return json_pack("{s:f, s:f, s:f}", "least", numbers[0], "median", numbers[count / 2], "most",
                     numbers[count - 1]);
}

static json_t *profile_json(const struct host_measured *m, const struct gpu_log *log,
                            const struct profile *profile)
{
    json_t *json = profile_write(profile);
    json_t *residuals = host_residuals_json(m, profile->kernels, profile->num_kernels);
    if (log->num_readings > 0) {
        json_object_set_new(residuals, "sm_clock_hz", range_json(log->sm_hz, log->num_readings));
        json_object_set_new(residuals, "power_w", range_json(log->power_w, log->num_readings));
    }
    json_object_set_new(json, "residuals", residuals);
    if (m->num_curves > 0)
        json_object_set_new(json, "collectives", host_curves_json(m));
    return json;
}

/* --- the file ------------------------------------------------------------------------------ */

static json_t *cluster_json(const struct gpu *gpu, const char *source, json_t *profile,
                            json_t *level, json_t *stack)
{
    json_t *group = json_pack("{s:o, s:o, s:i, s:[o]}", "gpu", gpu_write(gpu), "profile", profile,
                              "nodes", 1, "levels", level);
    return json_pack("{s:i, s:s, s:s, s:s, s:[o], s:o}", "format", 1, "name", "gpu", "source",
                     source, "summary", "The GPUs of one machine, as the executor runs on them",
                     "groups", group, "stack", stack);
}

json_t *gpu_cluster_json(const struct host_measured *m, const struct gpu_log *log,
                         const struct stack *stack, struct err *err)
{
    struct gpu gpu;
    struct profile profile = { 0 };
    struct stack measured = *stack;
    if (!load_gpu(log->words.gpu, &gpu, err) || !load_profile(&gpu, &profile, err))
        return NULL;
    put_measured(m, log, &gpu, &profile);
    measured.host.issue_s = m->launch.issue_s;
    measured.errors.source = 0;
    if (m->launch.graph_kernel_s > 0)
        measured.host.graph_kernel_s = m->launch.graph_kernel_s;
    json_t *cluster = cluster_json(&gpu, profile.source, profile_json(m, log, &profile),
                                   host_level_json(m), stack_write(&measured));
    profile_release(&profile);
    return cluster;
}
