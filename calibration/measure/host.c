/* Measures this machine as one of its ranks, part by part within a time limit: bandwidth, disk,
 * collectives, ops by shape, overlap. The results become a cluster file. */
#include "calibration/measure/host.h"

#include "base/clock.h"
#include "base/core_share.h"
#include "base/length.h"
#include "calibration/measure/budget.h"
#include "calibration/measure/disk_rate.h"
#include "calibration/measure/gpu_profile.h"
#include "calibration/measure/gpu_sweep.h"
#include "calibration/measure/host_drift.h"
#include "calibration/measure/host_resume.h"
#include "calibration/measure/quiet.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MOST_OPS = 8192, MOST_READINGS = 256 };

/* A running calibration. */
struct calibration {
    const struct host_calibration *options;
    struct host_rank host;
    struct arena arena;
    struct host_shapes shapes;
    struct host_measured measured;
    struct nvml *nvml; /* NULL: clocks and power are not known */
    struct gpu_log log;
    struct host_resume *resume;
    struct budget budget;
};

/* --- time ---------------------------------------------------------------------------------- */

/* The time limit of a calibration pass and the expected time of each part, in seconds. The numbers
 * for host cores were measured on one host; the numbers for GPUs are estimates. A part that gets
 * less time repeats less often. */
// clang-format off
struct part_times {
    double all_s;
    double quiet_s; /* part of the limit that may be spent waiting for a quiet machine */
    /* overlap_s is the time for overlaps and drift with several ranks */
    double machine_s, bandwidth_s, disk_s, overlap_s;
    double size_s;  /* time per message size of a curve */
    double shape_s; /* time per shape, to make its weights and run its steps */
    double weights_s, sweep_s, held_out_s;
};
static const struct part_times times_of[2][2] = {
    [GRID_CORE] = {
        { 240, 30, 2, 6, 3, 16, 0.4,  2.5, 0.5, 0,  8 },
        { 60,  10, 1, 2, 1, 6,  0.06, 0.8, 0.2, 0,  3 },
    },
    [GRID_GPU] = {
        { 480, 0, 3, 5, 4, 45, 0.4,  2.5, 6,   40, 30 },
        { 120, 0, 2, 2, 1, 7,  0.06, 0.8, 4,   12, 10 },
    },
};
// clang-format on
enum { SIZES_OF_A_CURVE = 20 };

static const struct part_times *times(const struct calibration *w)
{
    return &times_of[w->host.load->grid][w->options->is_quick];
}

static void tell(const struct calibration *w, double left_s, const char *what)
{
    if (w->options->progress && w->host.place.rank == 0)
        w->options->progress(budget_done(&w->budget), left_s, what);
}

/* Begins the next part; *seconds is the time granted to it, the same on all ranks. */
static bool begin(struct calibration *w, const char *what, double expected_s, double *seconds,
                  struct err *err)
{
    double now_s = clock_now_s();
    tell(w, budget_left_s(&w->budget, now_s), what);
    *seconds = budget_take(&w->budget, now_s, expected_s);
    return host_rank_average(&w->host, seconds, 1, err);
}

/* The next group size: 2, 4, 8 ... and all ranks. */
static int next_size(int size, int num_ranks)
{
    if (size == num_ranks)
        return num_ranks + 1;
    return 2 * size < num_ranks ? 2 * size : num_ranks;
}

static int num_sizes(int num_ranks)
{
    int count = 0;
    for (int size = 2; size <= num_ranks; size = next_size(size, num_ranks))
        count++;
    return count;
}

/* Bytes of one sequence in the residual stream, which pipeline stages send and tensor ranks
 * reduce. */
static double stream_bytes(const struct model *model)
{
    return (double)model->seq * model->hidden * sizeof(float);
}

static bool measure_curve(struct calibration *w, int kind, int num_ranks, struct err *err)
{
    bool is_quick = w->options->is_quick;
    double seconds;
    char what[64];
    snprintf(what, sizeof what, "%s of %d", curve_names[kind], num_ranks);
    if (!begin(w, what, SIZES_OF_A_CURVE * times(w)->size_s, &seconds, err))
        return false;
    struct host_sizes sizes = { .least_bytes = 256,
                                .most_bytes = is_quick ? 64 << 20 : 128 << 20,
                                .seconds = seconds / SIZES_OF_A_CURVE,
                                .most_s = is_quick ? 0.15 : 0.5 };
    for (int i = 0; w->options->model && i < MAX_OWN_SIZES; i++)
        sizes.own_bytes[i] = stream_bytes(w->options->model) * exp2(i);
    return host_curve_measure(&w->host, kind, num_ranks, &sizes,
                              &w->measured.curves[w->measured.num_curves++], err);
}

static bool measure_curves(struct calibration *w, struct err *err)
{
    static const int kinds[] = { COLLECTIVE_ALL_REDUCE, COLLECTIVE_ALL_GATHER,
                                 COLLECTIVE_REDUCE_SCATTER };
    int num_ranks = w->host.place.size;
    w->measured.curves = ARENA_ARRAY(&w->arena, struct curve, MAX_CURVES);
    for (int size = 2; size <= num_ranks; size = next_size(size, num_ranks))
        for (size_t i = 0; i < LENGTH(kinds); i++)
            if (!measure_curve(w, kinds[i], size, err))
                return false;
    return num_ranks < 2 || measure_curve(w, CURVE_POINT_TO_POINT, 2, err);
}

/* --- other programs ------------------------------------------------------------------------ */

/* How long want_core spins: longer than a scheduler's time slice. */
static const double wanting_s = 0.06;

/* Spins for wanting_s and returns the share of a core that the thread got. */
static double want_core(void)
{
    double start_s = clock_now_s(), own_s = clock_thread_s(), took_s;
    while ((took_s = clock_now_s() - start_s) < wanting_s)
        ;
    return fmin(1, (clock_thread_s() - own_s) / took_s);
}

static bool ask_core_share(void *context, double *share, double *now_s, struct err *err)
{
    struct calibration *w = context;
    struct stream *stream = w->host.api->stream_new(w->host.device, "quiet", err);
    bool ok = stream && host_rank_meet(&w->host, stream, err);
    double lost = ok ? 1 - want_core() : 0;
    double answers[] = { lost, clock_now_s() };
    w->host.api->stream_free(stream);
    ok = ok && host_rank_most(&w->host, w->host.world, answers, 2, err);
    *share = 1 - answers[0];
    w->host.is_busy = *share < quiet_core_share;
    *now_s = answers[1];
    return ok;
}

static void rest(void *context, double seconds)
{
    (void)context;
    struct timespec left = { .tv_sec = (time_t)seconds };
    left.tv_nsec = (long)(1e9 * (seconds - (double)left.tv_sec));
    nanosleep(&left, NULL);
}

static void tell_waiting(void *context, double share, double left_s)
{
    const struct calibration *w = context;
    char what[64];
    snprintf(what, sizeof what, "waiting, because other programs use %.0f %% of the cores",
             100 * (1 - share));
    tell(w, times(w)->all_s - times(w)->quiet_s + left_s, what);
}

static bool wait_for_quiet(struct calibration *w, struct err *err)
{
    struct quiet_machine machine = { w, ask_core_share, rest, tell_waiting };
    bool is_asked = w->host.load->grid == GRID_CORE;
    bool ok =
        !is_asked || quiet_wait(&machine, times(w)->quiet_s, &w->measured.disturbed.waited_s, err);
    w->budget.start_s = clock_now_s();
    return ok;
}

/* The smallest share of a core that any rank got since `before`; 1 if it is unknown, and on
 * GPUs. */
static bool take_core_share(struct calibration *w, const struct core_time *before, struct err *err)
{
    struct core_time after = core_time_now();
    double share = w->host.load->grid == GRID_CORE ? core_share(before, &after) : 1;
    double lost = share < 0 ? 0 : 1 - share;
    bool ok = host_rank_most(&w->host, w->host.world, &lost, 1, err);
    w->measured.disturbed.core_share = 1 - lost;
    return ok;
}

/* --- the machine --------------------------------------------------------------------------- */

static bool measure_streams(struct calibration *w, struct err *err)
{
    struct host_measured *m = &w->measured;
    double unused_s;
    return begin(w, "streams and memory", times(w)->machine_s, &unused_s, err) &&
           launch_cost_measure(&w->host, &m->launch, err) &&
           host_copy_bytes_per_s(&w->host, &m->copy_bytes_per_s, err) &&
           host_copies_measure(&w->host, w->host.load->copied_bytes / 4, &m->copies, err);
}

static bool measure_bandwidth(struct calibration *w, struct err *err)
{
    double seconds, all_bytes = (double)w->host.load->copied_bytes;
    double most_bytes =
        /* on a host no constant depends on this measurement */
        w->host.is_busy ? all_bytes / 16 : all_bytes;
    return begin(w, "ops bound by memory", times(w)->bandwidth_s, &seconds, err) &&
           bandwidth_measure(&w->host, most_bytes, seconds, &w->measured.traffic, err);
}

/* Measures the disk in the folder of the resume file, which is that of the output file. */
static bool measure_disk(struct calibration *w, struct err *err)
{
    double unused_s, bytes = w->options->is_quick ? 32 << 20 : 256 << 20;
    char folder[PATH_MAX] = ".";
    const char *path = w->options->resume_path, *slash = path ? strrchr(path, '/') : NULL;
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path) + (slash == path), path);
    return begin(w, "writes to disk", times(w)->disk_s, &unused_s, err) &&
           disk_rate_measure(&w->host, folder, bytes, &w->measured.disk_bytes_per_s, err);
}

static bool measure_overlaps(struct calibration *w, struct err *err)
{
    double seconds;
    if (w->host.place.size < 2)
        return true;
    return begin(w, "compute during collectives", times(w)->overlap_s, &seconds, err) &&
           host_overlaps_measure(&w->host, w->options->is_quick, seconds, &w->measured.overlaps,
                                 err) &&
           host_drift(&w->host, &w->measured.drift_s, err);
}

static bool measure_machine(struct calibration *w, struct err *err)
{
    return measure_streams(w, err) && measure_bandwidth(w, err) && measure_disk(w, err) &&
           measure_overlaps(w, err);
}

/* --- ops ----------------------------------------------------------------------------------- */

static void take_reading(struct calibration *w)
{
    struct gpu_log *log = &w->log;
    if (!w->nvml || log->num_readings == MOST_READINGS)
        return;
    struct nvml_reading reading = nvml_read(w->nvml);
    log->sm_hz[log->num_readings] = reading.sm_hz;
    log->power_w[log->num_readings++] = reading.power_w;
}

static double whole_shape_s(const struct calibration *w)
{
    return times(w)->shape_s + times(w)->weights_s;
}

/* Whether there is time for another shape and the remaining parts; all ranks get the same
 * answer. */
static bool has_time(struct calibration *w, int measured, bool *out, struct err *err)
{
    enum { LEAST_SHAPES = 6 };
    double rest_s = times(w)->sweep_s + times(w)->held_out_s;
    double lacks = !budget_affords(&w->budget, clock_now_s(), whole_shape_s(w) + rest_s);
    bool ok = host_rank_most(&w->host, w->host.world, &lacks, 1, err);
    *out = measured < LEAST_SHAPES || lacks <= 0;
    return ok;
}

/* Measures a shape's ops, unless an interrupted pass has measured them. Clocks are read after the
 * shape's last step. */
static bool measure_shape(struct calibration *w, int i, struct err *err)
{
    double seconds, all_s = whole_shape_s(w);
    const struct host_shape *shape = &w->shapes.at[i];
    struct host_ops *ops = &w->measured.ops;
    int before = ops->count;
    if (!begin(w, shape->model.name, all_s, &seconds, err))
        return false;
    seconds *= times(w)->shape_s / all_s;
    if (host_resume_take(w->resume, i, &w->arena, ops))
        return true;
    if (!host_ops_measure(&w->host, shape, w->options->stack, seconds, &w->arena, ops, err))
        return false;
    take_reading(w);
    return w->host.place.rank > 0 || host_resume_keep(w->resume, i, ops, before, err);
}

static bool sweep_ops(struct calibration *w, struct err *err)
{
    double seconds;
    if (!begin(w, "matrix products, attention, updates", times(w)->sweep_s, &seconds, err))
        return false;
    double fitting = ceil(GPU_SWEEP_MOST_REPEATS * seconds / times(w)->sweep_s);
    int repeats = budget_repeats(fitting, 1, GPU_SWEEP_MOST_REPEATS);
    bool ok = gpu_sweep_measure(&w->host, w->options->is_quick, repeats, &w->measured.ops, err);
    take_reading(w);
    return ok;
}

static bool measure_ops(struct calibration *w, struct err *err)
{
    struct host_ops *ops = &w->measured.ops;
    ops->room = MOST_OPS;
    ops->at = ARENA_ARRAY(&w->arena, struct host_op, MOST_OPS);
    int count = w->shapes.count, measured = 0;
    for (int i = 0; i < count; i++) {
        bool goes_on;
        if (!has_time(w, measured, &goes_on, err))
            return false;
        if (!goes_on) {
            budget_leave_out(&w->budget, whole_shape_s(w));
            w->measured.left_out++;
            continue;
        }
        if (!measure_shape(w, host_shapes_turn(&w->shapes, i), err))
            return false;
        measured++;
    }
    return w->host.load->grid != GRID_GPU || sweep_ops(w, err);
}

static bool measure_held_out(struct calibration *w, struct err *err)
{
    double seconds;
    struct held_out_row rows[MOST_HELD_OUT];
    int count = held_out_rows(w->host.load->grid, w->options->is_quick, rows);
    return begin(w, "whole steps, held out", times(w)->held_out_s, &seconds, err) &&
           held_out_measure(&w->host, w->options->stack, rows, count, seconds, &w->arena,
                            &w->measured.held_out, err);
}

/* Measures the parts in which one stream computes. In these, any time without a core was taken by
 * other programs. */
static bool measure_steps(struct calibration *w, struct err *err)
{
    struct core_time before = core_time_now();
    return measure_ops(w, err) && measure_held_out(w, err) && take_core_share(w, &before, err);
}

static void choose_shapes(struct calibration *w, int num_ranks)
{
    w->shapes = host_shapes_grid(w->host.load->grid, w->options->is_quick, &w->arena);
    if (w->options->model)
        host_shapes_add(&w->shapes, w->options->model, num_ranks, &w->arena);
}

static void plan_time(struct calibration *w, double start_s)
{
    const struct part_times *t = times(w);
    int num_ranks = w->host.place.size;
    int num_curves = num_ranks < 2 ? 0 : 3 * num_sizes(num_ranks) + 1;
    w->budget = (struct budget){ .start_s = start_s, .end_s = start_s + t->all_s };
    budget_expect(&w->budget, t->machine_s + t->bandwidth_s + t->disk_s);
    budget_expect(&w->budget, num_ranks < 2 ? 0 : t->overlap_s);
    budget_expect(&w->budget, num_curves * SIZES_OF_A_CURVE * t->size_s);
    budget_expect(&w->budget, w->shapes.count * (t->shape_s + t->weights_s));
    budget_expect(&w->budget, t->sweep_s + t->held_out_s);
}

static void describe(struct calibration *w, double start_s)
{
    struct host_measured *m = &w->measured;
    m->num_ranks = w->host.place.size;
    m->precision = w->host.precision;
    m->elapsed_s = clock_now_s() - start_s;
    snprintf(m->options, sizeof m->options, "%s%s%.40s", w->options->is_quick ? "--quick" : "",
             w->options->model ? " --for " : "", w->options->model ? w->options->model->name : "");
}

/* Prepares the log of a GPU's clocks and power. Fails on the first rank if NVIDIA's library is
 * missing or no file in calibration/hardware lists this GPU. */
static bool open_log(struct calibration *w, struct err *err)
{
    struct err unheard = { 0 };
    bool is_first = w->host.place.rank == 0;
    w->log.sm_hz = ARENA_ARRAY(&w->arena, double, MOST_READINGS);
    w->log.power_w = ARENA_ARRAY(&w->arena, double, MOST_READINGS);
    if (w->host.load->grid != GRID_GPU)
        return true;
    w->nvml = nvml_open(w->host.place.local_rank, is_first ? err : &unheard);
    if (!w->nvml)
        return !is_first;
    w->log.words = nvml_words(w->nvml);
    return !is_first || gpu_is_known(&w->log.words, err);
}

static json_t *file_of(const struct calibration *w, struct err *err)
{
    bool is_gpu = w->host.load->grid == GRID_GPU;
    json_t *cluster = is_gpu ? gpu_cluster_json(&w->measured, &w->log, w->options->stack, err)
                             : host_cluster_json(&w->measured, w->options->stack);
    if (!cluster || host_add_held_out(&w->measured, cluster, err))
        return cluster;
    json_decref(cluster);
    return NULL;
}

bool host_calibrate(const struct place *place, const struct host_calibration *options, json_t **out,
                    struct err *err)
{
    struct calibration w = { .options = options };
    double start_s = clock_now_s();
    *out = NULL;
    if (!host_rank_open(place, options->backend, host_arena_bytes(options->backend), &w.host, err))
        return false;
    choose_shapes(&w, place->size);
    plan_time(&w, start_s);
    bool ok = open_log(&w, err) &&
              (w.resume = host_resume_open(options->resume_path, &w.shapes, err)) &&
              wait_for_quiet(&w, err) && measure_machine(&w, err) && measure_curves(&w, err) &&
              measure_steps(&w, err);
    describe(&w, start_s);
    if (ok && place->rank == 0)
        ok = (*out = file_of(&w, err)) != NULL;
    host_resume_close(w.resume);
    nvml_close(w.nvml);
    host_rank_close(&w.host);
    arena_release(&w.arena);
    return ok;
}
