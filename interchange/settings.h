/* interchange/settings.h - a framework's settings: keys with values, and tables that say which
 * member of a struct each key sets.
 *
 * A row is the only place that knows a key: writing an argument list and reading one go through the
 * same rows. The struct a table describes holds a framework's arguments as that framework's own
 * parser would leave them, its defaults included. */
#ifndef INTERCHANGE_SETTINGS_H
#define INTERCHANGE_SETTINGS_H

#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"

#include <stddef.h>

enum { MAX_SETTING_VALUES = 64 };

/* One key as it was found or is to be written. Texts are borrowed or in the arena. */
struct setting {
    const char *key;     /* "--tensor-model-parallel-size", "model.num_layers" */
    const char **values; /* none: a switch */
    int num_values;
    int line; /* of the file it was read from; 0: not known */
};

struct settings {
    struct setting *at;
    int count, capacity;
    struct arena *arena;
};

enum setting_kind {
    SETTING_INT,    /* int */
    SETTING_NUMBER, /* double */
    SETTING_ON,     /* bool that the key sets; also "key true" */
    SETTING_OFF,    /* bool that the key clears; "key true" clears it too */
    SETTING_BOOL,   /* bool, always with a value */
    SETTING_NOT,    /* bool with a value, written inverted */
    SETTING_WORD,   /* enum stored as int; one of `names` */
    SETTING_SET,    /* unsigned bit set; several of `names`, one value each */
    SETTING_TEXT,   /* const char *; NULL: not given */
    SETTING_INTS,   /* struct setting_ints, one value each; none: not given */
};

struct setting_ints {
    int at[4];
    int count;
};

struct setting_row {
    const char *key;
    enum setting_kind kind;
    size_t offset;
    const char *const *names; /* SETTING_WORD, SETTING_SET: NULL-terminated */
    const char *alias;        /* another name of the key, only read; NULL: none */
};

/* The rows of a framework, and a struct of `size` bytes with its defaults. */
struct setting_table {
    const struct setting_row *rows;
    const int *num_rows;
    const void *defaults;
    size_t size;
    const char *const *always; /* keys that are written in any case; NULL: none. NULL-terminated */
};

struct setting *settings_add(struct settings *settings, const char *key, int line);
void setting_add_value(struct settings *settings, struct setting *setting, const char *value);
/* Adds the setting with its values and its line. */
void settings_copy(struct settings *settings, const struct setting *setting);
/* "--cp-comm-type p2p p2p": the key and its values. */
void setting_write(const struct setting *setting, struct text *out);
/* The last one of the key; NULL: none. */
const struct setting *settings_find(const struct settings *settings, const char *key);

/* Appends every member of `args` that differs from the defaults, in the order of the rows. */
void settings_write(const struct setting_table *table, const void *args, struct settings *out);

/* Sets members of `args`, which holds the defaults; keys without a row go to `unknown`. A later
 * setting wins. False (ERR_INPUT, where = the key) on a value that the row cannot hold. */
bool settings_read(const struct setting_table *table, const struct settings *in, void *args,
                   struct settings *unknown, struct err *err);

#endif
