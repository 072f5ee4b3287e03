/* tests/exec/plugin_on_host.h - the GPU plugin on a simulated GPU (tests/cuda_on_host).
 */
#ifndef TESTS_EXEC_PLUGIN_ON_HOST_H
#define TESTS_EXEC_PLUGIN_ON_HOST_H

#include <stdbool.h>

/* Makes the name "cuda" refer to this plugin, without a tuning table of products. Returns false if
 * the plugin was not built: only the release variant has it, and only with a C++ compiler. */
bool plugin_on_host_choose(void);

#endif
