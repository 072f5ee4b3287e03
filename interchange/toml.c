#include "interchange/toml.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 512, MOST_SETTINGS = 1 << 12 };

struct reader {
    const char *at;
    int line;
    char table[LONGEST];
    struct settings *out;
    struct err *err;
};

static bool refuse(const struct reader *reader, const char *expected)
{
    char where[16];
    snprintf(where, sizeof where, "%d", reader->line);
    return err_set(reader->err, ERR_INPUT, where, "expected %s, found \"%.*s\"", expected,
                   (int)strcspn(reader->at, "\r\n") < 60 ? (int)strcspn(reader->at, "\r\n") : 60,
                   reader->at);
}

static void skip_blanks(struct reader *reader)
{
    reader->at += strspn(reader->at, " \t\r");
    if (*reader->at == '#')
        reader->at += strcspn(reader->at, "\n");
}

static void skip_lines(struct reader *reader)
{
    for (skip_blanks(reader); *reader->at == '\n'; skip_blanks(reader)) {
        reader->line++;
        reader->at++;
    }
}

static bool is_key(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

static bool read_key(struct reader *reader, char *key, size_t size)
{
    size_t length = 0;
    while (is_key(reader->at[length]))
        length++;
    if (length == 0 || length >= size)
        return refuse(reader, "a bare key");
    memcpy(key, reader->at, length);
    key[length] = '\0';
    reader->at += length;
    return true;
}

static bool read_scalar(struct reader *reader, struct setting *to)
{
    char value[LONGEST];
    char quote = '\0';
    if (*reader->at == '"' || *reader->at == '\'')
        quote = *reader->at;
    const char *from = reader->at + (quote != '\0');
    size_t length = 0;
    if (quote && reader->at[1] == quote && reader->at[2] == quote)
        return refuse(reader, "a text on one line");
    while (from[length] && from[length] != '\n' &&
           (quote ? from[length] != quote : !strchr(" \t\r,]#{", from[length])))
        length++;
    if (quote && from[length] != quote)
        return refuse(reader, "a text that ends in the same line");
    if (length >= sizeof value || (quote == '"' && memchr(from, '\\', length)))
        return refuse(reader, "a text without escapes, of at most 511 letters");
    if (!quote && length == 0)
        return refuse(reader, "a text, a number, true or false, or a list");
    memcpy(value, from, length);
    value[length] = '\0';
    setting_add_value(reader->out, to, value);
    reader->at = from + length + (quote != '\0');
    return true;
}

static bool read_list(struct reader *reader, struct setting *to)
{
    reader->at++;
    for (;;) {
        skip_lines(reader);
        if (*reader->at == ']') {
            reader->at++;
            return true;
        }
        if (!read_scalar(reader, to))
            return false;
        skip_lines(reader);
        if (*reader->at == ',')
            reader->at++;
        else if (*reader->at != ']')
            return refuse(reader, "a comma or ]");
    }
}

static bool read_table(struct reader *reader)
{
    reader->at++;
    skip_blanks(reader);
    if (!read_key(reader, reader->table, sizeof reader->table))
        return false;
    skip_blanks(reader);
    if (*reader->at != ']')
        return refuse(reader, "]");
    reader->at++;
    return true;
}

static bool read_pair(struct reader *reader)
{
    char key[LONGEST], path[2 * LONGEST + 2];
    if (!read_key(reader, key, sizeof key))
        return false;
    skip_blanks(reader);
    if (*reader->at != '=')
        return refuse(reader, "=");
    reader->at++;
    skip_blanks(reader);
    snprintf(path, sizeof path, "%s%s%s", reader->table, *reader->table ? "." : "", key);
    if (reader->out->count >= MOST_SETTINGS)
        return refuse(reader, "no more than 4096 settings");
    if (settings_find(reader->out, path))
        return refuse(reader, "each key once");
    struct setting *to = settings_add(reader->out, path, reader->line);
    return *reader->at == '[' ? read_list(reader, to) : read_scalar(reader, to);
}

bool toml_read(const char *text, struct settings *out, struct err *err)
{
    struct reader reader = { .at = text, .line = 1, .out = out, .err = err };
    for (skip_lines(&reader); *reader.at; skip_lines(&reader)) {
        if (*reader.at == '[' ? !read_table(&reader) : !read_pair(&reader))
            return false;
        skip_blanks(&reader);
        if (*reader.at && *reader.at != '\n')
            return refuse(&reader, "the end of the line");
    }
    return true;
}
