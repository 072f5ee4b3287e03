/* Reads and writes structs by tables of their fields. */
#include "base/field.h"

#include "base/arena.h"
#include "base/field_form.h"
#include "base/json.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void *slot_of(const struct field *field, void *out)
{
    return (char *)out + field->offset;
}

static bool read_value(const struct field *field, const json_t *value, void *out, struct err *err)
{
    bool ok = true;
    if (json_is_null(value))
        ok = err_set(err, ERR_INPUT, "", "expected a value; found null");
    else if (field_forms[field->kind].read)
        ok = field_forms[field->kind].read(field, value, slot_of(field, out), err);
    if (!ok)
        err_prefix(err, field->name);
    return ok;
}

bool field_parse(const struct field *field, const char *text, void *out, struct err *err)
{
    if (field->kind == FIELD_OTHER)
        return err_set(err, ERR_INPUT, field->name, "can be set in a file only");
    json_t *value = field_forms[field->kind].from_text(text);
    if (!value)
        return err_set(err, ERR_INPUT, field->name, "expected UTF-8 text; found other bytes");
    bool ok = read_value(field, value, out, err);
    json_decref(value);
    return ok;
}

static bool is_missing(const struct field *field, struct err *err)
{
    struct text expected = { 0 };
    field_add_expected(&expected, field);
    err_set(err, ERR_INPUT, field->name, "is missing; expected %s", text_get(&expected));
    text_release(&expected);
    return false;
}

static bool read_absent(const struct field *field, void *out, struct err *err)
{
    if (!field->fallback)
        return is_missing(field, err);
    if (field->kind == FIELD_OTHER)
        return true;
    bool ok = field_parse(field, field->fallback, out, err);
    assert(ok); /* the table's fallback is always valid */
    return ok;
}

static bool only_known_keys(const struct field *fields, size_t n, const json_t *object,
                            struct err *err)
{
    const char **names = arena_grow(NULL, n * sizeof *names);
    for (size_t i = 0; i < n; i++)
        names[i] = fields[i].name;
    bool ok = json_only_keys(object, names, n, err);
    free(names);
    return ok;
}

/* Unknown keys are reported first: a misspelt key is both unknown and missing, and the unknown name
 * is the better message. */
bool fields_read(const struct field *fields, size_t n, const json_t *object, void *out,
                 struct err *err)
{
    if (!json_is_object(object))
        return field_refuse("an object", object, err);
    if (!only_known_keys(fields, n, object, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_object_get(object, fields[i].name);
        bool ok =
            value ? read_value(&fields[i], value, out, err) : read_absent(&fields[i], out, err);
        if (!ok)
            return false;
    }
    return true;
}

json_t *fields_write(const struct field *fields, size_t n, const void *in)
{
    json_t *object = json_object();
    for (size_t i = 0; i < n; i++) {
        const struct field *field = &fields[i];
        if (!field_forms[field->kind].write)
            continue;
        json_t *value = field_forms[field->kind].write(field, (const char *)in + field->offset);
        int status = json_object_set_new(object, field->name, value);
        /* cannot fail, as callers write neither NaN nor text that is not UTF-8 */
        assert(status == 0);
        (void)status;
    }
    return object;
}

static bool values_are_equal(const struct field *field, const void *a, const void *b)
{
    switch (field->kind) {
    case FIELD_INT:
    case FIELD_NAME:
        return *(const int *)a == *(const int *)b;
    case FIELD_COUNT:
    case FIELD_NUMBER:
    case FIELD_QUANTITY:
        return *(const double *)a == *(const double *)b;
    case FIELD_BOOL:
        return *(const bool *)a == *(const bool *)b;
    case FIELD_TEXT:
        return strncmp(a, b, field->size) == 0;
    case FIELD_SET:
        return *(const unsigned *)a == *(const unsigned *)b;
    case FIELD_OTHER:
        break;
    }
    return true;
}

bool fields_are_equal(const struct field *fields, size_t n, const void *a, const void *b)
{
    for (size_t i = 0; i < n; i++) {
        size_t offset = fields[i].offset;
        if (!values_are_equal(&fields[i], (const char *)a + offset, (const char *)b + offset))
            return false;
    }
    return true;
}

const struct field *fields_find(const struct field *fields, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}
