#include "calibration/host.h"

#include "base/clock.h"
#include "calibration/gpu_profile.h"
#include "calibration/gpu_sweep.h"
#include "calibration/host_resume.h"

#include <math.h>
#include <stdio.h>

enum { MOST_OPS = 8192, MOST_READINGS = 256 };

/* A calibration under way. */
struct work {
    const struct host_calibration *options;
    struct host_rank host;
    struct arena arena;
    struct host_shapes shapes;
    struct host_measured measured;
    struct nvml *nvml; /* NULL: nobody tells clocks and power */
    struct gpu_log log;
    struct host_resume *resume;
    double parts, done; /* of about equal length */
};

static void tell(struct work *w, const char *what)
{
    if (w->options->progress && w->host.place.rank == 0)
        w->options->progress(w->done / w->parts, what);
    w->done++;
}

/* 2, 4, 8 ..., and all. */
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

/* What stages send each other and tensor ranks add up, of one sequence. */
static double stream_bytes(const struct model *model)
{
    return (double)model->seq * model->hidden * sizeof(float);
}

static bool measure_curve(struct work *w, int kind, int num_ranks, struct err *err)
{
    bool is_quick = w->options->is_quick;
    struct host_sizes sizes = { .least_bytes = 256,
                                .most_bytes = is_quick ? 64 << 20 : 128 << 20,
                                .seconds = is_quick ? 0.06 : 0.4,
                                .most_s = is_quick ? 0.15 : 0.5 };
    for (int i = 0; w->options->model && i < MAX_OWN_SIZES; i++)
        sizes.own_bytes[i] = stream_bytes(w->options->model) * exp2(i);
    char what[64];
    snprintf(what, sizeof what, "%s of %d", curve_names[kind], num_ranks);
    tell(w, what);
    return host_curve_measure(&w->host, kind, num_ranks, &sizes,
                              &w->measured.curves[w->measured.num_curves++], err);
}

static bool measure_curves(struct work *w, struct err *err)
{
    static const int kinds[] = { COLLECTIVE_ALL_REDUCE, COLLECTIVE_ALL_GATHER,
                                 COLLECTIVE_REDUCE_SCATTER };
    int num_ranks = w->host.place.size;
    w->measured.curves = ARENA_ARRAY(&w->arena, struct curve, MAX_CURVES);
    for (int size = 2; size <= num_ranks; size = next_size(size, num_ranks))
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            if (!measure_curve(w, kinds[i], size, err))
                return false;
    return num_ranks < 2 || measure_curve(w, CURVE_POINT_TO_POINT, 2, err);
}

static bool measure_machine(struct work *w, struct err *err)
{
    tell(w, "streams and memory");
    struct host_measured *m = &w->measured;
    m->slowdown = (struct host_slowdown){ 1, 1 };
    return host_call_s(&w->host, &m->call_s, err) &&
           host_copy_bytes_per_s(&w->host, &m->copy_bytes_per_s, err) &&
           (w->host.place.size < 2 ||
            (host_slowdown(&w->host, &m->slowdown, err) && host_drift(&w->host, &m->drift_s, err)));
}

static void take_reading(struct work *w)
{
    struct gpu_log *log = &w->log;
    if (!w->nvml || log->num_readings == MOST_READINGS)
        return;
    struct nvml_reading reading = nvml_read(w->nvml);
    log->sm_hz[log->num_readings] = reading.sm_hz;
    log->power_w[log->num_readings++] = reading.power_w;
}

/* Of the shape, unless a pass that was cut short has them. Clocks are those behind its last step.
 */
static bool measure_shape(struct work *w, int i, struct err *err)
{
    double seconds = w->options->is_quick ? 0.8 : 2.5;
    const struct host_shape *shape = &w->shapes.at[i];
    struct host_ops *ops = &w->measured.ops;
    int before = ops->count;
    tell(w, shape->model.name);
    if (host_resume_take(w->resume, i, &w->arena, ops))
        return true;
    if (!host_ops_measure(&w->host, shape, w->options->stack, seconds, &w->arena, ops, err))
        return false;
    take_reading(w);
    return w->host.place.rank > 0 || host_resume_keep(w->resume, i, ops, before, err);
}

static bool measure_ops(struct work *w, struct err *err)
{
    struct host_ops *ops = &w->measured.ops;
    ops->room = MOST_OPS;
    ops->at = ARENA_ARRAY(&w->arena, struct host_op, MOST_OPS);
    for (int i = 0; i < w->shapes.count; i++)
        if (!measure_shape(w, i, err))
            return false;
    if (w->host.load->grid != GRID_GPU)
        return true;
    tell(w, "products, attention, updates");
    bool ok = gpu_sweep_measure(&w->host, w->options->is_quick, ops, err);
    take_reading(w);
    return ok;
}

static void choose_shapes(struct work *w, int num_ranks)
{
    w->shapes = host_shapes_grid(w->host.load->grid, w->options->is_quick, &w->arena);
    if (w->options->model)
        host_shapes_add(&w->shapes, w->options->model, num_ranks, &w->arena);
    w->parts = w->shapes.count + 3 * num_sizes(num_ranks) + 2;
}

static void describe(struct work *w, double start_s)
{
    struct host_measured *m = &w->measured;
    m->num_ranks = w->host.place.size;
    m->elapsed_s = clock_now_s() - start_s;
    snprintf(m->options, sizeof m->options, "%s%s%.40s", w->options->is_quick ? "--quick" : "",
             w->options->model ? " --for " : "", w->options->model ? w->options->model->name : "");
}

static void open_log(struct work *w)
{
    struct err unheard = { 0 };
    w->log.sm_hz = ARENA_ARRAY(&w->arena, double, MOST_READINGS);
    w->log.power_w = ARENA_ARRAY(&w->arena, double, MOST_READINGS);
    if (w->host.load->grid == GRID_GPU)
        w->nvml = nvml_open(w->host.place.local_rank, &unheard);
    if (w->nvml)
        w->log.words = nvml_words(w->nvml);
}

static json_t *file_of(const struct work *w, struct err *err)
{
    if (w->host.load->grid == GRID_GPU)
        return gpu_cluster_json(&w->measured, &w->log, w->options->stack, err);
    return host_cluster_json(&w->measured, w->options->stack);
}

bool host_calibrate(const struct place *place, const struct host_calibration *options, json_t **out,
                    struct err *err)
{
    struct work w = { .options = options };
    double start_s = clock_now_s();
    *out = NULL;
    if (!host_rank_open(place, options->backend, host_arena_bytes(options->backend), &w.host, err))
        return false;
    open_log(&w);
    choose_shapes(&w, place->size);
    bool ok = (w.resume = host_resume_open(options->resume_path, &w.shapes, err)) &&
              measure_machine(&w, err) && measure_curves(&w, err) && measure_ops(&w, err);
    describe(&w, start_s);
    if (ok && place->rank == 0)
        ok = (*out = file_of(&w, err)) != NULL;
    host_resume_close(w.resume);
    nvml_close(w.nvml);
    host_rank_close(&w.host);
    arena_release(&w.arena);
    return ok;
}
