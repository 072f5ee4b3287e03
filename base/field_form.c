/* How each kind of field is read, written and named in messages. */
#include "base/field_form.h"

#include "base/length.h"
#include "base/plain.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_COUNT 1e18

void field_add_names(struct text *text, const struct field *field)
{
    for (int i = 0; field->names[i]; i++)
        text_add(text, "%s%s", i > 0 ? ", " : "", field->names[i]);
}

void field_add_expected(struct text *text, const struct field *field)
{
    text_add(text, "%s", field_forms[field->kind].expected);
    if (field->kind == FIELD_QUANTITY)
        text_add(text, " \"%s\"", units_example(field->quantity));
    if (field->kind == FIELD_NAME || field->kind == FIELD_SET) {
        text_add(text, " ");
        field_add_names(text, field);
    }
}

/* The number as the user typed it: 15 digits give 1.1, not 1.1000000000000001. The caller frees the
 * text. */
static char *as_typed(const json_t *value)
{
    return json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
}

bool field_refuse(const char *expected, const json_t *found, struct err *err)
{
    if (json_is_array(found))
        return err_set(err, ERR_INPUT, "", "expected %s; found an array", expected);
    if (json_is_object(found))
        return err_set(err, ERR_INPUT, "", "expected %s; found an object", expected);
    char *text = as_typed(found);
    err_set(err, ERR_INPUT, "", "expected %s; found %.80s", expected, text ? text : "nothing");
    free(text);
    return false;
}

static bool refuse_kind(const struct field *field, const json_t *found, struct err *err)
{
    struct text expected = { 0 };
    field_add_expected(&expected, field);
    field_refuse(text_get(&expected), found, err);
    text_release(&expected);
    return false;
}

static bool is_bounded(const struct field *field)
{
    return field->min != 0 || field->max != 0;
}

static void bound_text(const struct field *field, double bound, char *text, size_t size)
{
    if (field->kind == FIELD_QUANTITY)
        units_write(bound, field->quantity, text, size);
    else
        snprintf(text, size, "%.15g", bound);
}

void field_range(const struct field *field, char *text, size_t size)
{
    char min[64] = "", max[64] = "";
    bool has_min = is_bounded(field) && isfinite(field->min);
    bool has_max = is_bounded(field) && isfinite(field->max);
    if (has_min)
        bound_text(field, field->min, min, sizeof min);
    if (has_max)
        bound_text(field, field->max, max, sizeof max);
    const char *word = has_min && has_max ? " to " : has_min ? "at least " : "at most ";
    if (has_min && has_max)
        snprintf(text, size, "%s%s%s", min, word, max);
    else
        snprintf(text, size, "%s%s%s", has_min || has_max ? word : "", min, max);
}

static bool check_range(const struct field *field, double number, const json_t *value,
                        struct err *err)
{
    if (!is_bounded(field) || (number >= field->min && number <= field->max))
        return true;
    char range[160];
    field_range(field, range, sizeof range);
    return field_refuse(range, value, err);
}

/* Parses text as a JSON number. Other text becomes a JSON string, which is rejected later. */
static json_t *number_from_text(const char *text)
{
    json_t *number = json_loads(text, JSON_DECODE_ANY, NULL);
    if (json_is_number(number))
        return number;
    json_decref(number);
    return json_string(text);
}

static json_t *whole_to_json(double number)
{
    if (number == floor(number) && fabs(number) <= MAX_COUNT && !(number == 0 && signbit(number)))
        return json_integer((json_int_t)number);
    return json_real(number);
}

static bool read_int(const struct field *field, const json_t *value, void *slot, struct err *err)
{
    if (!json_is_integer(value))
        return refuse_kind(field, value, err);
    json_int_t number = json_integer_value(value);
    if (!check_range(field, (double)number, value, err))
        return false;
    if (number < INT_MIN || number > INT_MAX)
        return field_refuse("an integer of at most 32 bits", value, err);
    int narrow = (int)number;
    memcpy(slot, &narrow, sizeof narrow);
    return true;
}

static json_t *write_int(const struct field *field, const void *slot)
{
    (void)field;
    int number;
    memcpy(&number, slot, sizeof number);
    return json_integer(number);
}

static bool read_count(const struct field *field, const json_t *value, void *slot, struct err *err)
{
    double number = json_number_value(value);
    if (!json_is_number(value) || number != floor(number) || number < 0 || number > MAX_COUNT)
        return refuse_kind(field, value, err);
    memcpy(slot, &number, sizeof number);
    return check_range(field, number, value, err);
}

static bool read_number(const struct field *field, const json_t *value, void *slot, struct err *err)
{
    double number = json_number_value(value);
    if (!json_is_number(value))
        return refuse_kind(field, value, err);
    memcpy(slot, &number, sizeof number);
    return check_range(field, number, value, err);
}

static json_t *write_number(const struct field *field, const void *slot)
{
    (void)field;
    double number;
    memcpy(&number, slot, sizeof number);
    return whole_to_json(number);
}

static json_t *bool_from_text(const char *text)
{
    static const char *const words[] = { "no", "yes", "false", "true", "off", "on", "0", "1" };
    for (size_t i = 0; i < LENGTH(words); i++)
        if (strcmp(words[i], text) == 0)
            return json_boolean(i % 2);
    return json_string(text);
}

static bool read_bool(const struct field *field, const json_t *value, void *slot, struct err *err)
{
    (void)field;
    bool is_true = json_is_true(value);
    if (!json_is_boolean(value))
        return refuse_kind(field, value, err);
    memcpy(slot, &is_true, sizeof is_true);
    return true;
}

static json_t *write_bool(const struct field *field, const void *slot)
{
    (void)field;
    bool is_true;
    memcpy(&is_true, slot, sizeof is_true);
    return json_boolean(is_true);
}

static bool read_text(const struct field *field, const json_t *value, void *slot, struct err *err)
{
    const char *text = json_string_value(value);
    if (!text)
        return refuse_kind(field, value, err);
    size_t length = strlen(text);
    if (length >= field->size)
        return err_set(err, ERR_INPUT, "", "expected at most %zu bytes; found %zu", field->size - 1,
                       length);
    if (plain_fault(text))
        return err_set(err, ERR_INPUT, "", "expected one line of plain text; found \"%.80s\"",
                       text);
    memset(slot, 0, field->size);
    memcpy(slot, text, length);
    return true;
}

static json_t *write_text(const struct field *field, const void *slot)
{
    (void)field;
    return json_string(slot);
}

static int index_of(const char *const *names, const char *name)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

static bool read_name(const struct field *field, const json_t *value, void *slot, struct err *err)
{
    int index = json_is_string(value) ? index_of(field->names, json_string_value(value)) : -1;
    if (index < 0)
        return refuse_kind(field, value, err);
    memcpy(slot, &index, sizeof index);
    return true;
}

static json_t *write_name(const struct field *field, const void *slot)
{
    int index;
    memcpy(&index, slot, sizeof index);
    return json_string(field->names[index]);
}

static json_t *set_from_text(const char *text)
{
    json_t *set = json_array();
    while (*text) {
        size_t length = strcspn(text, ",");
        json_array_append_new(set, json_stringn(text, length));
        text += length + (text[length] == ',');
    }
    return set;
}

static bool read_set(const struct field *field, const json_t *value, void *slot, struct err *err)
{
    if (!json_is_array(value))
        return refuse_kind(field, value, err);
    unsigned bits = 0;
    for (size_t i = 0; i < json_array_size(value); i++) {
        int bit;
        if (!read_name(field, json_array_get(value, i), &bit, err))
            return false;
        bits |= 1u << bit;
    }
    memcpy(slot, &bits, sizeof bits);
    return true;
}

static json_t *write_set(const struct field *field, const void *slot)
{
    unsigned bits;
    memcpy(&bits, slot, sizeof bits);
    json_t *set = json_array();
    for (int i = 0; field->names[i]; i++)
        if (bits >> i & 1)
            json_array_append_new(set, json_string(field->names[i]));
    return set;
}

/* A JSON number is converted to text, so that units_parse reports the missing unit. */
static bool parse_quantity(const struct field *field, const json_t *value, double *out,
                           struct err *err)
{
    if (json_is_string(value))
        return units_parse(json_string_value(value), field->quantity, out, err);
    if (!json_is_number(value))
        return refuse_kind(field, value, err);
    char *text = as_typed(value);
    units_parse(text ? text : "", field->quantity, out, err);
    free(text);
    return false;
}

static bool read_quantity(const struct field *field, const json_t *value, void *slot,
                          struct err *err)
{
    double number;
    if (!parse_quantity(field, value, &number, err))
        return false;
    memcpy(slot, &number, sizeof number);
    return check_range(field, number, value, err);
}

static json_t *write_quantity(const struct field *field, const void *slot)
{
    double number;
    memcpy(&number, slot, sizeof number);
    char text[64];
    units_write(number, field->quantity, text, sizeof text);
    return json_string(text);
}

// clang-format off
const struct field_form field_forms[FIELD_OTHER + 1] = {
    [FIELD_INT]      = { "integer", "an integer",
                         number_from_text, read_int, write_int },
    [FIELD_COUNT]    = { "whole number", "a whole number from 0 to 1e18",
                         number_from_text, read_count, write_number },
    [FIELD_NUMBER]   = { "number", "a number",
                         number_from_text, read_number, write_number },
    [FIELD_BOOL]     = { "true or false", "true or false",
                         bool_from_text, read_bool, write_bool },
    [FIELD_TEXT]     = { "text", "text",
                         json_string, read_text, write_text },
    [FIELD_NAME]     = { "name", "one of",
                         json_string, read_name, write_name },
    [FIELD_SET]      = { "list of names", "a list of names out of",
                         set_from_text, read_set, write_set },
    [FIELD_QUANTITY] = { "quantity", "a quantity with its unit, like",
                         json_string, read_quantity, write_quantity },
    [FIELD_OTHER]    = { "structure", "a structure",
                         NULL, NULL, NULL },
};
