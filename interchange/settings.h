/* interchange/settings.h - a framework's settings: keys with values, and tables that map each key
 * to a member of a struct.
 *
 * Each key is defined by one row, which is used for writing and for reading argument lists. The
 * struct of a table holds a framework's arguments as its parser returns them, including
 * defaults. */
#ifndef INTERCHANGE_SETTINGS_H
#define INTERCHANGE_SETTINGS_H

#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"

#include <stddef.h>

enum { MAX_SETTING_VALUES = 64 };

/* One key with its values, as read or as it will be written. Texts are borrowed or in the arena. */
struct setting {
    const char *key;     /* "--tensor-model-parallel-size", "model.num_layers" */
    const char **values; /* count 0: a switch */
    int num_values;
    int line; /* line in the file that it was read from; 0: not known */
};

struct settings {
    struct setting *at;
    int count, capacity;
    struct arena *arena;
};

enum setting_kind {
    SETTING_INT,    /* int */
    SETTING_NUMBER, /* double */
    SETTING_ON,     /* bool that the key sets; "key true" sets it too */
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
    const char *alias;        /* another name of the key, used only for reading; NULL: none */
};

/* The rows of a framework, and a struct of `size` bytes with its defaults. */
struct setting_table {
    const struct setting_row *rows;
    const int *num_rows;
    const void *defaults;
    size_t size;
    const char *const *always; /* keys that are always written, NULL-terminated; NULL: none */
};

struct setting *settings_add(struct settings *settings, const char *key, int line);
void setting_add_value(struct settings *settings, struct setting *setting, const char *value);
/* Adds the setting with its values and its line. */
void settings_copy(struct settings *settings, const struct setting *setting);
/* Writes the key and its values: "--cp-comm-type p2p p2p". */
void setting_write(const struct setting *setting, struct text *out);
/* The last setting with this key; NULL: none. */
const struct setting *settings_find(const struct settings *settings, const char *key);

/* Appends a setting for every member of `args` that differs from the defaults, in the order of the
 * rows. */
void settings_write(const struct setting_table *table, const void *args, struct settings *out);

/* Sets members of `args`, which holds the defaults; keys without a row go to `unknown`. Of several
 * settings with one key the last one counts. Returns false (ERR_INPUT, where = the key) if a row
 * cannot hold a value. */
bool settings_read(const struct setting_table *table, const struct settings *in, void *args,
                   struct settings *unknown, struct err *err);

#endif
