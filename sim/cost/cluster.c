/* Reads and writes clusters: groups of equal nodes and their network levels. */
#include "base/length.h"
#include "sim/cost/hardware.h"

#include "base/json.h"
#include "sim/cost/datafile.h"

#include <stdio.h>
#include <string.h>

#define AT(type, member) .offset = offsetof(struct type, member)
#define TEXT(type, member) \
    .kind = FIELD_TEXT, AT(type, member), .size = sizeof((struct type *)0)->member
#define QUANTITY(unit, type, member) \
    .kind = FIELD_QUANTITY, .quantity = QUANTITY_##unit, AT(type, member)

// clang-format off
const struct field level_fields[] = {
    { .name = "name", TEXT(level, name), .doc = "\"node\", \"rail\", \"pod\" ..." },
    { .name = "size", .kind = FIELD_INT, AT(level, size), .min = 1, .max = 1 << 20,
      .doc = "How many units of the level below are in one unit of this level (GPUs in a node, nodes in a pod). Last level: how many units one leaf switch connects." },
    { .name = "fabric", TEXT(level, fabric), .fallback = "",
      .doc = "Kind of link: nvlink..., nvswitch..., pcie..., mesh, ib-..., roce-..." },
    { .name = "bandwidth", QUANTITY(BYTES_PER_S, level, bytes_per_s), .min = 1, .max = 1e18,
      .doc = "Bandwidth in one direction: of a GPU in the first level, of a network card in the "
             "levels above." },
    { .name = "latency", QUANTITY(SECONDS, level, latency_s), .min = 0, .max = 1,
      .doc = "Time of an empty message." },
    { .name = "in_network_reduction", .kind = FIELD_BOOL, AT(level, in_network_reduction),
      .fallback = "false", .doc = "The switches can reduce: NVLS within a node, SHARP on higher "
                                  "levels." },
    { .name = "nics_per_gpu", .kind = FIELD_NUMBER, AT(level, nics_per_gpu), .min = 1e-3, .max = 64,
      .fallback = "1", .doc = "Network cards per GPU; a fraction if GPUs share one." },
    { .name = "efficiency", .kind = FIELD_NUMBER, AT(level, efficiency), .min = 1e-3, .max = 1,
      .fallback = "1",
      .doc = "Share of a network card's bandwidth that is left when flows collide; 1 with adaptive "
             "routing." },
    { .name = "oversubscription", .kind = FIELD_NUMBER, AT(level, oversubscription), .min = 1,
      .max = 1e3, .fallback = "1",
      .doc = "Traffic that leaves a unit of this level gets the bandwidth divided by this number." },
    { .name = "channels", .kind = FIELD_INT, AT(level, channels), .min = 0, .max = 64,
      .fallback = "0", .doc = "NCCL's ring channels of a whole node; 0: two in the level of the node, one per network card in the levels between nodes." },
    { .name = "channel_bandwidth", QUANTITY(BYTES_PER_S, level, channel_bytes_per_s), .min = 0,
      .max = 1e18, .fallback = "0 B/s",
      .doc = "Bandwidth of one channel; 0: the level's bandwidth divided by the number of channels. Each network card carries an equal number of channels." },
    { .name = "nvls_channels", .kind = FIELD_INT, AT(level, nvls_channels), .min = 0, .max = 64,
      .fallback = "0", .doc = "Channels of NVLS; 0: no NVLS." },
    { .name = "nvls_channel_bandwidth", QUANTITY(BYTES_PER_S, level, nvls_intra_bytes_per_s),
      .min = 0, .max = 1e18, .fallback = "0 B/s",
      .doc = "NCCL's bandwidth of one NVLS channel in a node." },
    { .name = "spread", .kind = FIELD_NUMBER, AT(level, spread), .min = 0, .max = 1,
      .fallback = "0.03",
      .doc = "Standard deviation of one transfer's time around its mean. Used only for --draws. "
             "Default: that of repeated whole steps on 384 GPUs (bloom_prequel)." },
    { .name = "link_bandwidth", QUANTITY(BYTES_PER_S, level, link_bytes_per_s), .min = 0, .max = 1e18,
      .fallback = "0 B/s",
      .doc = "In a mesh: bandwidth of the link between two members, in one direction; `bandwidth` "
             "is then that of all links of a member. 0: any two members have the whole bandwidth." },
    { .name = "socket_size", .kind = FIELD_INT, AT(level, socket_size), .min = 0, .max = 1024,
      .fallback = "0", .doc = "First level: GPUs attached to one CPU socket; 0: all of the node." },
    { .name = "socket_channel_bandwidth", QUANTITY(BYTES_PER_S, level, socket_channel_bytes_per_s),
      .min = 0, .max = 1e18, .fallback = "0 B/s",
      .doc = "Highest bandwidth of one channel of a group whose GPUs are attached to several "
             "sockets." },
    { .name = "socket_bandwidth", QUANTITY(BYTES_PER_S, level, socket_bytes_per_s), .min = 0,
      .max = 1e18, .fallback = "0 B/s",
      .doc = "Bandwidth between two sockets in one direction, which all groups share." },
};
// clang-format on
const size_t num_level_fields = LENGTH(level_fields);

// clang-format off
const struct field group_fields[] = {
    { .name = "gpu", .kind = FIELD_OTHER, .doc = "Name or path of a GPU file, or its contents." },
    { .name = "profile", .kind = FIELD_OTHER, .fallback = "",
      .doc = "Name or path of a profile, or its contents; absent: the profile with the GPU's name; "
             "null: no profile, so only the memory of plans is predicted." },
    { .name = "nodes", .kind = FIELD_OTHER, .fallback = "null",
      .doc = "Number of nodes; null: as many as --gpus asks for." },
    { .name = "segment", .kind = FIELD_INT, AT(cluster, segment), .min = 0, .max = 1 << 20,
      .fallback = "0",
      .doc = "Number of GPUs of a node or rack that a job uses if no plan divides evenly over all "
             "of them (64 of 72); 0: all." },
    { .name = "gpus_per_host", .kind = FIELD_INT, AT(cluster, gpus_per_host), .min = 0,
      .max = 1 << 20, .fallback = "0",
      .doc = "GPUs per host, if the first level connects several hosts; 0: the first level is one "
             "host." },
    { .name = "levels", .kind = FIELD_OTHER, .doc = "Network levels, starting with the innermost." },
};
// clang-format on
const size_t num_group_fields = LENGTH(group_fields);

// clang-format off
const struct field cluster_fields[] = {
    { .name = "format", .kind = FIELD_OTHER, .doc = "Version of the file's form: 1." },
    { .name = "name", TEXT(cluster, name), .doc = "Name of the file." },
    { .name = "source", TEXT(cluster, source), .doc = "Where the numbers come from." },
    { .name = "sources", .kind = FIELD_OTHER, .fallback = "", .doc = "Sources of single keys." },
    { .name = "summary", TEXT(cluster, summary), .fallback = "", .doc = "Description in one line, which `list` shows." },
    { .name = "price", QUANTITY(DOLLARS_PER_HOUR, cluster, price_per_gpu_h), .min = 0, .max = 1e6,
      .fallback = "0 $/h", .doc = "Price of one GPU per hour; 0: not stated." },
    { .name = "cpu", .kind = FIELD_OTHER, .fallback = "intel",
      .doc = "intel or amd: NCCL's latencies and caps differ." },
    { .name = "host_memory_bandwidth", QUANTITY(BYTES_PER_S, cluster, host_bytes_per_s), .min = 1,
      .max = 1e18, .fallback = "40 GB/s",
      .doc = "Bandwidth of the host's memory per GPU; default: DGX A100's 16 channels of DDR4-3200 "
             "at 0.8, over 8 GPUs." },
    { .name = "storage", QUANTITY(BYTES_PER_S, cluster, storage_bytes_per_s), .min = 0, .max = 1e18,
      .fallback = "0 B/s",
      .doc = "Highest rate at which all hosts together write checkpoints to storage and read them; "
             "0: only each host's rate limits it." },
    { .name = "storage_per_host", QUANTITY(BYTES_PER_S, cluster, host_storage_bytes_per_s),
      .min = 0, .max = 1e18, .fallback = "0 B/s",
      .doc = "The same rate for one host; 0: 2 GB/s or the rate of its network cards, whichever is "
             "less, which the answer lists as an assumption (NVIDIA DGX SuperPOD, standard "
             "storage: 62 GB/s for 32 hosts, quoted from memory)." },
    { .name = "host_mtbf", QUANTITY(SECONDS, cluster, host_mtbf_s), .min = 1, .max = 1e18,
      .fallback = "30161 h",
      .doc = "Mean time between failures of a host without its GPUs, including network cards, "
             "cables and unplanned maintenance. Default: 88 on 2048 hosts in 54 days (Grattafiori "
             "et al. 2024, table 5)." },
    { .name = "hosts_lost", .kind = FIELD_NUMBER, AT(cluster, hosts_lost), .min = 1, .max = 1000,
      .fallback = "1.6",
      .doc = "Mean number of hosts that a hardware failure takes out; some fail together. Default: "
             "OPT-175B's more than 175 hosts in 110 restarts, quoted from memory." },
    { .name = "repair", QUANTITY(SECONDS, cluster, repair_s), .min = 0, .max = 1e18,
      .fallback = "2 d", .doc = "Time until a failed host can be used again. The default is an "
                                "assumption." },
    { .name = "stack", .kind = FIELD_OTHER, .fallback = "",
      .doc = "Default stack of this cluster: its name or path, or its contents." },
    { .name = "groups", .kind = FIELD_OTHER, .doc = "Groups of equal nodes; at present exactly one." },
};
// clang-format on
const size_t num_cluster_fields = LENGTH(cluster_fields);

const struct datafile_kind cluster_files = { "cluster", "calibration/clusters", NULL };

/* Reads the name of a GPU, profile or stack. `value` is the name, or an object with a "name". */
static bool read_part_name(const json_t *value, const char *key, char *name, size_t size,
                           struct err *err)
{
    bool is_embedded = json_is_object(value);
    const char *text = json_plain_text(is_embedded ? json_object_get(value, "name") : value);
    size_t length = text ? strlen(text) : 0;
    if (length == 0 || length >= size) {
        err_set(err, ERR_INPUT, is_embedded ? ".name" : "",
                "expected a name of 1 to %zu plain bytes", size - 1);
        err_prefix(err, key);
        return false;
    }
    snprintf(name, size, "%s", text);
    return true;
}

static bool read_nodes(const json_t *nodes, struct cluster *out, struct err *err)
{
    enum { MAX_NODES = 1 << 20 };
    if (!nodes || json_is_null(nodes))
        return true;
    json_int_t number = json_integer_value(nodes);
    if (number < 1 || number > MAX_NODES)
        return err_set(err, ERR_INPUT, "nodes", "expected null or an integer from 1 to %d",
                       MAX_NODES);
    out->num_nodes = (int)number;
    return true;
}

static bool read_level(const json_t *object, struct level *out, struct err *err)
{
    if (!fields_read(level_fields, num_level_fields, object, out, err))
        return false;
    bool is_mesh = strcmp(out->fabric, "mesh") == 0;
    if (is_mesh != (out->link_bytes_per_s > 0))
        return err_set(
            err, ERR_INPUT, "link_bandwidth",
            is_mesh ? "is missing; expected the bandwidth of the link between two members of a mesh"
                    : "needs fabric mesh; found fabric \"%s\"",
            out->fabric);
    if (out->link_bytes_per_s * (out->size - 1) > out->bytes_per_s * (1 + 1e-9))
        return err_set(
            err, ERR_INPUT, "link_bandwidth",
            "expected at most the member's `bandwidth` divided by its %d links; found more",
            out->size - 1);
    bool has_sockets = out->socket_size > 0;
    if (has_sockets != (out->socket_channel_bytes_per_s > 0) ||
        has_sockets != (out->socket_bytes_per_s > 0))
        return err_set(err, ERR_INPUT, "socket_size",
                       "expected socket_size, socket_channel_bandwidth and socket_bandwidth "
                       "together, or none of them");
    if (out->nvls_channels > 0 && out->nvls_intra_bytes_per_s <= 0)
        return err_set(err, ERR_INPUT, "nvls_channel_bandwidth",
                       "is missing; expected the bandwidth of one of the %d channels",
                       out->nvls_channels);
    return true;
}

static bool read_levels(const json_t *levels, struct cluster *out, struct err *err)
{
    size_t count = json_array_size(levels);
    if (count < 1 || count > MAX_LEVELS)
        return err_set(err, ERR_INPUT, "levels", "expected a list of 1 to %d levels; found %zu",
                       MAX_LEVELS, count);
    out->num_levels = (int)count;
    for (size_t i = 0; i < count; i++)
        if (!read_level(json_array_get(levels, i), &out->levels[i], err))
            return err_within_item(err, "levels", i);
    return true;
}

static bool read_parts(const json_t *group, bool has_profile, struct cluster *out, struct err *err)
{
    const json_t *gpu = json_object_get(group, "gpu");
    const json_t *profile = json_object_get(group, "profile");
    return read_part_name(gpu, "gpu", out->gpu_name, sizeof out->gpu_name, err) &&
           (!has_profile || read_part_name(profile ? profile : gpu, profile ? "profile" : "gpu",
                                           out->profile_name, sizeof out->profile_name, err)) &&
           read_nodes(json_object_get(group, "nodes"), out, err) &&
           read_levels(json_object_get(group, "levels"), out, err);
}

/* A null here means "as many nodes as needed" or "no profile". fields_read refuses null, so it gets
 * only the other keys. */
static bool read_group(const json_t *group, struct cluster *out, struct err *err)
{
    json_t *stated = json_deep_copy(group);
    bool has_profile = !json_is_null(json_object_get(stated, "profile"));
    if (json_is_null(json_object_get(stated, "nodes")))
        json_object_del(stated, "nodes");
    if (!has_profile)
        json_object_del(stated, "profile");
    bool ok = fields_read(group_fields, num_group_fields, stated, out, err) &&
              read_parts(stated, has_profile, out, err);
    json_decref(stated);
    return ok;
}

static bool read_groups(const json_t *groups, struct cluster *out, struct err *err)
{
    size_t count = json_array_size(groups);
    if (count == 0)
        return err_set(err, ERR_INPUT, "groups", "expected a list with one group of nodes");
    if (count > 1)
        return err_set(err, ERR_INPUT, "groups",
                       "plans over %zu groups of different nodes are not supported; found %zu",
                       count, count);
    return read_group(json_array_get(groups, 0), out, err) || err_within_item(err, "groups", 0);
}

static bool read_cpu(const json_t *cpu, struct cluster *out, struct err *err)
{
    const char *text = cpu ? json_string_value(cpu) : "intel";
    out->amd_cpu = text && strcmp(text, "amd") == 0;
    if (text && (out->amd_cpu || strcmp(text, "intel") == 0))
        return true;
    return err_set(err, ERR_INPUT, "cpu", "expected one of intel, amd; found \"%.40s\"",
                   text ? text : "");
}

static bool read_stack_name(const json_t *stack, struct cluster *out, struct err *err)
{
    return !stack || read_part_name(stack, "stack", out->stack_name, sizeof out->stack_name, err);
}

bool cluster_read(const json_t *object, struct cluster *out, struct err *err)
{
    memset(out, 0, sizeof *out);
    return fields_read(cluster_fields, num_cluster_fields, object, out, err) &&
           datafile_check(cluster_fields, num_cluster_fields, object, err) &&
           read_cpu(json_object_get(object, "cpu"), out, err) &&
           read_stack_name(json_object_get(object, "stack"), out, err) &&
           read_groups(json_object_get(object, "groups"), out, err);
}

json_t *cluster_write(const struct cluster *cluster)
{
    json_t *object = datafile_write(cluster_fields, num_cluster_fields, cluster);
    json_t *levels = json_array();
    for (int i = 0; i < cluster->num_levels; i++)
        json_array_append_new(levels,
                              fields_write(level_fields, num_level_fields, &cluster->levels[i]));
    json_t *nodes = cluster->num_nodes > 0 ? json_integer(cluster->num_nodes) : json_null();
    const char *profile = *cluster->profile_name ? cluster->profile_name : NULL;
    json_t *group = json_pack("{s:s, s:s?, s:o, s:o}", "gpu", cluster->gpu_name, "profile", profile,
                              "nodes", nodes, "levels", levels);
    json_object_set_new(group, "segment", json_integer(cluster->segment));
    json_object_set_new(group, "gpus_per_host", json_integer(cluster->gpus_per_host));
    json_object_set_new(object, "cpu", json_string(cluster->amd_cpu ? "amd" : "intel"));
    if (*cluster->stack_name)
        json_object_set_new(object, "stack", json_string(cluster->stack_name));
    json_object_set_new(object, "groups", json_pack("[o]", group));
    return object;
}

bool cluster_load(const char *name, struct cluster *out, struct err *err)
{
    struct json_file file;
    if (!datafile_open(&cluster_files, name, &file, err))
        return false;
    bool ok = cluster_read(file.root, out, err);
    if (!ok)
        json_file_blame(&file, err);
    json_file_release(&file);
    return ok;
}

double cluster_host_network_bytes_per_s(const struct cluster *cluster)
{
    const struct level *network = &cluster->levels[1];
    if (cluster->num_levels < 2)
        return 0;
    return cluster_host_size(cluster) * network->nics_per_gpu * network->bytes_per_s;
}

double cluster_host_storage_bytes_per_s(const struct cluster *cluster)
{
    static const double usual = 2e9;
    double network = cluster_host_network_bytes_per_s(cluster);
    if (cluster->host_storage_bytes_per_s > 0)
        return cluster->host_storage_bytes_per_s;
    return network > 0 && network < usual ? network : usual;
}

double cluster_storage_bytes_per_s(const struct cluster *cluster, int hosts)
{
    double all = cluster->storage_bytes_per_s;
    double together = hosts * cluster_host_storage_bytes_per_s(cluster);
    return all > 0 && all < together ? all : together;
}

bool cluster_assumes_storage(const struct cluster *cluster, int hosts)
{
    double assumed = hosts * cluster_host_storage_bytes_per_s(cluster);
    return cluster->host_storage_bytes_per_s <= 0 &&
           cluster_storage_bytes_per_s(cluster, hosts) == assumed;
}

int cluster_node_size(const struct cluster *cluster)
{
    return cluster->levels[0].size;
}

int cluster_host_size(const struct cluster *cluster)
{
    return cluster->gpus_per_host > 0 ? cluster->gpus_per_host : cluster_node_size(cluster);
}

int cluster_node_share(const struct cluster *cluster, int num_gpus)
{
    int node = cluster_node_size(cluster);
    int host = cluster_host_size(cluster);
    if (num_gpus <= node)
        return node;
    for (int share = node / host * host; share >= node / 2 && share > 0; share -= host)
        if (num_gpus % share == 0)
            return share;
    return node;
}
