/* The numbers of GPUs of a cluster that a job may use. */
#include "search/counts.h"

struct values counts_all(const struct cluster *cluster, int most, struct arena *arena)
{
    int node = cluster_node_size(cluster);
    int in_node = most < node ? most : node;
    int num_nodes = most / node;
    struct values counts = { 0 };
    counts.at = ARENA_ARRAY(arena, int, (size_t)in_node + (size_t)num_nodes);
    for (int gpus = 1; gpus <= in_node; gpus++)
        counts.at[counts.count++] = gpus;
    for (int nodes = 2; nodes <= num_nodes; nodes++)
        counts.at[counts.count++] = nodes * node;
    return counts;
}

/* Whether the number is 2^k or 3 x 2^k. */
static bool is_round(int nodes)
{
    while (nodes % 2 == 0)
        nodes /= 2;
    return nodes == 1 || nodes == 3;
}

static bool is_usual(int gpus, int node, int most)
{
    if (gpus == most)
        return true;
    if (gpus < node)
        return node % gpus == 0;
    return is_round(gpus / node) || most % gpus == 0;
}

struct values counts_usual(const struct cluster *cluster, int most, struct arena *arena)
{
    struct values counts = counts_all(cluster, most, arena);
    int node = cluster_node_size(cluster);
    int kept = 0;
    for (int i = 0; i < counts.count; i++)
        if (is_usual(counts.at[i], node, most))
            counts.at[kept++] = counts.at[i];
    counts.count = kept;
    return counts;
}

bool counts_prepare(const struct search_request *asked, int num_gpus, double start_s,
                    struct arena *arena, struct prepared *out)
{
    struct err ignored = { 0 };
    struct system system = *asked->system;
    struct search_request request = *asked;
    system.num_gpus = num_gpus;
    request.system = &system;
    request.progress = NULL;
    if (!search_prepare(&request, arena, out, &ignored))
        return false;
    out->search.start_s = start_s;
    return true;
}
