/* Loads a system: a cluster, its GPU, the profile of measured constants of that GPU, and the stack,
 * which describes the training software. */
#include "sim/cost/hardware.h"

#include "base/json.h"
#include "sim/cost/datafile.h"

#include <math.h>
#include <string.h>

/* A cluster file may contain its GPU and profile instead of naming them. */
static const json_t *embedded_part(const json_t *root, const char *key)
{
    const json_t *group = json_array_get(json_object_get(root, "groups"), 0);
    const json_t *part = json_object_get(group, key);
    return json_is_object(part) ? part : NULL;
}

/* Reports a wrong name in a cluster file as an error of that file, not of the command line. */
static bool blame_part(const struct json_file *file, const char *key, const struct err *found,
                       struct err *err)
{
    if (found->code != ERR_USAGE)
        return err_pass(err, found);
    err_set(err, ERR_INPUT, key, "\"%.80s\": %s", found->where, found->msg);
    return json_file_blame(file, err);
}

static bool blame_embedded(const struct json_file *file, const char *key, struct err *err)
{
    err_within(err, key);
    return json_file_blame(file, err);
}

static bool resolve_gpu(const struct json_file *file, const char *name, struct gpu *out,
                        struct err *err)
{
    const json_t *part = embedded_part(file->root, "gpu");
    struct err found = { 0 };
    if (part)
        return gpu_read(part, out, err) || blame_embedded(file, "groups[0].gpu", err);
    return gpu_load(name, out, &found) || blame_part(file, "groups[0].gpu", &found, err);
}

/* Loads the profile of `gpu`; an empty name means that it has none. */
static bool resolve_profile(const struct json_file *file, const char *name, const char *gpu,
                            struct profile *out, struct err *err)
{
    const json_t *part = embedded_part(file->root, "profile");
    struct err found = { 0 };
    if (*name == '\0') {
        *out = profile_missing(gpu);
        return true;
    }
    if (part)
        return profile_read(part, out, err) || blame_embedded(file, "groups[0].profile", err);
    return profile_load(name, out, &found) || blame_part(file, "groups[0].profile", &found, err);
}

/* The requested stack, else the one that the cluster's file holds or names. */
static bool resolve_stack(const struct json_file *file, const char *asked, struct stack *out,
                          struct err *err)
{
    const json_t *own = json_object_get(file->root, "stack");
    struct err found = { 0 };
    if (asked)
        return stack_load(asked, out, err);
    if (json_is_object(own))
        return stack_read(own, out, err) || blame_embedded(file, "stack", err);
    if (!own)
        return err_set(err, ERR_USAGE, "stack", "is not given, and %s does not name one",
                       file->path);
    return stack_load(json_string_value(own), out, &found) ||
           blame_part(file, "stack", &found, err);
}

static bool check_count(const struct cluster *cluster, int num_gpus, struct err *err)
{
    double node_gpus = cluster_node_size(cluster);
    double num_nodes = cluster->num_nodes;
    if (cluster->num_levels == 1 && cluster->num_nodes == 0)
        num_nodes = 1; /* no level connects a second node */
    if (num_gpus < 1)
        return err_set(err, ERR_USAGE, "gpus", "expected at least 1; found %d", num_gpus);
    if (num_nodes > 0 && num_gpus > num_nodes * node_gpus)
        return err_set(err, ERR_INFEASIBLE, "gpus", "%s has %.0f (%.0f x %.0f); %d were requested",
                       cluster->name, num_nodes * node_gpus, num_nodes, node_gpus, num_gpus);
    return true;
}

bool system_check_attention(const struct system *system, struct err *err)
{
    enum attention_kernel kernel = stack_attention(&system->stack, &system->gpu);
    if (kernel == ATTENTION_UNFUSED || system->profile.attention[kernel].forward_efficiency > 0)
        return true;
    return err_set(err, ERR_INPUT, system->profile.name,
                   "attention: expected the rate of %s, which stack %s uses on %s",
                   attention_names[kernel], system->stack.name, system->gpu.name);
}

static bool resolve(const struct json_file *file, struct system *out, struct err *err)
{
    if (!cluster_read(file->root, &out->cluster, err))
        return json_file_blame(file, err);
    return resolve_gpu(file, out->cluster.gpu_name, &out->gpu, err) &&
           resolve_profile(file, out->cluster.profile_name, out->cluster.gpu_name, &out->profile,
                           err);
}

bool system_load(const char *cluster, const char *stack, int num_gpus, struct system *out,
                 struct err *err)
{
    struct json_file file;
    memset(out, 0, sizeof *out);
    out->num_gpus = num_gpus;
    if (!datafile_open(&cluster_files, cluster, &file, err))
        return false;
    bool ok = resolve(&file, out, err) && resolve_stack(&file, stack, &out->stack, err);
    json_file_release(&file);
    ok = ok && check_count(&out->cluster, num_gpus, err) && system_check_attention(out, err);
    if (!ok)
        system_release(out);
    else
        out->cluster.levels[0].size = cluster_node_share(&out->cluster, num_gpus);
    return ok;
}

void system_release(struct system *system)
{
    profile_release(&system->profile);
    stack_release(&system->stack);
}
