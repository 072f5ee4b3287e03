/* Finds a fitted constant by the names of its file and of its key. */
#include "calibration/fit/constant.h"

#include "base/json.h"
#include "base/length.h"
#include "base/text.h"
#include "base/units.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kinds of files: names of folders in calibration/. */
static const char profiles[] = "profiles/";
static const char stacks[] = "stacks/";

static const char tile_key[] = "gemm_tiles";
static const struct field tile_field = { .kind = FIELD_NUMBER, .min = 1e-3, .max = 1 };

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool is_number(const struct field *field)
{
    return field->kind == FIELD_NUMBER || field->kind == FIELD_QUANTITY;
}

static bool refuse_key(const struct field *fields, size_t n, const char *key, struct err *err)
{
    const char *names[64];
    size_t count = 0;
    for (size_t i = 0; i < n && count < LENGTH(names); i++)
        if (is_number(&fields[i]))
            names[count++] = fields[i].name;
    const char *nearest = text_nearest(key, names, count);
    return err_set(err, ERR_INPUT, "", "is not a constant of this kind of file%s%s%s",
                   nearest ? "; did you mean \"" : "", nearest ? nearest : "",
                   nearest ? "\"?" : "");
}

static bool find_field(const struct field *fields, size_t n, const char *key, size_t offset,
                       struct constant *out, struct err *err)
{
    const struct field *found = fields_find(fields, n, key);
    if (!found || !is_number(found))
        return refuse_key(fields, n, key, err);
    out->field = *found;
    out->field.offset += offset;
    return true;
}

/* Finds a constant of an attention kernel, such as "flash2.half_seq". */
static bool find_attention(const char *path, struct constant *out, struct err *err)
{
    for (int i = ATTENTION_FLASH1; i < NUM_ATTENTION_KERNELS; i++) {
        size_t length = strlen(attention_names[i]);
        size_t offset =
            offsetof(struct profile, attention) + (size_t)i * sizeof(struct attention_rate);
        if (begins_with(path, attention_names[i]) && path[length] == '.')
            return find_field(attention_fields, num_attention_fields, path + length + 1, offset,
                              out, err);
    }
    return err_set(err, ERR_INPUT, "",
                   "expected attention.KERNEL.KEY, with flash1, flash2 or flash3");
}

/* The index in a key such as "gemm_tiles[2]", here 2; -1 if the key has none. */
static int tile_index(const char *key)
{
    int index, end = 0;
    if (sscanf(key, "gemm_tiles[%d]%n", &index, &end) != 1 || key[end] != '\0' || end == 0)
        return -1;
    return index >= 0 && index < MAX_GEMM_TILES ? index : -1;
}

static bool find_in_profile(const char *key, struct constant *out, struct err *err)
{
    if (begins_with(key, "attention."))
        return find_attention(key + strlen("attention."), out, err);
    if (!begins_with(key, tile_key))
        return find_field(profile_fields, num_profile_fields, key, 0, out, err);
    int index = tile_index(key);
    if (index < 0)
        return err_set(err, ERR_INPUT, "", "expected a tile, like gemm_tiles[2], of at most %d",
                       MAX_GEMM_TILES);
    out->field = tile_field;
    out->field.offset = offsetof(struct profile, gemm_tiles) +
                        (size_t)index * sizeof(struct gemm_tile) +
                        offsetof(struct gemm_tile, efficiency);
    return true;
}

bool constant_find(const char *file, const char *key, struct constant *out, struct err *err)
{
    *out = (struct constant){ .file = file, .key = key, .is_of_stack = begins_with(file, stacks) };
    if (!out->is_of_stack && !begins_with(file, profiles))
        return err_set(err, ERR_INPUT, "", "expected profiles/NAME or stacks/NAME");
    out->names = strchr(file, '/') + 1;
    if (out->is_of_stack)
        return find_field(stack_fields, num_stack_fields, key, 0, out, err);
    return find_in_profile(key, out, err);
}

static bool is_named(const struct constant *constant, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = constant->names; *at;) {
        size_t own = strcspn(at, "+");
        if (own == length && strncmp(at, name, length) == 0)
            return true;
        at += own + (at[own] == '+');
    }
    return false;
}

bool constant_is_of(const struct constant *constant, const struct system *system)
{
    return is_named(constant, constant->is_of_stack ? system->stack.name : system->profile.name);
}

bool constant_is_in(const struct constant *constant, const char *file)
{
    const char *folder = constant->is_of_stack ? stacks : profiles;
    return begins_with(file, folder) && is_named(constant, file + strlen(folder));
}

bool constant_file(const struct constant *constant, int i, char *file, size_t size)
{
    const char *at = constant->names;
    for (; i > 0 && *at; i--) {
        at += strcspn(at, "+");
        at += *at == '+';
    }
    snprintf(file, size, "%s%.*s", constant->is_of_stack ? stacks : profiles, (int)strcspn(at, "+"),
             at);
    return *at != '\0';
}

double constant_get(const struct constant *constant, const struct system *system)
{
    const void *of = constant->is_of_stack ? (const void *)&system->stack : &system->profile;
    double value;
    memcpy(&value, (const char *)of + constant->field.offset, sizeof value);
    return value;
}

void constant_set(const struct constant *constant, struct system *system, double value)
{
    void *of = constant->is_of_stack ? (void *)&system->stack : &system->profile;
    memcpy((char *)of + constant->field.offset, &value, sizeof value);
}

bool constant_read(const struct constant *constant, const json_t *value, double *out,
                   struct err *err)
{
    struct field field = constant->field;
    field.name = "";
    field.offset = 0;
    char *text = json_is_string(value) ? NULL : json_text(value, 0);
    bool ok = field_parse(&field, text ? text : json_string_value(value), out, err);
    free(text);
    return ok;
}

json_t *constant_write(const struct constant *constant, double value)
{
    struct field field = constant->field;
    field.name = "value";
    field.offset = 0;
    json_t *object = fields_write(&field, 1, &value);
    json_t *written = json_incref(json_object_get(object, "value"));
    json_decref(object);
    return written;
}

/* The JSON object that holds the key's last part: the file itself, or a kernel's rates. */
static json_t *find_holder(const struct constant *constant, json_t *file, const char **last)
{
    const char *dot = strrchr(constant->key, '.');
    *last = dot ? dot + 1 : constant->key;
    if (!dot)
        return file;
    json_t *kernels = json_object_get(file, "attention");
    for (int i = ATTENTION_FLASH1; i < NUM_ATTENTION_KERNELS; i++)
        if (begins_with(constant->key + strlen("attention."), attention_names[i]))
            return json_object_get(kernels, attention_names[i]);
    return NULL;
}

bool constant_store(const struct constant *constant, double value, json_t *file, struct err *err)
{
    const char *last;
    if (begins_with(constant->key, tile_key) && !constant->is_of_stack) {
        json_t *tile =
            json_array_get(json_object_get(file, tile_key), (size_t)tile_index(constant->key));
        return json_array_set_new(tile, 2, json_real(value)) == 0 ||
               err_set(err, ERR_INPUT, constant->key, "%s does not list this tile", constant->file);
    }
    json_t *holder = find_holder(constant, file, &last);
    if (!holder)
        return err_set(err, ERR_INPUT, constant->key, "%s does not list this attention kernel",
                       constant->file);
    return json_object_set_new(holder, last, constant_write(constant, value)) == 0;
}
