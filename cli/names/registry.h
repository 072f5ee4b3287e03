/* cli/names/registry.h - everything that has a name in the program, as JSON entries. */
#ifndef CLI_NAMES_REGISTRY_H
#define CLI_NAMES_REGISTRY_H

#include "base/err.h"

#include <jansson.h>
#include <stdio.h>

struct registry {
    const char *name;
    const char *summary;
    /* Returns an array of objects with name, aliases, summary, source and more; NULL on failure.
     * The pointer may be NULL if there is a page. */
    json_t *(*entries)(struct err *err);
    void (*print)(FILE *to); /* prints a page instead of a table; NULL: the entries as a table */
};

/* If the name is unknown, returns NULL with ERR_USAGE and the nearest name. */
const struct registry *registry_find(const char *name, struct err *err);

/* The registries themselves as entries. */
json_t *registry_list(void);

#endif
