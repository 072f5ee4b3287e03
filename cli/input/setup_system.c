/* Finds the cluster, GPU, profile and stack of a command line, or reads them from a plan file. A
 * profile holds a GPU's measured constants; a stack describes the training software. */
#include "cli/input/setup_part.h"

#include "base/file.h"
#include "base/units.h"
#include "cli/input/planfile.h"
#include "exec/plugin/backend.h"
#include "sim/cost/learned.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_CLUSTER "dgx-h100"
#define DEFAULT_STACK   "megatron-core"

/* Finds the cluster preset that has this GPU; of several, the alphabetically first. */
static bool find_cluster(const char *gpu, char *name, size_t size, struct err *err)
{
    struct gpu found;
    char folder[PATH_MAX];
    size_t count = 0;
    if (!gpu_load(gpu, &found, err))
        return false;
    char **names = NULL;
    if (file_data_folder("calibration/clusters", folder, sizeof folder))
        names = file_list_json(folder, &count);
    bool is_found = false;
    for (size_t i = 0; i < count; i++) {
        struct cluster cluster;
        struct err ignored = { 0 };
        if (!is_found && cluster_load(names[i], &cluster, &ignored) &&
            strcmp(cluster.gpu_name, found.name) == 0) {
            snprintf(name, size, "%s", names[i]);
            is_found = true;
        }
        free(names[i]);
    }
    free(names);
    return is_found || err_set(err, ERR_USAGE, gpu,
                               "no cluster preset has this GPU; give one by "
                               "--cluster FILE");
}

/* Reads cluster, GPU and profile from a plan file's objects. */
static bool read_system(const struct json_file *file, struct system *out, struct err *err)
{
    const json_t *gpu = planfile_part(file, "gpu");
    const json_t *profile = planfile_part(file, "profile");
    if (!cluster_read(planfile_part(file, "cluster"), &out->cluster, err))
        return planfile_blame(file, "cluster", err);
    bool ok = gpu ? gpu_read(gpu, &out->gpu, err) : gpu_load(out->cluster.gpu_name, &out->gpu, err);
    if (!ok)
        return planfile_blame(file, "gpu", err);
    ok = profile ? profile_read(profile, &out->profile, err)
                 : profile_load(out->cluster.profile_name, &out->profile, err);
    return ok || planfile_blame(file, "profile", err);
}

/* The default stack: the executor's stack for the requested backend, which has the backend's name;
 * else DEFAULT_STACK. */
static const char *usual_stack(const struct options *options)
{
    for (int i = 0; options->training.backend && backend_names[i]; i++)
        if (strcmp(backend_names[i], options->training.backend) == 0)
            return backend_names[i];
    return DEFAULT_STACK;
}

static bool read_stack(const struct options *options, const struct json_file *file,
                       struct system *out, struct err *err)
{
    const json_t *part = planfile_part(file, "stack");
    const char *name = planfile_name(file, "stack");
    bool ok = part ? stack_read(part, &out->stack, err)
                   : stack_load(name ? name : usual_stack(options), &out->stack, err);
    return ok || planfile_blame(file, "stack", err);
}

/* Repeats the checks of system_load for a system whose parts were read from a plan file. */
static bool check_embedded(const struct system *system, struct err *err)
{
    double most = (double)system->cluster.num_nodes * cluster_node_size(&system->cluster);
    if (most > 0 && system->num_gpus > most)
        return err_set(err, ERR_INFEASIBLE, "gpus", "%s has %.0f GPUs; the plan uses %d",
                       system->cluster.name, most, system->num_gpus);
    return system_check_attention(system, err);
}

/* Whether the name is that of a GPU and not also of a cluster. */
static bool is_gpu_alone(const char *name)
{
    struct cluster cluster;
    struct gpu gpu;
    struct err unknown = { 0 }, ignored = { 0 };
    return !file_is_path(name, ".json") && !cluster_load(name, &cluster, &unknown) &&
           unknown.code == ERR_USAGE && gpu_load(name, &gpu, &ignored);
}

/* The requested cluster's name or path. NULL: the plan file contains the cluster itself, or `err`
 * is set. */
static const char *choose_cluster(const struct options *options, const struct json_file *file,
                                  char *room, size_t size, struct setup *setup, struct err *err)
{
    if (options->cluster && !is_gpu_alone(options->cluster))
        return options->cluster;
    if (options->cluster) {
        if (!find_cluster(options->cluster, room, size, err))
            return NULL;
        setup_assume(setup, "cluster %s, the first preset that has the GPU %s", room,
                     options->cluster);
        return room;
    }
    if (options->gpu) {
        if (!find_cluster(options->gpu, room, size, err))
            return NULL;
        setup_assume(setup, "cluster %s, the first preset that has %s", room, options->gpu);
        return room;
    }
    if (planfile_part(file, "cluster"))
        return NULL;
    if (planfile_name(file, "cluster"))
        return planfile_name(file, "cluster");
    setup_assume(setup, "cluster " DEFAULT_CLUSTER ", as none was named");
    return DEFAULT_CLUSTER;
}

/* The stack to use when the options name none. NULL: the stack that the cluster's file names. */
static const char *stack_for(const struct options *options, const char *cluster, bool has_stack,
                             struct setup *setup)
{
    struct cluster found;
    struct err ignored = { 0 };
    const char *usual = usual_stack(options);
    if (!has_stack && cluster && cluster_load(cluster, &found, &ignored) && *found.stack_name) {
        setup_assume(setup, "stack %s, the default of cluster %s, as none was named",
                     found.stack_name, found.name);
        return NULL;
    }
    if (!has_stack && strcmp(usual, DEFAULT_STACK) != 0)
        setup_assume(
            setup, "stack %s, this program's executor on the requested backend, as none was named",
            usual);
    else if (!has_stack)
        setup_assume(setup, "stack " DEFAULT_STACK ", as none was named");
    return usual;
}

static bool load_cluster(const struct options *options, const struct json_file *file,
                         struct cluster *out, struct err *err)
{
    char room[NAME_MAX + 1];
    struct setup silent = { .assumptions = json_array() };
    const char *name = choose_cluster(options, file, room, sizeof room, &silent, err);
    json_decref(silent.assumptions);
    if (err->code != ERR_NONE)
        return false;
    return name ? cluster_load(name, out, err)
                : cluster_read(planfile_part(file, "cluster"), out, err) ||
                      planfile_blame(file, "cluster", err);
}

bool setup_count_nodes(const struct options *options, const struct json_file *file, int *num_gpus,
                       struct err *err)
{
    struct cluster cluster;
    if (!load_cluster(options, file, &cluster, err))
        return false;
    int host = cluster_host_size(&cluster);
    double gpus = (double)options->nodes * host;
    if (gpus > MOST_GPUS)
        return err_set(err, ERR_USAGE, "--nodes",
                       "expected at most %d nodes with %d GPUs each; found %d nodes",
                       MOST_GPUS / host, host, options->nodes);
    if (options->gpus > 0 && options->gpus != gpus)
        return err_set(err, ERR_USAGE, "--nodes",
                       "%d nodes of %s have %.0f GPUs, but --gpus says %d", options->nodes,
                       cluster.name, gpus, options->gpus);
    *num_gpus = (int)gpus;
    return true;
}

static bool load_system(const struct options *options, const struct json_file *file, int num_gpus,
                        struct setup *setup, struct err *err)
{
    char room[NAME_MAX + 1];
    struct system *system = &setup->system;
    const char *cluster = choose_cluster(options, file, room, sizeof room, setup, err);
    if (err->code != ERR_NONE)
        return false;
    bool has_stack = options->stack || json_object_get(file->root, "stack");
    const char *fallback = stack_for(options, cluster, has_stack, setup);
    if (cluster) {
        const char *stack = options->stack ? options->stack : fallback;
        if (!system_load(cluster, stack, num_gpus, system, err))
            return false;
        if (options->stack || !has_stack)
            return true;
        stack_release(&system->stack);
        return read_stack(options, file, system, err) && check_embedded(system, err);
    }
    system->num_gpus = num_gpus;
    if (!read_system(file, system, err))
        return false;
    bool ok = options->stack ? stack_load(options->stack, &system->stack, err)
                             : read_stack(options, file, system, err);
    return ok && check_embedded(system, err);
}

static bool check_gpu_option(const struct options *options, const struct system *system,
                             struct err *err)
{
    struct gpu gpu;
    if (!options->gpu || !options->cluster)
        return true;
    if (!gpu_load(options->gpu, &gpu, err))
        return false;
    if (strcmp(gpu.name, system->gpu.name) == 0)
        return true;
    return err_set(err, ERR_USAGE, "--gpu", "cluster %s has %s, not %s", system->cluster.name,
                   system->gpu.name, gpu.name);
}

/* Checks that a job uses part of one node or whole nodes, as partly used nodes lack network rails
 * to other nodes. */
static bool check_nodes(const struct system *system, struct err *err)
{
    int node = cluster_node_size(&system->cluster);
    int below = system->num_gpus / node * node;
    if (system->num_gpus <= node || system->num_gpus == below)
        return true;
    return err_set(err, ERR_USAGE, "--gpus",
                   "expected whole nodes of %d GPUs, like %d or %d; found %d", node, below,
                   below + node, system->num_gpus);
}

/* Subtracts memory that another program, such as an inference engine, uses on each GPU. */
static bool reserve_memory(const struct options *options, struct setup *setup, struct err *err)
{
    struct gpu *gpu = &setup->system.gpu;
    char reserved[64];
    double left_bytes = gpu_usable_bytes(gpu) - options->reserve_bytes;
    if (options->reserve_bytes <= 0)
        return true;
    if (left_bytes <= 0)
        return err_set(err, ERR_USAGE, "--reserve", "leaves nothing of the %.1f GiB that %s has",
                       gpu_usable_bytes(gpu) / 0x1p30, gpu->name);
    gpu->usable_bytes = left_bytes;
    units_write(options->reserve_bytes, QUANTITY_BYTES, reserved, sizeof reserved);
    setup_assume(setup, "%s of each GPU's memory is reserved for other programs (--reserve)",
                 reserved);
    return true;
}

static bool set_memory(const struct options *options, struct setup *setup, struct err *err)
{
    if (!reserve_memory(options, setup, err))
        return false;
    const struct gpu *gpu = &setup->system.gpu;
    char has[64];
    double usable_bytes = gpu_usable_bytes(gpu);
    setup->memory_bytes = options->max_memory_bytes > 0
                              ? fmin(options->max_memory_bytes, usable_bytes)
                              : usable_bytes;
    if (options->max_memory_bytes <= gpu->memory_bytes)
        return true;
    units_write(gpu->memory_bytes, QUANTITY_BYTES, has, sizeof has);
    return err_set(err, ERR_USAGE, "--max-memory", "%s has only %s", gpu->name, has);
}

static void say_disturbed(struct setup *setup, const struct profile *profile)
{
    const struct disturbance *seen = &profile->disturbed;
    if (!profile->is_disturbed)
        return;
    setup_assume(
        setup,
        "other programs disturbed the calibration of profile %s: a rank got only %.0f %% of its "
        "core. Predictions of held-out steps were up to %.0f %% off, and every interval is "
        "at least that wide",
        profile->name, 100 * seen->core_share, 100 * seen->held_out_error);
}

static void say_profile(struct setup *setup)
{
    const struct profile *profile = &setup->system.profile;
    struct text words = { 0 };
    say_disturbed(setup, profile);
    provenance_words(&profile->provenance, &words);
    if (!profile->measured)
        setup_assume(setup, "profile %s (%s), NOT measured on such a machine", profile->name,
                     text_get(&words));
    text_release(&words);
}

static void say_learned(struct setup *setup, const struct learned_stack *of, const char *path)
{
    const char *profile = setup->system.profile.name;
    const struct learned_gpu *gpu = learned_gpu_find(of, profile);
    int runs = gpu ? gpu->num_ratios : learned_runs(of);
    setup_assume(
        setup, "all times%s multiplied by %.3f, learned from %d run%s with stack %s%s%s (%s)%s",
        of->experts ? " of experts" : "", learned_ratio(of, profile), runs, runs == 1 ? "" : "s",
        of->stack, gpu ? "" : " on other GPUs than ", gpu ? "" : profile, path,
        learned_chance(of) < SURE_FACTOR ? "; the learned factor is too uncertain to be applied"
                                         : "");
}

static bool lay_learned(const struct options *options, struct setup *setup, struct err *err)
{
    struct learned learned;
    const char *stack = setup->system.stack.name;
    if (!options->learned)
        return true;
    bool ok = learned_load(options->learned, &learned, err);
    if (ok) {
        bool experts = setup->model.experts > 0;
        const struct learned_stack *of = learned_find(&learned, &setup->system.stack, experts);
        learned_apply(&learned, &setup->system);
        if (of)
            say_learned(setup, of, options->learned);
        else
            setup_assume(setup, "%s has no correction for stack %s%s", options->learned, stack,
                         experts ? " with experts" : "");
    }
    learned_release(&learned);
    return ok;
}

bool setup_set_system(const struct options *options, const struct json_file *file, int num_gpus,
                      struct setup *setup, struct err *err)
{
    if (!load_system(options, file, num_gpus, setup, err) ||
        !check_gpu_option(options, &setup->system, err) || !check_nodes(&setup->system, err))
        return false;
    if (options->training.graphs == GRAPHS_OFF && setup->system.stack.host.launch == LAUNCH_PASSES)
        setup->system.stack.host.launch = LAUNCH_EAGER;
    if (options->dispatcher >= 0)
        setup->system.stack.dispatcher = options->dispatcher;
    if (options->quantized_dispatch)
        setup->system.stack.sends_quantized = true;
    if (options->price >= 0)
        setup->system.cluster.price_per_gpu_h = options->price;
    if (!lay_learned(options, setup, err))
        return false;
    say_profile(setup);
    return set_memory(options, setup, err);
}
