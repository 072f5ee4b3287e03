/* tests/plugin_on_host.h - the plugin for GPUs, for one that is this machine (tests/cuda_on_host).
 */
#ifndef TESTS_PLUGIN_ON_HOST_H
#define TESTS_PLUGIN_ON_HOST_H

#include <stdbool.h>

/* From here on "cuda" is that one, and products are in no table. False where it was not built: it
 * is the release variant's alone, where there is a C++ compiler. */
bool plugin_on_host_choose(void);

#endif
