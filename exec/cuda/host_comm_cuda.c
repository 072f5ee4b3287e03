#include "exec/cuda/host_comm_cuda.h"

#include "base/arena.h"
#include "exec/plugin/plugin.h"

#include <stdlib.h>
#include <string.h>

static const struct comm_api *find_comm(const struct place *place, struct err *err)
{
    const char *name = place_comm(place);
    if (strcmp(name, comm_tcp.name) == 0)
        return &comm_tcp;
    const struct backend *backend = plugin_load(name, err);
    return backend ? backend->comms[0] : NULL;
}

bool host_comm_open(const struct comm_options *options, struct host_comm *out, struct err *err)
{
    struct comm_options own = *options;
    own.device = &device_host;
    *out = (struct host_comm){ .api = find_comm(options->place, err) };
    if (out->api)
        out->device = device_host.open(&(struct device_options){ 0 }, err);
    if (out->device)
        out->comm = out->api->open(&own, err);
    if (out->comm)
        return true;
    host_comm_close(out);
    return false;
}

void host_comm_close(struct host_comm *host)
{
    if (host->comm)
        host->api->close(host->comm);
    device_host.close(host->device);
    *host = (struct host_comm){ 0 };
}

static bool broadcast(struct host_comm *host, struct group *group, void *bytes, size_t count,
                      struct err *err)
{
    struct stream *stream = device_host.stream_new(host->device, "meeting", err);
    struct comm_call call = { .kind = COMM_BROADCAST,
                              .group = group,
                              .stream = stream,
                              .in = bytes,
                              .out = bytes,
                              .count = count,
                              .element = ELEMENT_BYTES };
    if (!stream)
        return false;
    host->api->issue(&call);
    bool ok = device_host.stream_sync(stream, err) && host->api->poll(host->comm, err);
    device_host.stream_free(stream);
    return ok;
}

bool host_comm_tell(struct host_comm *host, int num_ranks, void *bytes, size_t count,
                    struct err *err)
{
    int *ranks = arena_grow(NULL, (size_t)num_ranks * sizeof *ranks);
    for (int i = 0; i < num_ranks; i++)
        ranks[i] = i;
    struct group *all = host->api->group_new(host->comm, ranks, num_ranks, err);
    bool ok = all && broadcast(host, all, bytes, count, err);
    host->api->group_free(all);
    free(ranks);
    return ok;
}
