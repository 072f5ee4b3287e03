/* Writes the rows of a table of fields for the reference page. */
#include "base/field.h"
#include "base/field_form.h"

static void document_values(const struct field *field, FILE *to)
{
    struct text values = { 0 };
    char range[160];
    field_range(field, range, sizeof range);
    if (field->kind == FIELD_NAME || field->kind == FIELD_SET)
        field_add_names(&values, field);
    else
        text_add(&values, "%s", range);
    fprintf(to, " %s |", text_get(&values));
    text_release(&values);
}

static void document_default(const struct field *field, FILE *to)
{
    if (!field->fallback)
        fprintf(to, " required |");
    else if (!*field->fallback)
        fprintf(to, " %s |", field->kind == FIELD_OTHER ? "optional" : "empty");
    else
        fprintf(to, " `%s` |", field->fallback);
}

void fields_document(const struct field *fields, size_t n, FILE *to)
{
    for (size_t i = 0; i < n; i++) {
        const struct field *field = &fields[i];
        fprintf(to, "| `%s` | %s", field->name, field_forms[field->kind].name);
        if (field->kind == FIELD_QUANTITY)
            fprintf(to, " (%s)", units_names(field->quantity));
        fprintf(to, " |");
        document_values(field, to);
        document_default(field, to);
        fprintf(to, " %s |\n", field->doc);
    }
}
