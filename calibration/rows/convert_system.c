/* Sets the GPUs, network and software of a measured row, which is a published run. Clusters and
 * stacks are loaded once and shared by all rows that use them. */
#include "calibration/rows/convert_part.h"

#include "base/text.h"
#include "calibration/rows/link_speed.h"

#include <stdlib.h>
#include <string.h>

/* A loaded cluster and stack, for one GPU. It owns the data that the sized systems share. */
struct loaded_pair {
    const char *cluster, *stack;
    double power_w; /* power limit per GPU; 0: that of the GPU's file */
    struct system system;
    struct loaded_pair *older;
};

/* How a run differs from its stack, by a rule of match.json. */
struct settings {
    int attention;       /* enum attention_kernel of attn=flash; ATTENTION_UNFUSED: the stack's */
    unsigned unfused;    /* set of enum fusion that are off, unlike in the stack */
    bool fp32_gradients; /* gradients are kept and summed in fp32, whatever the stack's are */
    bool graphs;         /* kernels are launched as CUDA graphs, however the stack does it */
};

static bool settings_equal(const struct settings *a, const struct settings *b)
{
    return a->attention == b->attention && a->unfused == b->unfused &&
           a->fp32_gradients == b->fp32_gradients && a->graphs == b->graphs;
}

static void apply_settings(const struct settings *settings, struct stack *stack)
{
    stack->fusions &= ~settings->unfused;
    if (settings->attention != ATTENTION_UNFUSED)
        stack->attention = settings->attention;
    if (settings->fp32_gradients)
        stack->memory.main_gradients = MAIN_GRADIENTS_FP32;
    if (settings->graphs)
        stack->host.launch = LAUNCH_GRAPHS;
}

/* A loaded pair with a number of GPUs and a node size. */
struct sized_system {
    struct system system;
    const struct loaded_pair *pair;
    /* the loaded pair with the stack whose memory constants are used */
    const struct loaded_pair *memory;
    int node_size;           /* as stated by the row; 0: the cluster's own */
    double link_bytes_per_s; /* per GPU, as stated by the row; 0: the cluster's own */
    int cards;               /* network cards per host; 0: the cluster's own */
    struct settings settings;
    struct sized_system *older;
};

struct run_systems *run_systems_new(const char *cluster, const char *stack, struct err *err)
{
    struct run_systems *systems = arena_grow(NULL, sizeof *systems);
    *systems = (struct run_systems){ 0 };
    if (!match_load(NULL, &systems->match, err)) {
        run_systems_free(systems);
        return NULL;
    }
    systems->cluster = cluster ? arena_text(&systems->arena, cluster) : NULL;
    systems->stack = stack ? arena_text(&systems->arena, stack) : NULL;
    return systems;
}

void run_systems_learn(struct run_systems *systems, const struct learned *learned)
{
    systems->learned = learned;
}

void run_systems_free(struct run_systems *systems)
{
    if (!systems)
        return;
    for (struct loaded_pair *pair = systems->pairs; pair; pair = pair->older)
        system_release(&pair->system);
    match_release(&systems->match);
    arena_release(&systems->arena);
    free(systems);
}

static struct loaded_pair *find_pair(struct run_systems *systems, const char *cluster,
                                     const char *stack, double power_w, struct err *err)
{
    for (struct loaded_pair *pair = systems->pairs; pair; pair = pair->older)
        if (strcmp(pair->cluster, cluster) == 0 && strcmp(pair->stack, stack) == 0 &&
            pair->power_w == power_w)
            return pair;
    struct loaded_pair *pair = ARENA_NEW(&systems->arena, struct loaded_pair);
    if (!system_load(cluster, stack, 1, &pair->system, err))
        return NULL;
    pair->cluster = arena_text(&systems->arena, cluster);
    pair->stack = arena_text(&systems->arena, stack);
    pair->power_w = power_w;
    if (systems->learned)
        learned_apply(systems->learned, &pair->system);
    if (power_w > 0)
        pair->system.gpu.power_w = power_w;
    pair->older = systems->pairs;
    systems->pairs = pair;
    return pair;
}

/* The network speed that a row states; `node_gpus` is the number of GPUs per host. */
struct stated_link {
    struct link_speed speed;
    int node_gpus;
};

/* Reads a network speed. A speed above that of the host's link to a network card is taken for a
 * datasheet value and ignored. */
static struct stated_link read_link(const struct conversion *of, const struct loaded_pair *pair,
                                    int node_gpus)
{
    const struct stated_link own = { 0 };
    int host_gpus = cluster_host_size(&pair->system.cluster);
    struct stated_link link = { link_speed_read(of->row->network),
                                node_gpus > 0 && node_gpus < host_gpus ? node_gpus : host_gpus };
    if (!link_speed_differs(&link.speed, &pair->system.cluster, link.node_gpus))
        return own;
    if (link_speed_of_gpu(&link.speed, link.node_gpus) > pair->system.gpu.pcie_bytes_per_s) {
        convert_assume(of, "the stated network is faster than the host's link, so the network of "
                           "the cluster's file is used");
        return own;
    }
    return link;
}

/* If the network's name is unknown, half of the cluster's bandwidth is assumed, as it could be
 * slower. */
static struct stated_link slower_link(const struct cluster *cluster)
{
    const struct level *rail = &cluster->levels[cluster->num_levels > 1];
    double own = rail->bytes_per_s * rail->nics_per_gpu;
    return (struct stated_link){ { .bytes_per_s = own / 2 }, cluster_host_size(cluster) };
}

static struct system *find_sized(struct run_systems *systems, const struct loaded_pair *pair,
                                 const struct loaded_pair *memory, int num_gpus, int node_size,
                                 const struct stated_link *link, const struct settings *settings)
{
    double bytes_per_s =
        link->speed.bytes_per_s > 0 ? link_speed_of_gpu(&link->speed, link->node_gpus) : 0;
    for (struct sized_system *s = systems->sized; s; s = s->older)
        if (s->pair == pair && s->memory == memory && s->system.num_gpus == num_gpus &&
            s->node_size == node_size && s->link_bytes_per_s == bytes_per_s &&
            s->cards == link->speed.cards && settings_equal(&s->settings, settings))
            return &s->system;
    struct sized_system *s = ARENA_NEW(&systems->arena, struct sized_system);
    s->system = pair->system;
    s->system.num_gpus = num_gpus;
    s->system.stack.memory = memory->system.stack.memory;
    apply_settings(settings, &s->system.stack);
    s->pair = pair;
    s->memory = memory;
    s->node_size = node_size;
    s->link_bytes_per_s = bytes_per_s;
    s->cards = link->speed.cards;
    s->settings = *settings;
    if (bytes_per_s > 0)
        link_speed_set(&link->speed, &s->system.cluster, link->node_gpus);
    s->system.cluster.levels[0].size =
        node_size > 0 ? node_size : cluster_node_share(&s->system.cluster, num_gpus);
    s->older = systems->sized;
    systems->sized = s;
    return &s->system;
}

static void assume_cluster(const struct conversion *of, const char *assumption,
                           const struct stated_link *link, const struct cluster *cluster)
{
    struct text words = { 0 };
    if (link->speed.bytes_per_s <= 0) {
        convert_assume(of, assumption);
        return;
    }
    text_add(&words, "network: bandwidth as stated, everything else as in %s", cluster->name);
    convert_assume(of, text_keep(&words, &of->systems->arena));
}

bool convert_system(struct conversion *of, struct err *reason, struct err *err)
{
    const struct run_row *row = of->row;
    struct run_systems *systems = of->systems;
    int num_gpus, node_size;
    if (!row_count(row->n_gpus, "n_gpus", &num_gpus, reason) ||
        !row_count_or(row->gpus_per_node, "gpus_per_node", 0, &node_size, reason))
        return false;
    struct match_row words = { row->gpu,        row->network,       row->software,  node_size,
                               row->source_key, (int)row->compiled, row->model_name };
    struct match found;
    match_find(&systems->match, &words, &found);
    if ((!systems->cluster && !*found.cluster) || (!systems->stack && !*found.stack))
        return err_set(reason, ERR_INFEASIBLE, "gpu", "%s", found.skip);
    if (!systems->stack)
        convert_assume(of, found.stack_assumption);
    if (*found.recompute)
        of->recompute = found.recompute;
    of->spreads_experts = found.spreads_experts;
    of->local_batch = found.local_batch;
    of->capacity = found.capacity;
    of->overlap = found.overlap;
    of->routing = found.routing;
    of->optimizer = found.optimizer;
    const struct loaded_pair *pair = find_pair(
        systems, systems->cluster ? systems->cluster : found.cluster,
        systems->stack ? systems->stack : found.stack, systems->cluster ? 0 : found.power_w, err);
    if (!pair)
        return false;
    const struct cluster *cluster = &pair->system.cluster;
    struct stated_link link = { 0 };
    if (!systems->cluster) {
        link = read_link(of, pair, node_size);
        assume_cluster(of, found.cluster_assumption, &link, cluster);
        if (found.unknown_network && link_speed_read(row->network).bytes_per_s <= 0)
            link = slower_link(cluster);
    }
    int own_size = cluster_node_size(cluster);
    if (node_size > own_size)
        convert_assume(of, "nodes have as many GPUs as in the cluster's file, fewer than stated");
    if (node_size >= own_size || node_size == cluster_host_size(cluster))
        node_size = 0;
    const struct loaded_pair *memory = pair;
    if (!systems->stack && *found.memory)
        memory = find_pair(systems, pair->cluster, found.memory, pair->power_w, err);
    if (!memory)
        return false;
    struct settings settings = { 0 }; /* a stack that the user names is used as it is */
    if (!systems->stack)
        settings =
            (struct settings){ found.attention, found.unfused, found.fp32_gradients, found.graphs };
    of->out->memory_stack = memory->stack;
    of->out->system = find_sized(systems, pair, memory, num_gpus, node_size, &link, &settings);
    double most = (double)cluster->num_nodes * own_size;
    if (cluster->num_nodes > 0 && num_gpus > most)
        return err_set(reason, ERR_INFEASIBLE, "n_gpus", "%s has %.0f GPUs; %d were used",
                       cluster->name, most, num_gpus);
    return true;
}
