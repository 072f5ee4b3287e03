/* Makes the groups that a gradient exchange uses among the data ranks with which a rank
 * exchanges. */
#include "exec/exchange/exchanger.h"

#include "base/arena.h"

#include <stdlib.h>

/* The number of ranks in each group that acts as one; they are neighbours. */
static int num_near(const struct exchange *exchange, const struct exchange_ranks *numbers)
{
    static const struct exchange_tensor element = { 1, 1, 1 };
    struct exchange_load load = { &element, 1, sizeof(float) };
    struct exchange_phases phases = exchange_phases(exchange, &load, numbers, 0);
    for (int i = 0; i < phases.count; i++)
        if (phases.at[i].size < numbers->count && phases.at[i].stride == 1)
            return phases.at[i].size;
    return 1;
}

static struct group *part_new(const struct comm_api *api, struct comm *comm, const int *ranks,
                              int count, struct err *err)
{
    return count > 1 ? api->group_new(comm, ranks, count, err) : NULL;
}

bool exchange_groups_new(const struct comm_api *api, struct comm *comm,
                         const struct exchange *exchange, const struct exchange_ranks *numbers,
                         const int *ranks, int index, struct exchange_groups *out, struct err *err)
{
    int n = numbers->count, near = num_near(exchange, numbers);
    *out = (struct exchange_groups){ .api = api };
    int *members = arena_grow(NULL, sizeof *members * (size_t)n);
    for (int i = 0; i < n; i++)
        members[i] = ranks[i];
    out->all = part_new(api, comm, members, n, err);
    for (int i = 0; i < near; i++)
        members[i] = ranks[index / near * near + i];
    if (out->all)
        out->near = part_new(api, comm, members, near, err);
    for (int i = 0; i < n / near; i++)
        members[i] = ranks[index % near + i * near];
    if (out->near)
        out->far = part_new(api, comm, members, n / near, err);
    free(members);
    bool ok = out->all && (near == 1 || (out->near && out->far));
    if (!ok)
        exchange_groups_free(out);
    return ok;
}

void exchange_groups_free(struct exchange_groups *groups)
{
    if (!groups->api)
        return;
    groups->api->group_free(groups->far);
    groups->api->group_free(groups->near);
    groups->api->group_free(groups->all);
    *groups = (struct exchange_groups){ 0 };
}

double exchange_groups_sent_bytes(const struct exchange_groups *groups)
{
    struct group *all[] = { groups->all, groups->near, groups->far };
    double bytes = 0;
    if (!groups->api->sent_bytes)
        return -1;
    for (int i = 0; i < 3; i++)
        bytes += all[i] ? groups->api->sent_bytes(all[i]) : 0;
    return bytes;
}
