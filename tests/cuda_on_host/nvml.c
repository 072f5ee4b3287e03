/* Replaces NVIDIA's management library, for one GPU: the plugin is found under that library's
 * name. */
#include "tests/cuda_on_host/runtime.h"

#include <stdio.h>

#define SEEN __attribute__((visibility("default")))

SEEN int nvmlInit_v2(void);
SEEN int nvmlShutdown(void);
SEEN int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
SEEN int nvmlDeviceGetName(void *device, char *name, unsigned size);
SEEN int nvmlSystemGetDriverVersion(char *version, unsigned size);
SEEN int nvmlDeviceGetClockInfo(void *device, int kind, unsigned *mhz);
SEEN int nvmlDeviceGetPowerUsage(void *device, unsigned *mw);

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    static int any;
    int count = 0;
    *device = &any;
    return cudaGetDeviceCount(&count) != cudaSuccess || (int)index >= count;
}

int nvmlDeviceGetName(void *device, char *name, unsigned size)
{
    (void)device;
    return snprintf(name, size, "NVIDIA H200") <= 0;
}

int nvmlSystemGetDriverVersion(char *version, unsigned size)
{
    return snprintf(version, size, "0.0") <= 0;
}

int nvmlDeviceGetClockInfo(void *device, int kind, unsigned *mhz)
{
    (void)device, (void)kind;
    *mhz = 1980;
    return 0;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *mw)
{
    (void)device;
    *mw = 400000;
    return 0;
}
