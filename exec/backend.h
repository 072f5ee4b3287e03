/* exec/backend.h - devices and communicators by name: those that are part of the program, host,
 * local and tcp, and those of plugins. */
#ifndef EXEC_BACKEND_H
#define EXEC_BACKEND_H

#include "exec/kernels.h"
#include "exec/plugin.h"

/* The backends that this version knows, available here or not; the first is the usual one. The
 * executor's stack on each has the same name (calibration/stacks). */
extern const char *const backend_names[]; /* NULL-terminated */

/* "host", or a plugin's name: one that has device and kernels. NULL as plugin_load says. */
const struct backend *backend_find(const char *name, struct err *err);

/* "local", "tcp", "mpi", "nccl" or "staged". NULL with ERR_UNAVAILABLE. */
const struct comm_api *comm_find(const char *name, struct err *err);

/* What ranks on `device` talk through when nobody says: the program's or its launcher's own means
 * on the host; on GPUs NCCL, or `staged` where the plugin was built without it. */
const char *comm_usual(const struct device_api *device, const struct place *place);

#endif
