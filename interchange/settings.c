/* Reads and writes a framework's settings by tables, whose rows map a key to a member of a
 * struct. */
#include "interchange/settings.h"

#include "base/length.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct setting *settings_add(struct settings *settings, const char *key, int line)
{
    enum { FIRST = 64 };
    if (settings->count == settings->capacity) {
        int capacity = settings->capacity ? 2 * settings->capacity : FIRST;
        struct setting *at = ARENA_ARRAY(settings->arena, struct setting, (size_t)capacity);
        if (settings->count)
            memcpy(at, settings->at, sizeof *at * (size_t)settings->count);
        settings->at = at;
        settings->capacity = capacity;
    }
    struct setting *added = &settings->at[settings->count++];
    *added = (struct setting){ .key = arena_text(settings->arena, key), .line = line };
    return added;
}

/* Appends a value; the list's capacity grows at powers of two. */
void setting_add_value(struct settings *settings, struct setting *setting, const char *value)
{
    int count = setting->num_values;
    if ((count & (count - 1)) == 0) {
        size_t room = count ? 2 * (size_t)count : 1;
        const char **values = ARENA_ARRAY(settings->arena, const char *, room);
        if (count)
            memcpy(values, setting->values, sizeof *values * (size_t)count);
        setting->values = values;
    }
    setting->values[setting->num_values++] = arena_text(settings->arena, value);
}

void settings_copy(struct settings *settings, const struct setting *setting)
{
    struct setting *added = settings_add(settings, setting->key, setting->line);
    for (int i = 0; i < setting->num_values; i++)
        setting_add_value(settings, added, setting->values[i]);
}

void setting_write(const struct setting *setting, struct text *out)
{
    text_add(out, "%s", setting->key);
    for (int i = 0; i < setting->num_values; i++)
        text_add(out, " %s", setting->values[i]);
}

const struct setting *settings_find(const struct settings *settings, const char *key)
{
    for (int i = settings->count - 1; i >= 0; i--)
        if (strcmp(settings->at[i].key, key) == 0)
            return &settings->at[i];
    return NULL;
}

/* --- writing --------------------------------------------------------------------------------- */

static const void *member(const struct setting_row *row, const void *args)
{
    return (const char *)args + row->offset;
}

static int int_of(const struct setting_row *row, const void *args)
{
    return *(const int *)member(row, args);
}

static double number_of(const struct setting_row *row, const void *args)
{
    return *(const double *)member(row, args);
}

static bool bool_of(const struct setting_row *row, const void *args)
{
    return *(const bool *)member(row, args);
}

static const char *text_of(const struct setting_row *row, const void *args)
{
    return *(const char *const *)member(row, args);
}

static const struct setting_ints *ints_of(const struct setting_row *row, const void *args)
{
    return member(row, args);
}

static bool texts_differ(const char *a, const char *b)
{
    return (a || b) && (!a || !b || strcmp(a, b) != 0);
}

static bool is_changed(const struct setting_row *row, const void *args, const void *defaults)
{
    switch (row->kind) {
    case SETTING_INT:
    case SETTING_WORD:
    case SETTING_SET:
        return int_of(row, args) != int_of(row, defaults);
    case SETTING_NUMBER:
        return number_of(row, args) < number_of(row, defaults) ||
               number_of(row, args) > number_of(row, defaults);
    case SETTING_ON:
        return bool_of(row, args) && !bool_of(row, defaults);
    case SETTING_OFF:
        return !bool_of(row, args) && bool_of(row, defaults);
    case SETTING_BOOL:
    case SETTING_NOT:
        return bool_of(row, args) != bool_of(row, defaults);
    case SETTING_TEXT:
        return texts_differ(text_of(row, args), text_of(row, defaults));
    case SETTING_INTS:
        return ints_of(row, args)->count > 0;
    }
    return false;
}

/* Writes the shortest decimal that reads back to the same bits. */
static void write_number(double value, char *text, size_t size)
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, size, "%.*g", digits, value);
        double back = strtod(text, NULL);
        if (!(back < value) && !(back > value))
            return;
    }
}

static void write_set(const struct setting_row *row, unsigned bits, struct settings *out,
                      struct setting *to)
{
    for (int i = 0; row->names[i]; i++)
        if (bits >> i & 1)
            setting_add_value(out, to, row->names[i]);
}

static void write_row(const struct setting_row *row, const void *args, struct settings *out)
{
    char text[48];
    struct setting *to = settings_add(out, row->key, 0);
    switch (row->kind) {
    case SETTING_INT:
        snprintf(text, sizeof text, "%d", int_of(row, args));
        setting_add_value(out, to, text);
        return;
    case SETTING_NUMBER:
        write_number(number_of(row, args), text, sizeof text);
        setting_add_value(out, to, text);
        return;
    case SETTING_ON:
    case SETTING_OFF:
        return;
    case SETTING_BOOL:
    case SETTING_NOT:
        setting_add_value(out, to,
                          bool_of(row, args) == (row->kind == SETTING_BOOL) ? "true" : "false");
        return;
    case SETTING_WORD:
        setting_add_value(out, to, row->names[int_of(row, args)]);
        return;
    case SETTING_SET:
        write_set(row, (unsigned)int_of(row, args), out, to);
        return;
    case SETTING_TEXT:
        setting_add_value(out, to, text_of(row, args));
        return;
    case SETTING_INTS:
        for (int i = 0; i < ints_of(row, args)->count; i++) {
            snprintf(text, sizeof text, "%d", ints_of(row, args)->at[i]);
            setting_add_value(out, to, text);
        }
        return;
    }
}

static bool is_always(const struct setting_table *table, const char *key)
{
    for (const char *const *at = table->always; at && *at; at++)
        if (strcmp(*at, key) == 0)
            return true;
    return false;
}

void settings_write(const struct setting_table *table, const void *args, struct settings *out)
{
    for (int i = 0; i < *table->num_rows; i++)
        if (is_changed(&table->rows[i], args, table->defaults) ||
            is_always(table, table->rows[i].key))
            write_row(&table->rows[i], args, out);
}

/* --- reading --------------------------------------------------------------------------------- */

static const struct setting_row *row_of(const struct setting_table *table, const char *key)
{
    for (int i = 0; i < *table->num_rows; i++) {
        const struct setting_row *row = &table->rows[i];
        if (strcmp(row->key, key) == 0 || (row->alias && strcmp(row->alias, key) == 0))
            return row;
    }
    return NULL;
}

static bool refuse(const struct setting *from, const char *expected, struct err *err)
{
    char where[128];
    if (from->line > 0)
        snprintf(where, sizeof where, "%d: %.100s", from->line, from->key);
    else
        snprintf(where, sizeof where, "%.120s", from->key);
    return err_set(err, ERR_INPUT, where, "expected %s, found \"%.80s\"", expected,
                   from->num_values ? from->values[0] : "nothing");
}

static bool read_int(const struct setting *from, int *out, struct err *err)
{
    char *end;
    errno = 0;
    long value = strtol(from->values[0], &end, 10);
    if (*end || end == from->values[0] || errno || value < -1 || value > INT_MAX)
        return refuse(from, "a whole number", err);
    *out = (int)value;
    return true;
}

static bool read_number(const struct setting *from, double *out, struct err *err)
{
    char *end;
    *out = strtod(from->values[0], &end);
    return (!*end && end != from->values[0] && isfinite(*out)) || refuse(from, "a number", err);
}

static bool read_bool(const struct setting *from, bool *out, struct err *err)
{
    static const char *const words[] = { "false", "true", "no", "yes", "off", "on", "0", "1" };
    enum { NUM_WORDS = sizeof words / sizeof *words };
    for (int i = 0; i < NUM_WORDS; i++)
        if (strcasecmp(from->values[0], words[i]) == 0) {
            *out = i % 2 != 0;
            return true;
        }
    return refuse(from, "true or false", err);
}

static bool read_switch(const struct setting *from, bool *out, struct err *err)
{
    *out = true;
    return from->num_values == 0 || read_bool(from, out, err);
}

static bool refuse_word(const struct setting_row *row, const struct setting *from, struct err *err)
{
    struct text words = { 0 };
    for (int i = 0; row->names[i]; i++)
        text_add(&words, "%s%s", i ? ", " : "", row->names[i]);
    char expected[256];
    snprintf(expected, sizeof expected, "one of %.240s", text_get(&words));
    text_release(&words);
    return refuse(from, expected, err);
}

static int word_index(const struct setting_row *row, const char *word)
{
    for (int i = 0; row->names[i]; i++)
        if (strcasecmp(row->names[i], word) == 0)
            return i;
    return -1;
}

static bool read_word(const struct setting_row *row, const struct setting *from, int *out,
                      struct err *err)
{
    int index = word_index(row, from->values[0]);
    if (index < 0)
        return refuse_word(row, from, err);
    *out = index;
    return true;
}

static bool read_set(const struct setting_row *row, const struct setting *from, int *out,
                     struct err *err)
{
    unsigned bits = 0;
    for (int i = 0; i < from->num_values; i++) {
        int index = word_index(row, from->values[i]);
        struct setting one = { from->key, &from->values[i], 1, from->line };
        if (index < 0)
            return refuse_word(row, &one, err);
        bits |= 1u << index;
    }
    *out = (int)bits;
    return true;
}

static bool read_ints(const struct setting *from, struct setting_ints *out, struct err *err)
{
    out->count = 0;
    for (int i = 0; i < from->num_values; i++) {
        struct setting one = { from->key, &from->values[i], 1, from->line };
        if (i == LENGTH(out->at))
            return refuse(&one, "fewer numbers", err);
        if (!read_int(&one, &out->at[i], err))
            return false;
        out->count++;
    }
    return true;
}

/* Whether the value is "null" or "None", which leave the key at its default. */
static bool says_nothing(const struct setting *from)
{
    return from->num_values == 1 &&
           (strcasecmp(from->values[0], "null") == 0 || strcasecmp(from->values[0], "none") == 0 ||
            strcmp(from->values[0], "~") == 0 || !*from->values[0]);
}

static bool takes_word_none(const struct setting_row *row, const struct setting *from)
{
    return row->kind == SETTING_WORD && word_index(row, from->values[0]) >= 0;
}

static bool read_row(const struct setting_row *row, const struct setting *from, void *args,
                     struct err *err)
{
    void *to = (char *)args + row->offset;
    bool is_switch = row->kind == SETTING_ON || row->kind == SETTING_OFF;
    if (says_nothing(from) && !takes_word_none(row, from))
        return true;
    if (from->num_values == 0 && !is_switch && row->kind != SETTING_SET)
        return refuse(from, "a value", err);
    switch (row->kind) {
    case SETTING_INT:
        return read_int(from, to, err);
    case SETTING_NUMBER:
        return read_number(from, to, err);
    case SETTING_ON:
        return read_switch(from, to, err);
    case SETTING_OFF:
        if (!read_switch(from, to, err))
            return false;
        *(bool *)to = !*(bool *)to;
        return true;
    case SETTING_BOOL:
        return read_bool(from, to, err);
    case SETTING_NOT:
        if (!read_bool(from, to, err))
            return false;
        *(bool *)to = !*(bool *)to;
        return true;
    case SETTING_WORD:
        return read_word(row, from, to, err);
    case SETTING_SET:
        return read_set(row, from, to, err);
    case SETTING_TEXT:
        *(const char **)to = from->values[0];
        return true;
    case SETTING_INTS:
        return read_ints(from, to, err);
    }
    return false;
}

bool settings_read(const struct setting_table *table, const struct settings *in, void *args,
                   struct settings *unknown, struct err *err)
{
    for (int i = 0; i < in->count; i++) {
        const struct setting *from = &in->at[i];
        const struct setting_row *row = row_of(table, from->key);
        if (!row)
            settings_copy(unknown, from);
        else if (!read_row(row, from, args, err))
            return false;
    }
    return true;
}
