/* exec/plugin.h - parts of the program that need libraries which may be absent: simsearch-NAME.so,
 * looked for in $SIMSEARCH_PLUGINS alone when that is set, else beside the program, else in
 * ../lib/simsearch. */
#ifndef EXEC_PLUGIN_H
#define EXEC_PLUGIN_H

#include "exec/comm.h"
#include "exec/device.h"

/* Changes with any table that a plugin fills in or calls. */
enum { BACKEND_ABI = 3 };

struct kernel_api;

/* What a rank runs on and talks through; NULL: nothing of that sort. */
struct backend {
    int abi;
    const struct device_api *device;
    const struct kernel_api *kernels;
    const struct comm_api *const *comms; /* NULL-terminated */
};

/* The one symbol that a plugin exports. */
#define BACKEND_SYMBOL "simsearch_backend"
typedef const struct backend *backend_function(void);
__attribute__((visibility("default"))) backend_function simsearch_backend;

/* Valid until the process ends. NULL with ERR_UNAVAILABLE, which the program exits 6 for: the
 * plugin is not there, or what it needs is not, or it was built for another program. where = its
 * name. */
const struct backend *plugin_load(const char *name, struct err *err);

#endif
