/* exec/plugin/plugin.h - plugins: parts of the program that need libraries which may be absent. A
 * plugin is a file simsearch-NAME.so. The program looks for it in $SIMSEARCH_PLUGINS if that is
 * set, else beside the program, then in ../lib/simsearch. */
#ifndef EXEC_PLUGIN_PLUGIN_H
#define EXEC_PLUGIN_PLUGIN_H

#include "exec/comm/comm.h"
#include "exec/device/device.h"

#include <stdint.h>

struct kernel_api;

/* A plugin's device, kernels and communicators; NULL: the plugin has none of that kind. */
struct backend {
    const struct device_api *device;
    const struct kernel_api *kernels;
    const struct comm_api *const *comms; /* NULL-terminated */
};

/* A plugin exports two symbols. The first is a digest of the headers that define the tables
 * (exec/plugin/tables.c). It is compared before anything else of the plugin is used, so that a
 * program never reads a plugin built from different headers. */
#define TABLES_SYMBOL  "simsearch_tables"
#define BACKEND_SYMBOL "simsearch_backend"
typedef const struct backend *backend_function(void);
extern __attribute__((visibility("default"))) const uint64_t simsearch_tables;
__attribute__((visibility("default"))) backend_function simsearch_backend;

/* Valid until the process ends. NULL with ERR_UNAVAILABLE (the program exits with 6) when the
 * plugin or a library of it is missing, or when it was built from other headers than this program.
 * where = the plugin's name. */
const struct backend *plugin_load(const char *name, struct err *err);

#endif
