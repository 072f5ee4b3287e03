/* exec/backend.h - what a rank runs on and talks through, by name.
 *
 * The host device and the communicators local and tcp are part of the program. Others are plugins,
 * so that it starts where their libraries are not installed: simsearch-NAME.so, looked for in
 * $SIMSEARCH_PLUGINS alone when that is set, else beside the program, else in ../lib/simsearch. */
#ifndef EXEC_BACKEND_H
#define EXEC_BACKEND_H

#include "exec/comm.h"
#include "exec/device.h"

/* Changes with any table that a plugin fills in or calls. */
enum { BACKEND_ABI = 2 };

struct kernel_api;

/* What a plugin offers; NULL: nothing of that sort. */
struct backend {
    int abi;
    const struct device_api *device;
    const struct kernel_api *kernels;
    const struct comm_api *comm;
};

/* The one symbol that a plugin exports. */
#define BACKEND_SYMBOL "simsearch_backend"
typedef const struct backend *backend_function(void);
__attribute__((visibility("default"))) backend_function simsearch_backend;

/* Valid until the process ends. NULL with ERR_UNAVAILABLE, which the program exits 6 for: the
 * plugin is not there, or what it needs is not, or it was built for another program. where = its
 * name. */
const struct backend *backend_load(const char *name, struct err *err);

/* "local", "tcp", or a plugin's name. */
const struct comm_api *comm_find(const char *name, struct err *err);
/* "host", or a plugin's name. */
const struct device_api *device_find(const char *name, struct err *err);

#endif
