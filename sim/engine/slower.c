/* Copies a system and makes its devices slower by a factor. */
#include "sim/engine/slower.h"

#include "base/arena.h"
#include "sim/cost/runtime.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *copy(const void *from, int count, size_t size)
{
    size_t bytes = (size_t)count * size;
    return count > 0 ? memcpy(arena_grow(NULL, bytes), from, bytes) : NULL;
}

static void slow_gpu(struct gpu *gpu, double speed)
{
    for (int i = 0; i < NUM_DTYPES; i++)
        gpu->peak_flops_per_s[i] *= speed;
    gpu->memory_bytes_per_s *= speed;
    gpu->clock_hz *= speed;
}

/* Multiplies all times of the profile's kernel tables by 1 / speed. A table's level is a term of
 * the logarithm of each of its times, so only the level changes. */
static void slow_tables(struct profile *profile, double speed)
{
    profile->kernels = copy(profile->kernels, profile->num_kernels, sizeof *profile->kernels);
    for (int i = 0; i < profile->num_kernels; i++)
        profile->kernels[i].level -= log(speed);
    profile->gemm_points =
        copy(profile->gemm_points, profile->num_gemm_points, sizeof *profile->gemm_points);
    for (int i = 0; i < profile->num_gemm_points; i++)
        profile->gemm_points[i].flops_per_s *= speed;
    profile->kernel_s /= speed;
}

static void slow_curve(struct curve *curve, double speed)
{
    for (int i = 0; i < curve->num_points; i++) {
        curve->points[i].time_s /= speed;
        curve->points[i].log_s -= log(speed);
    }
}

/* Changes the times that a core takes on a host system, where it also launches work, sends and
 * receives. */
static void slow_core(struct system *system, double speed)
{
    struct profile *profile = &system->profile;
    for (int i = 0; i < profile->num_curves; i++)
        slow_curve(&profile->curves[i], speed);
    for (int i = 0; i < system->cluster.num_levels; i++) {
        system->cluster.levels[i].bytes_per_s *= speed;
        system->cluster.levels[i].channel_bytes_per_s *= speed;
        system->cluster.levels[i].latency_s /= speed;
    }
    system->cluster.host_bytes_per_s *= speed;
    system->stack.host.issue_s /= speed;
}

void system_slower(const struct system *from, double speed, struct system *out)
{
    *out = *from;
    slow_gpu(&out->gpu, speed);
    slow_tables(&out->profile, speed);
    out->profile.curves =
        copy(from->profile.curves, from->profile.num_curves, sizeof(struct curve));
    if (stack_runtime(&out->stack)->is_a_core)
        slow_core(out, speed);
}

void system_slower_release(struct system *slower)
{
    free(slower->profile.kernels);
    free(slower->profile.gemm_points);
    free(slower->profile.curves);
}
