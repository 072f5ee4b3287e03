#include "exec/plugin/backend.h"

#include "base/length.h"

#include <string.h>

static const struct comm_api *const host_comms[] = { &comm_local, &comm_tcp, NULL };
static const struct backend backend_host = { .device = &device_host,
                                             .kernels = &kernels_host,
                                             .comms = host_comms };

const char *const backend_names[] = { "host", "cuda", NULL };

const struct backend *backend_find(const char *name, struct err *err)
{
    if (strcmp(name, device_host.name) == 0)
        return &backend_host;
    const struct backend *backend = plugin_load(name, err);
    if (!backend || (backend->device && backend->kernels))
        return backend;
    err_set(err, ERR_UNAVAILABLE, name, "is not a backend; expected host or cuda");
    return NULL;
}

/* Plugins of communicators whose name differs from the plugin's. */
static const struct {
    const char *comm, *plugin;
} homes[] = { { "nccl", "cuda" }, { "staged", "cuda" } };

static const char *plugin_of(const char *comm)
{
    for (size_t i = 0; i < LENGTH(homes); i++)
        if (strcmp(homes[i].comm, comm) == 0)
            return homes[i].plugin;
    return comm;
}

static const struct comm_api *find_in(const struct backend *backend, const char *name)
{
    for (int i = 0; backend->comms && backend->comms[i]; i++)
        if (strcmp(backend->comms[i]->name, name) == 0)
            return backend->comms[i];
    return NULL;
}

const struct comm_api *comm_find(const char *name, struct err *err)
{
    const struct comm_api *comm = find_in(&backend_host, name);
    const struct backend *backend = comm ? NULL : plugin_load(plugin_of(name), err);
    if (!backend)
        return comm;
    comm = find_in(backend, name);
    if (!comm)
        err_set(err, ERR_UNAVAILABLE, name, "simsearch-%s.so was built without it",
                plugin_of(name));
    return comm;
}

const char *comm_usual(const struct device_api *device, const struct place *place)
{
    struct err none = { 0 };
    if (strcmp(device->name, "cuda") == 0)
        return comm_find("nccl", &none) ? "nccl" : "staged";
    return place_comm(place);
}
