/* cli/calibrate.c - writes a cluster file for this machine, or from the output of other
 * benchmarks. */
#include "base/arena.h"
#include "base/length.h"
#include "base/parallel.h"
#include "base/text.h"
#include "calibration/measure/bench_output.h"
#include "calibration/measure/host.h"
#include "calibration/measure/refine.h"
#include "cli/calibrate_convergence.h"
#include "cli/input/command.h"
#include "cli/input/options.h"
#include "cli/input/planfile.h"
#include "cli/input/setup.h"
#include "cli/print/terminal.h"
#include "cli/ranks.h"
#include "exec/plugin/backend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- progress ------------------------------------------------------------------------------- */

static void show_progress(double share, double left_s, const char *what)
{
    enum { WIDTH = 24 };
    static const char full[] = "########################";
    int done = (int)(share * WIDTH);
    fprintf(stderr, "\r[%.*s%*s] %3.0f %%, %3.0f s left  %-28.28s", done, full, WIDTH - done, "",
            100 * share, left_s, what);
}

/* Prints the progress as a line, for a stderr that is not a terminal. */
static void log_progress(double share, double left_s, const char *what)
{
    fprintf(stderr, "%3.0f %%, %3.0f s left  %s\n", 100 * share, left_s, what);
}

static void clear_progress(void)
{
    fprintf(stderr, "\r%*s\r", 72, "");
}

/* --- output --------------------------------------------------------------------------------- */

static void show_table(const struct kernel *kernel)
{
    int count;
    double *errors = host_left_out(kernel, 1, kernel->kind, &count);
    char name[64];
    snprintf(name, sizeof name, "%s%s%s", kernel_names[kernel->kind], *kernel->variant ? " " : "",
             kernel->variant);
    printf("  %-26s %-16s %6d", name, pass_names[kernel->pass], kernel->num_points);
    if (count > 0)
        printf("   %5.1f %%  %5.1f %%", 100 * errors[(count - 1) / 2],
               100 * errors[(count - 1) * 9 / 10]);
    printf("\n");
    free(errors);
}

static void show_curve(const struct curve *curve)
{
    const struct curve_point *first = &curve->points[0];
    const struct curve_point *last = &curve->points[curve->num_points - 1];
    char least[32], most[32], latency[32], rate[32];
    units_show(first->bytes, QUANTITY_BYTES, least, sizeof least);
    units_show(last->bytes, QUANTITY_BYTES, most, sizeof most);
    units_show(first->time_s, QUANTITY_SECONDS, latency, sizeof latency);
    units_show(last->bytes / last->time_s, QUANTITY_BYTES_PER_S, rate, sizeof rate);
    printf("  %-16s of %-4d  %s in %s ... %s at %s\n", curve_names[curve->collective],
           curve->num_ranks, least, latency, most, rate);
}

static void show_beside(const json_t *row, const char *measured, const char *predicted)
{
    char was[32], said[32];
    double measured_s = json_number_value(json_object_get(row, measured));
    double predicted_s = json_number_value(json_object_get(row, predicted));
    units_show(measured_s, QUANTITY_SECONDS, was, sizeof was);
    units_show(predicted_s, QUANTITY_SECONDS, said, sizeof said);
    printf("  %10s %10s", was, said);
    if (measured_s > 0 && predicted_s > 0)
        printf(" %+6.1f %%", 100 * log(predicted_s / measured_s));
}

/* Shows the held-out measurements. */
static void show_held_out(const json_t *residuals)
{
    size_t index;
    json_t *row;
    json_t *rows = json_object_get(residuals, "held_out");
    if (json_array_size(rows) > 0)
        printf("\n  %-34s  %10s %10s %8s  %10s %10s\n", "held out", "step", "predicted", "",
               "layer", "predicted");
    json_array_foreach (rows, index, row) {
        printf("  %-12s %-21s", json_string_value(json_object_get(row, "model")),
               json_string_value(json_object_get(row, "layout")));
        show_beside(row, "step_s", "predicted_step_s");
        show_beside(row, "layer_s", "predicted_layer_s");
        printf("\n");
    }
}

static void show_disturbance(const struct profile *profile, const json_t *residuals)
{
    const struct disturbance *seen = &profile->disturbed;
    const json_t *own = json_object_get(residuals, "calibrate");
    int left_out = (int)json_integer_value(json_object_get(own, "shapes_left_out"));
    if (profile->is_disturbed)
        printf("\ndisturbed by other programs: a rank got %.0f %% of its core, and predictions of "
               "held-out steps are up to %.0f %% off; every interval from this file is at least "
               "that wide, and answers that use it say so\n",
               100 * seen->core_share, 100 * seen->held_out_error);
    if (left_out > 0)
        printf("%d shapes were left out because the time ran out\n", left_out);
}

/* Shows the calibration as read back from the file. */
static bool show(const json_t *cluster, const struct options *options, struct err *err)
{
    const json_t *group = json_array_get(json_object_get(cluster, "groups"), 0);
    struct gpu gpu;
    struct profile profile;
    char peak[32], bandwidth[32];
    if (!gpu_read(json_object_get(group, "gpu"), &gpu, err) ||
        !profile_read(json_object_get(group, "profile"), &profile, err))
        return false;
    enum dtype dtype = gpu.peak_flops_per_s[DTYPE_BF16] > 0 ? DTYPE_BF16 : DTYPE_FP32;
    units_show(gpu.peak_flops_per_s[dtype], QUANTITY_FLOPS_PER_S, peak, sizeof peak);
    units_show(profile.memory_efficiency * gpu.memory_bytes_per_s, QUANTITY_BYTES_PER_S, bandwidth,
               sizeof bandwidth);
    if (profile.num_kernels == 0)
        printf("%s: %d measured collectives\n", profile.name, profile.num_curves);
    else
        printf("%s\neach device reaches at most %s in matrix products and %s in copies; compute "
               "takes %.2f times as long during communication\n",
               profile.source, peak, bandwidth, profile.overlap_compute_slowdown);
    if (profile.num_kernels > 0)
        printf("\n  %-26s %-16s %6s   error at left-out shapes: median, P90\n", "op", "", "shapes");
    for (int i = 0; i < profile.num_kernels; i++)
        show_table(&profile.kernels[i]);
    printf("\n");
    for (int i = 0; i < profile.num_curves; i++)
        show_curve(&profile.curves[i]);
    const json_t *residuals = json_object_get(json_object_get(group, "profile"), "residuals");
    show_held_out(residuals);
    show_disturbance(&profile, residuals);
    if (options->output && profile.num_kernels > 0)
        printf("\nnext  simsearch --gpus %lld --model tiny --cluster %s -o plan.json\n",
               (long long)json_integer_value(
                   json_object_get(json_array_get(json_object_get(group, "levels"), 0), "size")),
               options->output);
    profile_release(&profile);
    return true;
}

static int tell(json_t *cluster, const struct options *options, struct err *err)
{
    if (options->output && !planfile_write(options->output, cluster, err))
        return exit_code_of(err);
    if (options->json)
        print_json(cluster);
    else if (!options->quiet && !options_answer_is_hidden(options))
        show(cluster, options, err);
    return exit_code_of(err);
}

/* --- this machine --------------------------------------------------------------------------- */

static const char *backend_name(const struct options *options)
{
    return options->training.backend ? options->training.backend : device_host.name;
}

/* Measures the machine. An interrupted pass leaves its measurements in a file next to the output
 * file, from which the next pass resumes. */
static int measure(const struct options *options, const struct place *place, struct err *err)
{
    struct stack stack;
    struct model model;
    json_t *cluster = NULL;
    bool tells = place->rank == 0 && !options->quiet;
    bool shows = tells && isatty(STDERR_FILENO);
    if ((options->calibration.for_model &&
         (!model_load(options->calibration.for_model, &model, err) ||
          !model_has_costs(&model, err))) ||
        !stack_load(backend_name(options), &stack, err))
        return exit_code_of(err);
    struct text part = { 0 };
    bool resumes = options->output && !options_answer_is_hidden(options);
    if (resumes)
        text_add(&part, "%s.part", options->output);
    struct host_calibration calibration = { .backend = backend_name(options),
                                            .resume_path = resumes ? text_get(&part) : NULL,
                                            .is_quick = options->calibration.quick,
                                            .model = options->calibration.for_model ? &model : NULL,
                                            .stack = &stack,
                                            .progress = shows   ? show_progress
                                                        : tells ? log_progress
                                                                : NULL };
    bool ok = host_calibrate(place, &calibration, &cluster, err);
    if (shows)
        clear_progress();
    stack_release(&stack);
    int code = ok && cluster ? tell(cluster, options, err) : exit_code_of(err);
    if (cluster && code == EXIT_DONE && resumes)
        unlink(text_get(&part));
    text_release(&part);
    json_decref(cluster);
    return code;
}

/* Measures with ranks on a host's cores or on GPUs; one rank by default. */
static int measure_machine(const struct options *options, int argc, char **argv, struct err *err)
{
    struct place place;
    const struct backend *backend = backend_find(backend_name(options), err);
    bool uses_cores = backend && backend->device->uses_cores;
    int num_ranks = options->training.ranks > 0 ? options->training.ranks
                    : uses_cores                ? parallel_cores()
                                                : 1;
    if (!backend || !place_of_environment(&place, err))
        return exit_code_of(err);
    if (*place.launcher != '\0' || num_ranks == 1)
        return measure(options, &place, err);
    return backend->device->is_there(num_ranks - 1, err) ? ranks_launch(num_ranks, argc, argv, err)
                                                         : exit_code_of(err);
}

/* --- others' benchmarks --------------------------------------------------------------------- */

static bool is_of_same_group(const struct curve *a, const struct curve *b)
{
    return a->collective == b->collective && a->num_ranks == b->num_ranks &&
           a->num_nodes == b->num_nodes && strcmp(a->fabric, b->fabric) == 0;
}

/* Adds a curve or replaces an older one of the same kind. */
static bool add_curve(struct profile *profile, const struct curve *curve, struct err *err)
{
    for (int i = 0; i < profile->num_curves; i++)
        if (is_of_same_group(&profile->curves[i], curve)) {
            profile->curves[i] = *curve;
            return true;
        }
    if (profile->num_curves == MAX_CURVES)
        return err_set(err, ERR_INPUT, profile->name, "expected at most %d measured collectives",
                       MAX_CURVES);
    size_t count = (size_t)profile->num_curves + 1;
    profile->curves = arena_grow(profile->curves, count * sizeof *profile->curves);
    profile->curves[profile->num_curves++] = *curve;
    return true;
}

static bool read_output(const struct options *options, const char *path, struct system *system,
                        struct err *err)
{
    struct curve curve;
    const struct cluster *cluster = &system->cluster;
    bool ok = options->calibration.osu
                  ? bench_output_read_osu(path, options->training.ranks, &curve, err)
                  : bench_output_read_nccl(path, &curve, err);
    if (!ok)
        return false;
    int node = cluster_node_size(cluster);
    if (options->calibration.osu && curve.num_ranks > node)
        curve.num_nodes = (curve.num_ranks + node - 1) / node;
    const struct level *wires = &cluster->levels[curve.num_nodes > 1 && cluster->num_levels > 1];
    snprintf(curve.fabric, sizeof curve.fabric, "%s", wires->fabric);
    return add_curve(&system->profile, &curve, err);
}

/* The cluster's file with the GPU, profile and stack that it names included. */
static json_t *whole_cluster(const struct system *system)
{
    json_t *cluster = cluster_write(&system->cluster);
    json_t *group = json_array_get(json_object_get(cluster, "groups"), 0);
    json_object_set_new(group, "gpu", gpu_write(&system->gpu));
    json_object_set_new(group, "profile", profile_write(&system->profile));
    if (*system->cluster.stack_name)
        json_object_set_new(cluster, "stack", stack_write(&system->stack));
    return cluster;
}

static bool check_output_words(const struct options *options, struct err *err)
{
    if (options->calibration.nccl_tests && options->calibration.osu)
        return err_set(err, ERR_USAGE, "--osu", "cannot be combined with --nccl-tests");
    if (options->num_files == 0)
        return err_set(err, ERR_USAGE, options->calibration.osu ? "--osu" : "--nccl-tests",
                       "expected files that the benchmark printed");
    if (!options->cluster)
        return err_set(err, ERR_USAGE, "--cluster",
                       "is missing; give the cluster on which the benchmark ran");
    return true;
}

static int take_outputs(const struct options *options, struct err *err)
{
    struct system system;
    struct cluster named;
    if (!check_output_words(options, err) || !cluster_load(options->cluster, &named, err) ||
        !system_load(options->cluster, *named.stack_name ? NULL : "megatron-core", 1, &system, err))
        return exit_code_of(err);
    /* system_load shrank the level to one GPU; this restores the size in the file */
    system.cluster.levels[0].size = named.levels[0].size;
    bool ok = true;
    for (int i = 0; i < options->num_files && ok; i++)
        ok = read_output(options, options->files[i], &system, err);
    json_t *cluster = ok ? whole_cluster(&system) : NULL;
    int code = ok ? tell(cluster, options, err) : exit_code_of(err);
    json_decref(cluster);
    system_release(&system);
    return code;
}

/* --- a run ------------------------------------------------------------------------------------ */

/* Checks that the run has the plan's layout and prediction. Equal predictions show that model,
 * cluster and profile are the same. */
static bool check_run(const struct json_file *run, const struct setup *setup,
                      const struct prediction *prediction, struct err *err)
{
    struct text layout = { 0 };
    const char *ran = json_string_value(json_object_get(run->root, "layout"));
    const json_t *predicted = json_object_get(run->root, "predicted");
    double step_s = json_number_value(json_object_get(predicted, "step_s"));
    plan_write(&setup->plan, &layout);
    if (!ran || strcmp(ran, text_get(&layout)) != 0)
        err_set(err, ERR_INPUT, "layout",
                "expected the layout of the plan file, \"%.200s\"; found \"%.200s\"",
                text_get(&layout), ran ? ran : "");
    else if (json_is_null(json_object_get(predicted, "step_s")))
        err_set(err, ERR_INPUT, "predicted.step_s",
                "expected a prediction; found null, because the run was started without --cluster: "
                "repeat it with --cluster");
    else if (step_s <= 0 || fabs(log(step_s / prediction->step_s)) > 1e-6)
        err_set(err, ERR_INPUT, "predicted.step_s",
                "expected the plan's prediction, %.6g s; found %.6g s: the run had another model, "
                "cluster or profile",
                prediction->step_s, step_s);
    text_release(&layout);
    return err->code == ERR_NONE || json_file_blame(run, err);
}

static void show_refinement(const struct json_file *run, const struct refinement *refinement,
                            const struct prediction *before, const struct prediction *after)
{
    const json_t *measured = json_object_get(run->root, "measured");
    printf("MFU measured %.1f %%; predicted %.1f %% with the old profile, %.1f %% with the refined "
           "one\n",
           100 * json_number_value(json_object_get(measured, "mfu")), 100 * before->mfu,
           100 * after->mfu);
    for (int i = 0; i < NUM_OP_KINDS; i++)
        if (refinement->factor[i] != 1)
            printf("  %-16s x %.3f\n", op_kind_infos[i].text, refinement->factor[i]);
}

static struct prediction predict(const struct setup *setup)
{
    struct evaluator *evaluator = evaluator_new(&setup->system, &setup->model);
    struct prediction prediction = evaluate(evaluator, &setup->plan);
    evaluator_free(evaluator);
    return prediction;
}

static void add_list(struct ops *to, const struct ops *list)
{
    for (int i = 0; i < list->count; i++)
        to->at[to->count++] = list->at[i];
}

/* Joins the distinct op lists of the plan to one list, in the arena. */
static struct ops ops_of(struct setup *setup)
{
    typedef struct local_ops lists_of(struct rank_share, const struct model *, double,
                                      const struct layer_options *, bool, struct arena *);
    static lists_of *const parts[] = { local_layer, local_embedding, local_head };
    struct layer_options options = plan_layer_options(&setup->plan, &setup->system);
    struct rank_share share = rank_share_of(&setup->plan);
    bool overlaps = plan_overlaps(&setup->plan, &setup->system.stack, OVERLAP_TP);
    enum { NUM_PARTS = LENGTH(parts) };
    struct local_ops lists[NUM_PARTS];
    size_t count = 0;
    for (int i = 0; i < NUM_PARTS; i++) {
        lists[i] =
            parts[i](share, &setup->model, setup->model.seq, &options, overlaps, &setup->arena);
        count += (size_t)(lists[i].forward.count + lists[i].backward.count);
    }
    struct ops all = { .at = ARENA_ARRAY(&setup->arena, struct op, count) };
    for (int i = 0; i < NUM_PARTS; i++) {
        add_list(&all, &lists[i].forward);
        add_list(&all, &lists[i].backward);
    }
    return all;
}

/* The launch mode that the run's own prediction used. */
static enum launch launches_of(const struct json_file *run)
{
    return json_is_object(json_object_get(run->root, "graphs")) ? LAUNCH_GRAPHS : LAUNCH_EAGER;
}

static int refine_with(const struct options *options, struct setup *setup,
                       const struct json_file *run, struct err *err)
{
    struct refinement refinement;
    struct stack *stack = &setup->system.stack;
    int planned = stack->host.launch;
    stack->host.launch = (int)launches_of(run);
    struct prediction before = predict(setup);
    if (!check_run(run, setup, &before, err))
        return exit_code_of(err);
    struct ops ran = ops_of(setup);
    if (!refine_profile(run->root, &ran, &setup->system.profile, &refinement, err)) {
        json_file_blame(run, err);
        return exit_code_of(err);
    }
    struct prediction after = predict(setup);
    stack->host.launch = planned;
    snprintf(setup->system.cluster.stack_name, sizeof setup->system.cluster.stack_name, "%s",
             stack->name);
    json_t *cluster = whole_cluster(&setup->system);
    bool ok = !options->output || planfile_write(options->output, cluster, err);
    if (ok && options->json)
        print_json(cluster);
    else if (ok && !options->quiet && !options_answer_is_hidden(options))
        show_refinement(run, &refinement, &before, &after);
    json_decref(cluster);
    return exit_code_of(err);
}

static int refine(const struct options *options, struct err *err)
{
    struct setup setup = { 0 };
    struct json_file run = { 0 };
    int code = EXIT_USAGE;
    if (options->num_files != 1)
        err_set(err, ERR_USAGE, "--refine",
                "expected a run and its plan file, as in \"--refine run.json plan.json\"");
    else if (json_file_load(&run, options->calibration.refine, err) &&
             setup_load(options, options->files[0], &setup, err))
        code = refine_with(options, &setup, &run, err);
    setup_release(&setup);
    json_file_release(&run);
    return err->code != ERR_NONE ? exit_code_of(err) : code;
}

/* --- the command ---------------------------------------------------------------------------- */

int cmd_calibrate(int argc, char **argv, struct err *err)
{
    struct options options;
    if (!options_parse(COMMAND_CALIBRATE, MAX_FILES, argc, argv, &options, err))
        return exit_code_of(err);
    if (options.calibration.refine)
        return refine(&options, err);
    if (options.accuracy.convergence)
        return calibrate_convergence(&options, err);
    if (options.calibration.nccl_tests || options.calibration.osu)
        return take_outputs(&options, err);
    if (options.num_files > 0) {
        err_set(err, ERR_USAGE, options.files[0], "files need --nccl-tests or --osu before them");
        return exit_code_of(err);
    }
    return measure_machine(&options, argc, argv, err);
}
