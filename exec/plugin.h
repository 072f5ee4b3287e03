/* exec/plugin.h - parts of the program that need libraries which may be absent: simsearch-NAME.so,
 * looked for in $SIMSEARCH_PLUGINS alone when that is set, else beside the program, else in
 * ../lib/simsearch. */
#ifndef EXEC_PLUGIN_H
#define EXEC_PLUGIN_H

#include "exec/comm.h"
#include "exec/device.h"

#include <stdint.h>

struct kernel_api;

/* What a rank runs on and talks through; NULL: nothing of that sort. */
struct backend {
    const struct device_api *device;
    const struct kernel_api *kernels;
    const struct comm_api *const *comms; /* NULL-terminated */
};

/* A plugin exports two symbols. The number is a digest of the headers that say what the tables are
 * (exec/tables.c), so that of a program and a plugin which were built from different ones neither
 * reads the other's; it is compared before anything else of the plugin is used. */
#define TABLES_SYMBOL  "simsearch_tables"
#define BACKEND_SYMBOL "simsearch_backend"
typedef const struct backend *backend_function(void);
extern __attribute__((visibility("default"))) const uint64_t simsearch_tables;
__attribute__((visibility("default"))) backend_function simsearch_backend;

/* Valid until the process ends. NULL with ERR_UNAVAILABLE, which the program exits 6 for: the
 * plugin is not there, or what it needs is not, or it was built from other sources than this
 * program. where = its name. */
const struct backend *plugin_load(const char *name, struct err *err);

#endif
