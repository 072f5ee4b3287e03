/* tests/exec/plugin_on_host.h - the plugin for GPUs, for one that is this machine
 * (tests/cuda_on_host).
 */
#ifndef TESTS_EXEC_PLUGIN_ON_HOST_H
#define TESTS_EXEC_PLUGIN_ON_HOST_H

#include <stdbool.h>

/* From here on "cuda" is that plugin, without a table of products. False when it was not built:
 * only the release variant has it, and only with a C++ compiler. */
bool plugin_on_host_choose(void);

#endif
