#include "interchange/yaml.h"

#ifndef HAS_YAML

bool yaml_read(const char *text, struct settings *out, struct err *err)
{
    (void)text;
    (void)out;
    return err_set(
        err, ERR_UNAVAILABLE, "",
        "this program was built without libyaml; install libyaml-dev and build it again");
}

#else

#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <yaml.h>

enum { DEEPEST = 32, MOST_SETTINGS = 1 << 16 };

/* The reader's position: the path of keys, and whether each level is a map or a list. */
struct reader {
    yaml_parser_t parser;
    struct settings *out;
    struct err *err;
    int depth;
    const char *keys[DEEPEST]; /* per level: the key whose value is next; NULL: a key is next */
    bool in_list[DEEPEST];
    struct setting *list;
};

static bool refuse(struct reader *reader, size_t line, const char *what)
{
    char where[24];
    snprintf(where, sizeof where, "%zu", line + 1);
    return err_set(reader->err, ERR_INPUT, where, "%s", what);
}

static struct setting *add_path(struct reader *reader, size_t line)
{
    struct text path = { 0 };
    for (int i = 0; i < reader->depth; i++)
        if (reader->keys[i])
            text_add(&path, "%s%s", path.length ? "." : "", reader->keys[i]);
    struct setting *added = settings_add(reader->out, text_get(&path), (int)line + 1);
    text_release(&path);
    return added;
}

/* Ends the value of a key: the next event is the map's next key. */
static void end_value(struct reader *reader)
{
    if (reader->depth > 0 && !reader->in_list[reader->depth - 1])
        reader->keys[reader->depth - 1] = NULL;
}

static bool take_scalar(struct reader *reader, const yaml_event_t *event)
{
    const char *value = (const char *)event->data.scalar.value;
    size_t line = event->start_mark.line;
    if (reader->depth == 0)
        return refuse(reader, line, "expected a map of settings");
    if (strlen(value) != event->data.scalar.length)
        return refuse(reader, line, "a text contains a NUL character");
    if (reader->out->count > MOST_SETTINGS)
        return refuse(reader, line, "there are too many settings");
    if (reader->in_list[reader->depth - 1]) {
        setting_add_value(reader->out, reader->list, value);
        return true;
    }
    if (!reader->keys[reader->depth - 1]) {
        reader->keys[reader->depth - 1] = arena_text(reader->out->arena, value);
        return true;
    }
    setting_add_value(reader->out, add_path(reader, line), value);
    end_value(reader);
    return true;
}

static bool begin(struct reader *reader, const yaml_event_t *event, bool is_list)
{
    size_t line = event->start_mark.line;
    bool in_list = reader->depth > 0 && reader->in_list[reader->depth - 1];
    bool has_key = reader->depth > 0 && reader->keys[reader->depth - 1] != NULL;
    if (in_list || (reader->depth > 0 && !has_key) || (reader->depth == 0 && is_list))
        return refuse(reader, line, "expected maps of settings and lists of plain values");
    if (reader->depth == DEEPEST)
        return refuse(reader, line, "maps are nested too deeply");
    if (is_list)
        reader->list = add_path(reader, line);
    reader->keys[reader->depth] = NULL;
    reader->in_list[reader->depth++] = is_list;
    return true;
}

/* Handles one event. It sets `done` at the end of the first document. */
static bool take(struct reader *reader, const yaml_event_t *event, bool *done)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return take_scalar(reader, event);
    case YAML_MAPPING_START_EVENT:
    case YAML_SEQUENCE_START_EVENT:
        return begin(reader, event, event->type == YAML_SEQUENCE_START_EVENT);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        reader->depth--;
        end_value(reader);
        return true;
    case YAML_ALIAS_EVENT:
        return refuse(reader, event->start_mark.line, "aliases are not supported");
    case YAML_DOCUMENT_END_EVENT:
    case YAML_STREAM_END_EVENT:
        *done = true;
        return true;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_START_EVENT:
        return true;
    }
    return true;
}

bool yaml_read(const char *text, struct settings *out, struct err *err)
{
    struct reader reader = { .out = out, .err = err };
    bool ok = true, done = false;
    if (!yaml_parser_initialize(&reader.parser))
        arena_exhausted(sizeof reader.parser);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, strlen(text));
    while (ok && !done) {
        yaml_event_t event;
        if (!yaml_parser_parse(&reader.parser, &event)) {
            ok = refuse(&reader, reader.parser.problem_mark.line,
                        reader.parser.problem ? reader.parser.problem : "is no YAML");
            break;
        }
        ok = take(&reader, &event, &done);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&reader.parser);
    return ok;
}

#endif
