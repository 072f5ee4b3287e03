/* Reads a GPU's clocks and power by NVIDIA's management library, which is loaded at run time. */
#include "calibration/measure/nvml.h"

#include "base/arena.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Declarations from NVIDIA's nvml.h, so that the build does not need that header; its ABI is
 * stable. */
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2 };
typedef void *nvml_device;

struct nvml {
    void *library;
    nvml_device device;
    int (*shutdown)(void);
    int (*get_name)(nvml_device, char *, unsigned);
    int (*get_driver)(char *, unsigned);
    int (*get_clock)(nvml_device, int, unsigned *);
    int (*get_power)(nvml_device, unsigned *);
};

/* Looks up a function; `function` is a pointer to a function pointer. False when the library lacks
 * it. */
static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol); /* as in dlsym(3) */
    return symbol != NULL;
}

static bool start(struct nvml *nvml, int index)
{
    int (*init)(void);
    int (*get_device)(unsigned, nvml_device *);
    return find(nvml->library, "nvmlInit_v2", &init) &&
           find(nvml->library, "nvmlShutdown", &nvml->shutdown) &&
           find(nvml->library, "nvmlDeviceGetHandleByIndex_v2", &get_device) &&
           find(nvml->library, "nvmlDeviceGetName", &nvml->get_name) &&
           find(nvml->library, "nvmlSystemGetDriverVersion", &nvml->get_driver) &&
           find(nvml->library, "nvmlDeviceGetClockInfo", &nvml->get_clock) &&
           find(nvml->library, "nvmlDeviceGetPowerUsage", &nvml->get_power) && init() == 0 &&
           get_device((unsigned)index, &nvml->device) == 0;
}

struct nvml *nvml_open(int index, struct err *err)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        err_set(err, ERR_UNAVAILABLE, "nvml", "%s", dlerror());
        return NULL;
    }
    struct nvml *nvml = arena_grow(NULL, sizeof *nvml);
    *nvml = (struct nvml){ .library = library };
    if (start(nvml, index))
        return nvml;
    err_set(err, ERR_UNAVAILABLE, "nvml", "NVIDIA's management library lists no GPU %d", index);
    free(nvml);
    return NULL;
}

void nvml_close(struct nvml *nvml)
{
    if (!nvml)
        return;
    nvml->shutdown();
    free(nvml);
}

struct nvml_words nvml_words(struct nvml *nvml)
{
    struct nvml_words words = { .gpu = "" };
    nvml->get_name(nvml->device, words.gpu, sizeof words.gpu);
    nvml->get_driver(words.driver, sizeof words.driver);
    return words;
}

struct nvml_reading nvml_read(struct nvml *nvml)
{
    unsigned sm_mhz = 0, memory_mhz = 0, power_mw = 0;
    nvml->get_clock(nvml->device, NVML_CLOCK_SM, &sm_mhz);
    nvml->get_clock(nvml->device, NVML_CLOCK_MEM, &memory_mhz);
    nvml->get_power(nvml->device, &power_mw);
    return (struct nvml_reading){ 1e6 * sm_mhz, 1e6 * memory_mhz, 1e-3 * power_mw };
}
