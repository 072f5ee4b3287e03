/* Compiles one source of kernels/cuda with NVRTC for one architecture:
 *
 *     nvrtc FILE.cu sm_90a FOLDER      headers are looked for in FOLDER and here
 *
 * Host functions are compiled as device functions, because NVRTC supports only these. Functions
 * that launch a kernel cause it to be compiled. */
#include "base/length.h"

#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>

static char *read_file(const char *path)
{
    enum { MOST_BYTES = 1 << 20 };
    FILE *file = fopen(path, "r");
    char *text = calloc(1, MOST_BYTES);
    size_t length = file && text ? fread(text, 1, MOST_BYTES - 1, file) : 0;
    if (file)
        fclose(file);
    return length > 0 ? text : NULL;
}

static void show_log(nvrtcProgram program)
{
    size_t size = 0;
    nvrtcGetProgramLogSize(program, &size);
    char *log = calloc(1, size + 1);
    if (log && nvrtcGetProgramLog(program, log) == NVRTC_SUCCESS)
        fprintf(stderr, "%s", log);
    free(log);
}

int main(int argc, char **argv)
{
    char arch[64], folder[4096];
    /* C++20 has the designated initialisers that nvcc accepts as an extension of gcc. extern
     * variables belong to the host. */
    const char *options[] = { "--std=c++20", "-default-device", "-diag-suppress=20044", "-I.", arch,
                              folder };
    nvrtcProgram program;
    size_t bytes = 0;
    char *source = argc == 4 ? read_file(argv[1]) : NULL;
    if (!source || nvrtcCreateProgram(&program, source, argv[1], 0, NULL, NULL) != NVRTC_SUCCESS) {
        fprintf(stderr, "nvrtc: expected FILE.cu ARCH FOLDER\n");
        return 2;
    }
    snprintf(arch, sizeof arch, "--gpu-architecture=%s", argv[2]);
    snprintf(folder, sizeof folder, "-I%s", argv[3]);
    nvrtcResult result = nvrtcCompileProgram(program, LENGTH(options), options);
    show_log(program);
    if (result == NVRTC_SUCCESS)
        result = nvrtcGetCUBINSize(program, &bytes);
    if (result == NVRTC_SUCCESS)
        printf("  %-34s %-8s %8zu bytes\n", argv[1], argv[2], bytes);
    nvrtcDestroyProgram(&program);
    free(source);
    return result == NVRTC_SUCCESS && bytes > 0 ? 0 : 1;
}
