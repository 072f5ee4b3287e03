#define _GNU_SOURCE // readlink; NOLINT(bugprone-reserved-identifier)
#include "exec/plugin/plugin.h"

#include "base/file.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool program_folder(char *folder, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", folder, size - 1);
    if (length <= 0)
        return false;
    folder[length] = '\0';
    char *slash = strrchr(folder, '/');
    if (!slash)
        return false;
    *slash = '\0';
    return true;
}

static bool find_plugin(const char *name, char *path, size_t size)
{
    char folder[PATH_MAX];
    const char *given = getenv("SIMSEARCH_PLUGINS");
    if (given) {
        snprintf(path, size, "%s/simsearch-%s.so", given, name);
        return file_exists(path);
    }
    if (!program_folder(folder, sizeof folder))
        return false;
    snprintf(path, size, "%s/simsearch-%s.so", folder, name);
    if (file_exists(path))
        return true;
    snprintf(path, size, "%s/../lib/simsearch/simsearch-%s.so", folder, name);
    return file_exists(path);
}

/* NULL when the plugin lacks one of its two symbols, or was built from other headers than this
 * program. */
static const struct backend *backend_in(void *library)
{
    const uint64_t *tables = dlsym(library, TABLES_SYMBOL);
    void *symbol = dlsym(library, BACKEND_SYMBOL);
    backend_function *function;
    memcpy(&function, &symbol, sizeof function); /* converts to a function pointer as in dlsym(3) */
    bool is_ours = tables && *tables == simsearch_tables && function;
    return is_ours ? function() : NULL;
}

/* Libraries are never closed, because MPI and CUDA leave threads and handlers behind. */
const struct backend *plugin_load(const char *name, struct err *err)
{
    char path[PATH_MAX + 64];
    if (!find_plugin(name, path, sizeof path)) {
        err_set(err, ERR_UNAVAILABLE, name,
                "simsearch-%s.so is not installed; `make` builds it if it finds the library that "
                "the plugin needs",
                name);
        return NULL;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        err_set(err, ERR_UNAVAILABLE, name, "%s", dlerror());
        return NULL;
    }
    const struct backend *backend = backend_in(library);
    if (!backend)
        err_set(err, ERR_UNAVAILABLE, name,
                "%s was built from other sources than this program; run `make` to rebuild it",
                path);
    return backend;
}
