/* cli/list.c - prints a registry of names as a table or as JSON. */
#include "base/text.h"
#include "base/units.h"
#include "cli/input/command.h"
#include "cli/input/options.h"
#include "cli/names/registry.h"
#include "cli/print/terminal.h"

#include <stdio.h>

static const char *text_of(const json_t *entry, const char *key)
{
    const char *text = json_string_value(json_object_get(entry, key));
    return text ? text : "";
}

/* A layout word in its full form: "ppN". */
static const char *shown_name(const json_t *entry)
{
    const char *form = text_of(entry, "form");
    return *form ? form : text_of(entry, "name");
}

enum { WIDEST_NAME = 32 };

static int names_width(const json_t *list)
{
    int width = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        int columns = text_columns(shown_name(json_array_get(list, i)));
        if (columns > width && columns <= WIDEST_NAME)
            width = columns;
    }
    return width;
}

/* Adds the aliases of an entry: "; also 175b, gpt3". */
static void add_aliases(struct text *line, const json_t *entry)
{
    const json_t *aliases = json_object_get(entry, "aliases");
    for (size_t i = 0; i < json_array_size(aliases); i++)
        text_add(line, "%s%s", i > 0 ? ", " : "; also ",
                 json_string_value(json_array_get(aliases, i)));
}

/* Adds a count of the entry between two texts: ", " and " active" give ", 37.6 B active". */
static void add_count(struct text *line, const char *before, const json_t *entry, const char *key,
                      const char *after)
{
    char count[32];
    units_show_count(json_number_value(json_object_get(entry, key)), count, sizeof count);
    text_add(line, "%s%s%s", before, count, after);
}

/* Adds the dimensions of a model: ": 671 B parameters, 37.6 B active (36.6 B without the embedding,
 * 35.7 B without both tables), 11.6 B more to predict later tokens, 61 layers, hidden 7168". */
static void add_dimensions(struct text *line, const json_t *entry)
{
    const json_t *total = json_object_get(entry, "params");
    if (!total)
        return;
    add_count(line, ": ", entry, "params", " parameters");
    if (!json_equal(total, json_object_get(entry, "active_params"))) {
        add_count(line, ", ", entry, "active_params", " active");
        add_count(line, " (", entry, "active_params_without_embedding", " without the embedding");
        add_count(line, ", ", entry, "active_params_without_tables", " without both tables)");
    }
    if (json_object_get(entry, "mtp_params"))
        add_count(line, ", ", entry, "mtp_params", " more to predict later tokens");
    text_add(line, ", %d layers, hidden %d",
             (int)json_integer_value(json_object_get(entry, "layers")),
             (int)json_integer_value(json_object_get(entry, "hidden")));
}

static void print_table(const json_t *list, bool with_sources)
{
    int width = names_width(list);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const char *source = text_of(entry, "source");
        struct text line = { 0 };
        text_add_padded(&line, shown_name(entry), width);
        text_add(&line, "  %s", text_of(entry, "summary"));
        add_dimensions(&line, entry);
        add_aliases(&line, entry);
        printf("%s\n", text_get(&line));
        if (with_sources && *source)
            printf("%*s  source: %s\n", width, "", source);
        text_release(&line);
    }
}

int cmd_list(int argc, char **argv, struct err *err)
{
    struct options options;
    if (!options_parse(COMMAND_LIST, 1, argc, argv, &options, err))
        return exit_code_of(err);
    const struct registry *registry =
        options.num_files > 0 ? registry_find(options.files[0], err) : NULL;
    if (err->code != ERR_NONE)
        return exit_code_of(err);
    if (registry && (!registry->entries || (registry->print && !options.json))) {
        if (options.json)
            err_set(err, ERR_USAGE, registry->name, "is a text page and has no JSON form");
        else
            registry->print(stdout);
        return exit_code_of(err);
    }
    json_t *list = registry ? registry->entries(err) : registry_list();
    if (!list)
        return exit_code_of(err);
    if (options.json)
        print_json(list);
    else
        print_table(list, options.verbose);
    json_decref(list);
    return EXIT_DONE;
}
