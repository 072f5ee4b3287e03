/* Writes readable JSON: short values on one line, longer ones broken over several lines. */
#include "base/json_layout.h"

#include <stdbool.h>
#include <stdlib.h>

enum { LINE_COLUMNS = 100, INDENT = 2 };

/* Writes numbers with 15 digits, so that 0.834 stays 0.834 instead of 0.83399999999999996. */
static void add_scalar(struct text *out, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    text_add(out, "%s", text ? text : "null");
    free(text);
}

static void add_key(struct text *out, const char *key)
{
    json_t *text = json_string(key);
    add_scalar(out, text);
    text_add(out, ": ");
    json_decref(text);
}

/* Adds a value on one line. Jansson's iterators take a mutable object but do not change it. */
static void add_flat(struct text *out, const json_t *value)
{
    json_t *walked = (json_t *)value;
    size_t size = json_is_array(value) ? json_array_size(value) : json_object_size(value);
    if (json_is_array(value)) {
        text_add(out, "[");
        for (size_t i = 0; i < size; i++) {
            text_add(out, i > 0 ? ", " : "");
            add_flat(out, json_array_get(value, i));
        }
        text_add(out, "]");
    } else if (json_is_object(value)) {
        text_add(out, size > 0 ? "{ " : "{");
        for (void *at = json_object_iter(walked); at; at = json_object_iter_next(walked, at)) {
            text_add(out, at == json_object_iter(walked) ? "" : ", ");
            add_key(out, json_object_iter_key(at));
            add_flat(out, json_object_iter_value(at));
        }
        text_add(out, size > 0 ? " }" : "}");
    } else {
        add_scalar(out, value);
    }
}

static int flat_columns(const json_t *value)
{
    struct text flat = { 0 };
    add_flat(&flat, value);
    int columns = text_columns(text_get(&flat));
    text_release(&flat);
    return columns;
}

static bool holds_objects(const json_t *value)
{
    json_t *walked = (json_t *)value;
    for (void *at = json_object_iter(walked); at; at = json_object_iter_next(walked, at))
        if (json_is_object(json_object_iter_value(at)))
            return true;
    return false;
}

static void add_value(struct text *out, const json_t *value, int indent, int column);

static void add_object(struct text *out, const json_t *object, int indent)
{
    json_t *walked = (json_t *)object;
    text_add(out, "{\n");
    for (void *at = json_object_iter(walked); at;) {
        const char *key = json_object_iter_key(at);
        const json_t *value = json_object_iter_value(at);
        text_add(out, "%*s", indent + INDENT, "");
        add_key(out, key);
        add_value(out, value, indent + INDENT, indent + INDENT + text_columns(key) + 4);
        at = json_object_iter_next(walked, at);
        text_add(out, at ? ",\n" : "\n");
    }
    text_add(out, "%*s}", indent, "");
}

/* Puts as many elements on each line as fit. */
static void add_array(struct text *out, const json_t *array, int indent)
{
    int column = LINE_COLUMNS;
    size_t size = json_array_size(array);
    text_add(out, "[");
    for (size_t i = 0; i < size; i++) {
        const json_t *value = json_array_get(array, i);
        int columns = flat_columns(value) + (i + 1 < size);
        if (column + 1 + columns > LINE_COLUMNS) {
            text_add(out, "\n%*s", indent + INDENT, "");
            column = indent + INDENT;
        } else {
            text_add(out, " ");
            column++;
        }
        add_flat(out, value);
        text_add(out, i + 1 < size ? "," : "");
        column += columns;
    }
    text_add(out, "\n%*s]", indent, "");
}

/* Adds a value that begins at `column`. It leaves space for a comma. */
static void add_value(struct text *out, const json_t *value, int indent, int column)
{
    bool is_flat = !holds_objects(value) && column + flat_columns(value) + 1 <= LINE_COLUMNS;
    if (json_is_object(value) && !is_flat)
        add_object(out, value, indent);
    else if (json_is_array(value) && !is_flat)
        add_array(out, value, indent);
    else
        add_flat(out, value);
}

void text_add_json(struct text *out, const json_t *json)
{
    if (json_is_object(json))
        add_object(out, json, 0);
    else
        add_value(out, json, 0, 0);
    text_add(out, "\n");
}
