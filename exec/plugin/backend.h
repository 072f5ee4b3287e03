/* exec/plugin/backend.h - devices and communicators by name: those built into the program (host,
 * local, tcp) and those of plugins. */
#ifndef EXEC_PLUGIN_BACKEND_H
#define EXEC_PLUGIN_BACKEND_H

#include "exec/device/kernels.h"
#include "exec/plugin/plugin.h"

/* The backends that this version supports, even if their plugin is missing here; the first is the
 * default. Each has a stack of the same name (calibration/stacks). */
extern const char *const backend_names[]; /* NULL-terminated */

/* Finds "host" or a plugin that has a device and kernels. NULL with the error of plugin_load. */
const struct backend *backend_find(const char *name, struct err *err);

/* "local", "tcp", "mpi", "nccl" or "staged". NULL with ERR_UNAVAILABLE. */
const struct comm_api *comm_find(const char *name, struct err *err);

/* The default communicator of ranks on `device`: on the host, the launcher's (place_comm); on GPUs
 * NCCL, or `staged` when the plugin was built without NCCL. */
const char *comm_usual(const struct device_api *device, const struct place *place);

#endif
