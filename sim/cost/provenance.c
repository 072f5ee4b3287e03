#include "sim/cost/provenance.h"

#include "base/length.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

const char fitted_here[] = "fitted here", from_datasheet[] = "datasheet";
static const char sibling_of[] = "sibling of ";

#define GROUP(member)                                                                   \
    .name = #member, .kind = FIELD_TEXT, .offset = offsetof(struct provenance, member), \
    .size = sizeof((struct provenance *)0)->member, .fallback = ""

// clang-format off
const struct field provenance_fields[] = {
    { GROUP(products), .doc = "Origin of the rates of matrix products: fitted here, sibling of X, or "
                              "datasheet." },
    { GROUP(attention), .doc = "Origin of the rates of fused attention; datasheet: its authors' tables." },
    { GROUP(memory), .doc = "Origin of the constants of memory-bound ops." },
    { GROUP(network), .doc = "Origin of the constants of collectives: factors on NCCL's model, or "
                             "measured times." },
};
// clang-format on
const size_t num_provenance_fields = LENGTH(provenance_fields);

static char *group_at(const struct provenance *of, size_t i)
{
    return (char *)of + provenance_fields[i].offset;
}

static bool is_siblings(const char *word)
{
    size_t length = strlen(sibling_of);
    return strncmp(word, sibling_of, length) == 0 && word[length] != '\0';
}

static bool is_word(const char *text)
{
    return strcmp(text, fitted_here) == 0 || strcmp(text, from_datasheet) == 0 || is_siblings(text);
}

static bool read_groups(const json_t *object, struct provenance *out, struct err *err)
{
    if (!json_is_object(object))
        return err_set(err, ERR_INPUT, "", "expected an object whose keys are groups of constants");
    if (!fields_read(provenance_fields, num_provenance_fields, object, out, err))
        return false;
    for (size_t i = 0; i < num_provenance_fields; i++)
        if (*group_at(out, i) && !is_word(group_at(out, i)))
            return err_set(err, ERR_INPUT, provenance_fields[i].name,
                           "expected \"%s\", \"%sGPU\" or \"%s\"; found \"%.40s\"", fitted_here,
                           sibling_of, from_datasheet, group_at(out, i));
    return true;
}

bool provenance_read(const json_t *object, bool is_measured, struct provenance *out,
                     struct err *err)
{
    *out = (struct provenance){ 0 };
    if (object && !read_groups(object, out, err))
        return err_within(err, "provenance");
    for (size_t i = 0; i < num_provenance_fields; i++)
        if (!*group_at(out, i))
            snprintf(group_at(out, i), provenance_fields[i].size, "%s",
                     is_measured ? fitted_here : from_datasheet);
    return true;
}

static bool is_told(const struct provenance *of, size_t i)
{
    for (size_t before = 0; before < i; before++)
        if (strcmp(group_at(of, before), group_at(of, i)) == 0)
            return true;
    return false;
}

void provenance_words(const struct provenance *provenance, struct text *out)
{
    size_t alike = 0;
    for (size_t i = 0; i < num_provenance_fields; i++)
        alike += strcmp(group_at(provenance, i), provenance->products) == 0;
    for (size_t i = 0; i < num_provenance_fields && alike < num_provenance_fields; i++) {
        if (is_told(provenance, i))
            continue;
        text_add(out, "%s%s", i > 0 ? "; " : "", provenance_fields[i].name);
        for (size_t j = i + 1; j < num_provenance_fields; j++)
            if (strcmp(group_at(provenance, j), group_at(provenance, i)) == 0)
                text_add(out, ", %s", provenance_fields[j].name);
        text_add(out, ": %s", group_at(provenance, i));
    }
    if (alike == num_provenance_fields)
        text_add(out, "%s", provenance->products);
}
