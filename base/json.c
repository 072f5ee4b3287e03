/* Reads JSON files with limits of size and depth, and finds the line of a key for error messages. A
 * key path names a value, such as "groups[0].levels[1].bandwidth". */
#include "base/json.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/plain.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

/* A position in JSON text, with its line number. */
struct cursor {
    const char *at;
    int line;
};

static void step(struct cursor *cursor)
{
    cursor->line += *cursor->at == '\n';
    cursor->at++;
}

static void skip_blanks(struct cursor *cursor)
{
    while (*cursor->at && strchr(" \t\r\n", *cursor->at))
        step(cursor);
}

/* Moves from the opening quote to the character after the closing quote. */
static void skip_string(struct cursor *cursor)
{
    step(cursor);
    while (*cursor->at && *cursor->at != '"') {
        if (*cursor->at == '\\' && cursor->at[1])
            step(cursor);
        step(cursor);
    }
    if (*cursor->at)
        step(cursor);
}

/* Moves over one character or one string, and counts the depth of brackets. */
static void skip_token(struct cursor *cursor, int *depth)
{
    if (*cursor->at == '"') {
        skip_string(cursor);
        return;
    }
    *depth += *cursor->at == '{' || *cursor->at == '[';
    *depth -= *cursor->at == '}' || *cursor->at == ']';
    step(cursor);
}

static void skip_value(struct cursor *cursor)
{
    int depth = 0;
    skip_blanks(cursor);
    while (*cursor->at && (depth > 0 || !strchr(",]}", *cursor->at)))
        skip_token(cursor, &depth);
}

/* "FILE:12", or "FILE" for line 0. Of a long path only the end is shown. */
static void name_place(const char *path, int line, char *where, size_t size)
{
    enum { LONGEST_PATH = 160 };
    path = file_shown(path);
    size_t length = strlen(path);
    const char *shown = path + (length > LONGEST_PATH ? length - LONGEST_PATH : 0);
    if (line > 0)
        snprintf(where, size, "%s:%d", shown, line);
    else
        snprintf(where, size, "%s", shown);
}

static bool check_no_nul(const char *text, size_t length, const char *path, struct err *err)
{
    struct cursor cursor = { text, 1 };
    while (*cursor.at)
        step(&cursor);
    if (cursor.at == text + length)
        return true;
    char where[sizeof err->where];
    name_place(path, cursor.line, where, sizeof where);
    return err_set(err, ERR_INPUT, where, "expected JSON text; found a NUL byte");
}

/* Limits the depth, as Jansson recurses up to 2048 levels. */
static bool check_depth(const char *text, const char *path, struct err *err)
{
    struct cursor cursor = { text, 1 };
    int depth = 0;
    while (*cursor.at && depth <= MAX_DEPTH)
        skip_token(&cursor, &depth);
    if (depth <= MAX_DEPTH)
        return true;
    char where[sizeof err->where];
    name_place(path, cursor.line, where, sizeof where);
    return err_set(err, ERR_INPUT, where, "expected at most %d nested levels; found more",
                   MAX_DEPTH);
}

static json_t *parse(const char *text, size_t length, const char *path, struct err *err)
{
    if (!check_no_nul(text, length, path, err) || !check_depth(text, path, err))
        return NULL;
    json_error_t fault;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &fault);
    if (json_is_object(root))
        return root;
    char where[sizeof err->where];
    name_place(path, root ? 0 : fault.line, where, sizeof where);
    if (root)
        err_set(err, ERR_INPUT, where, "expected a JSON object; found an array");
    else
        err_set(err, ERR_INPUT, where, "is not valid JSON: %s", fault.text);
    json_decref(root);
    return NULL;
}

bool json_file_load(struct json_file *file, const char *path, struct err *err)
{
    *file = (struct json_file){ 0 };
    size_t length;
    char *text = file_read(path, FILE_MAX_BYTES, &length, err);
    if (!text)
        return false;
    json_t *root = parse(text, length, path, err);
    if (!root) {
        free(text);
        return false;
    }
    size_t path_bytes = strlen(path) + 1;
    file->path = memcpy(arena_grow(NULL, path_bytes), path, path_bytes);
    file->text = text;
    file->root = root;
    return true;
}

void json_file_release(struct json_file *file)
{
    json_decref(file->root);
    free(file->text);
    free(file->path);
    *file = (struct json_file){ 0 };
}

/* Length of the part of `path` that the key at the cursor (on its opening quote) matches: for the
 * key "size" it is 4 for the paths "size" and "size.x", and 0 for other paths. Escapes in keys are
 * compared as they are written. */
static size_t key_match(const struct cursor *cursor, const char *path)
{
    struct cursor end = *cursor;
    skip_string(&end);
    size_t length = (size_t)(end.at - cursor->at) - 2;
    if (length == 0 || strncmp(cursor->at + 1, path, length) != 0)
        return 0;
    return strchr(".[", path[length]) || path[length] == '\0' ? length : 0;
}

/* The cursor is on '{'; moves it to the value of the member that `path` begins with. */
static bool enter_member(struct cursor *cursor, const char **path, int *line)
{
    step(cursor);
    for (skip_blanks(cursor); *cursor->at == '"'; skip_blanks(cursor)) {
        size_t matched = key_match(cursor, *path);
        int key_line = cursor->line;
        skip_string(cursor);
        skip_blanks(cursor);
        step(cursor); /* skips the colon */
        if (matched > 0) {
            *path += matched;
            *path += **path == '.';
            *line = key_line;
            return true;
        }
        skip_value(cursor);
        if (*cursor->at == ',')
            step(cursor);
    }
    return false;
}

/* The cursor is on '['; moves it to the element whose index, such as "[2]", is at `path`. */
static bool enter_element(struct cursor *cursor, const char **path, int *line)
{
    char *after;
    long index = strtol(*path + 1, &after, 10);
    if (**path != '[' || *after != ']' || index < 0)
        return false;
    step(cursor);
    for (skip_blanks(cursor); index > 0 && *cursor->at && *cursor->at != ']'; index--) {
        skip_value(cursor);
        if (*cursor->at == ',')
            step(cursor);
        skip_blanks(cursor);
    }
    if (index > 0 || *cursor->at == ']')
        return false;
    *path = after + 1;
    *path += **path == '.';
    *line = cursor->line;
    return true;
}

/* The line of a key path, or of the longest leading part of it that is in the file; 0 for an empty
 * path. */
static int line_of(const char *text, const char *path)
{
    struct cursor cursor = { text, 1 };
    skip_blanks(&cursor);
    int line = *path ? cursor.line : 0;
    bool entered = true;
    while (entered && *path) {
        skip_blanks(&cursor);
        if (*cursor.at == '{')
            entered = enter_member(&cursor, &path, &line);
        else if (*cursor.at == '[')
            entered = enter_element(&cursor, &path, &line);
        else
            entered = false;
    }
    return line;
}

bool json_file_blame(const struct json_file *file, struct err *err)
{
    char place[sizeof err->where];
    name_place(file->path, line_of(file->text, err->where), place, sizeof place);
    if (*err->where)
        err_prefix(err, ": ");
    err_prefix(err, place);
    return false;
}

char *json_text(const json_t *json, int indent)
{
    size_t width = indent > 0 ? (size_t)indent : 0;
    return json_dumps(json, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17) | JSON_INDENT(width));
}

const char *json_plain_text(const json_t *value)
{
    const char *text = json_string_value(value);
    return text && !plain_fault(text) ? text : NULL;
}

static bool is_among(const char *key, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], key) == 0)
            return true;
    return false;
}

static bool unknown_key(const char *key, const char *const *names, size_t n, struct err *err)
{
    const char *nearest = text_nearest(key, names, n);
    if (nearest)
        return err_set(err, ERR_INPUT, key, "is not a known key; did you mean \"%s\"?", nearest);
    struct text known = { 0 };
    for (size_t i = 0; i < n; i++)
        text_add(&known, "%s%s", i > 0 ? ", " : "", names[i]);
    err_set(err, ERR_INPUT, key, "is not a known key; expected one of %s", text_get(&known));
    text_release(&known);
    return false;
}

bool json_only_keys(const json_t *object, const char *const *names, size_t n, struct err *err)
{
    /* Jansson's iterators take a mutable object but do not change it. */
    json_t *walked = (json_t *)object;
    for (void *at = json_object_iter(walked); at; at = json_object_iter_next(walked, at))
        if (!is_among(json_object_iter_key(at), names, n))
            return unknown_key(json_object_iter_key(at), names, n, err);
    return true;
}
