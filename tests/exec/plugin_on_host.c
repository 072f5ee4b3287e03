#include "tests/exec/plugin_on_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

bool plugin_on_host_choose(void)
{
    const char *built = getenv("SIMSEARCH_PLUGINS");
    char folder[4096], plugin[4200];
    snprintf(folder, sizeof folder, "%s/on_host", built ? built : ".");
    snprintf(plugin, sizeof plugin, "%s/simsearch-cuda.so", folder);
    if (access(plugin, R_OK) != 0)
        return false;
    setenv("SIMSEARCH_PLUGINS", folder, 1);
    setenv("SIMSEARCH_GEMM_TABLE", "", 1);
    return true;
}
