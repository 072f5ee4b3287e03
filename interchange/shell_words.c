/* Splits a shell script into words and expands variables in them. */
#include "interchange/shell_words.h"

#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void shell_add_word(struct shell_words *words, const char *word, int line, struct arena *arena)
{
    enum { FIRST = 64 };
    if (words->count == words->capacity) {
        int capacity = words->capacity ? 2 * words->capacity : FIRST;
        const char **at = ARENA_ARRAY(arena, const char *, (size_t)capacity);
        int *lines = ARENA_ARRAY(arena, int, (size_t)capacity);
        if (words->count) {
            memcpy(at, words->at, sizeof *at * (size_t)words->count);
            memcpy(lines, words->lines, sizeof *lines * (size_t)words->count);
        }
        words->at = at;
        words->lines = lines;
        words->capacity = capacity;
    }
    words->lines[words->count] = line;
    words->at[words->count++] = arena_text(arena, word);
}

char *shell_span(const char *at, size_t length, struct arena *arena)
{
    char *copy = arena_array(arena, 1, length + 1);
    memcpy(copy, at, length);
    return copy;
}

bool shell_is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* --- variables ------------------------------------------------------------------------------- */

static long long sum(const char **at, struct shell_reader *reader);

static const char *value_of(const struct shell_reader *reader, const char *name)
{
    const struct setting *found = settings_find(&reader->out->variables, name);
    return found && found->num_values > 0 ? found->values[0] : NULL;
}

void shell_skip_blanks(const char **at)
{
    while (**at == ' ' || **at == '\t')
        ++*at;
}

/* Reads a number, a variable or an expression in brackets. */
static long long factor(const char **at, struct shell_reader *reader)
{
    shell_skip_blanks(at);
    if (**at == '(') {
        ++*at;
        long long inner = reader->depth < DEEPEST_SHELL ? sum(at, reader) : 0;
        shell_skip_blanks(at);
        *at += **at == ')';
        return inner;
    }
    char name[64] = "";
    size_t length = 0;
    bool braces = false;
    *at += **at == '$';
    if (**at == '{') {
        braces = true;
        ++*at;
    }
    while (shell_is_name(**at)) {
        if (length + 1 < sizeof name)
            name[length++] = **at;
        ++*at;
    }
    name[length] = '\0';
    *at += braces && **at == '}';
    const char *value = isdigit((unsigned char)name[0]) ? name : value_of(reader, name);
    return value ? strtoll(value, NULL, 10) : 0;
}

static long long bounded(double value)
{
    return value > -1e15 && value < 1e15 ? (long long)value : 0;
}

static long long term(const char **at, struct shell_reader *reader)
{
    long long product = factor(at, reader);
    for (shell_skip_blanks(at); **at == '*' || **at == '/' || **at == '%'; shell_skip_blanks(at)) {
        char op = *(*at)++;
        long long right = factor(at, reader);
        if (op == '*')
            product = bounded((double)product * (double)right);
        else if (right == 0)
            product = 0;
        else
            product = op == '/' ? product / right : product % right;
    }
    return product;
}

static long long sum(const char **at, struct shell_reader *reader)
{
    reader->depth++;
    long long total = term(at, reader);
    for (shell_skip_blanks(at); **at == '+' || **at == '-'; shell_skip_blanks(at)) {
        char op = *(*at)++;
        double right = (double)term(at, reader);
        total = bounded((double)total + (op == '+' ? right : -right));
    }
    reader->depth--;
    return total;
}

/* --- words ----------------------------------------------------------------------------------- */

/* A word under construction, which unquoted variables may split. */
struct growing {
    struct text text;
    bool has_begun;
    struct shell_words *into;
};

static void end_word(struct growing *word, struct shell_reader *reader)
{
    if (word->has_begun)
        shell_add_word(word->into, text_get(&word->text), reader->line, reader->arena);
    text_release(&word->text);
    word->text = (struct text){ 0 };
    word->has_begun = false;
}

static void add_split(struct growing *word, const char *value, struct shell_reader *reader)
{
    for (; *value; value++) {
        if (isspace((unsigned char)*value)) {
            end_word(word, reader);
            continue;
        }
        text_add(&word->text, "%c", *value);
        word->has_begun = true;
    }
}

static void add_value(struct growing *word, const char *value, bool quoted,
                      struct shell_reader *reader)
{
    if (!quoted) {
        add_split(word, value, reader);
        return;
    }
    text_add(&word->text, "%s", value);
    word->has_begun = true;
}

/* Expands "${ARR[@]}": each element becomes a word. "${ARR[*]}" is treated alike, although bash
 * joins its elements to one word. */
static void add_elements(struct growing *word, const struct setting *array, bool quoted,
                         struct shell_reader *reader)
{
    for (int i = 0; i < array->num_values; i++) {
        if (i > 0)
            end_word(word, reader);
        add_value(word, array->values[i], quoted, reader);
    }
}

/* The end of the bracket that begins at `at`; NULL: it is not closed. */
static const char *closing(const char *at, char open, char close)
{
    int depth = 0;
    for (; *at; at++) {
        depth += (*at == open) - (*at == close);
        if (depth == 0)
            return at;
    }
    return NULL;
}

/* ${NAME}, ${NAME:-WORD}, ${NAME[@]}. Expands ${NAME} and these forms; other forms like
 * ${NAME//a/b} give the unchanged value. */
static void add_braces(struct growing *word, const char *inner, bool quoted,
                       struct shell_reader *reader)
{
    char name[64] = "";
    size_t length = 0;
    while (shell_is_name(inner[length]) && length + 1 < sizeof name) {
        name[length] = inner[length];
        length++;
    }
    name[length] = '\0';
    const char *rest = inner + length;
    const struct setting *found = settings_find(&reader->out->variables, name);
    bool is_set = found && found->num_values > 0 && *found->values[0];
    if (strcmp(rest, "[@]") == 0 || strcmp(rest, "[*]") == 0) {
        if (found)
            add_elements(word, found, quoted, reader);
    } else if (!is_set && (rest[0] == '-' || (rest[0] == ':' && rest[1] == '-'))) {
        add_value(word, rest + (rest[0] == ':' ? 2 : 1), quoted, reader);
    } else if (is_set) {
        add_value(word, found->values[0], quoted, reader);
    }
}

/* Expands the text after a $. */
static void add_dollar(struct growing *word, bool quoted, struct shell_reader *reader)
{
    const char *at = reader->at + 1;
    char text[64];
    if (at[0] == '(' && at[1] == '(') {
        const char *end = closing(at, '(', ')');
        at += 2;
        snprintf(text, sizeof text, "%lld", sum(&at, reader));
        add_value(word, text, true, reader);
        reader->at = end ? end + 1 : at;
        return;
    }
    if (*at == '{' || *at == '(') {
        const char *end = closing(at, *at, *at == '{' ? '}' : ')');
        size_t length = end ? (size_t)(end - at) - 1 : strlen(at) - 1;
        const char *inner = shell_span(at + 1, length, reader->arena);
        if (*at == '{')
            add_braces(word, inner, quoted, reader);
        else
            add_value(word, "$(...)", true, reader);
        reader->at = end ? end + 1 : at + strlen(at);
        return;
    }
    size_t length = 0;
    while (shell_is_name(at[length]) && length + 1 < sizeof text)
        length++;
    memcpy(text, at, length);
    text[length] = '\0';
    const struct setting *found = settings_find(&reader->out->variables, text);
    if (length == 0) {
        bool is_special = *at && strchr("@*#?", *at) != NULL;
        if (!is_special)
            add_value(word, "$", true, reader);
        reader->at += 1 + is_special;
        return;
    }
    if (found && found->num_values > 0)
        add_value(word, found->values[0], quoted, reader);
    reader->at = at + length;
}

static bool read_single(struct growing *word, struct shell_reader *reader)
{
    word->has_begun = true;
    for (reader->at++; *reader->at != '\''; reader->at++) {
        if (!*reader->at)
            return false;
        reader->line += *reader->at == '\n';
        text_add(&word->text, "%c", *reader->at);
    }
    reader->at++;
    return true;
}

static bool read_double(struct growing *word, struct shell_reader *reader)
{
    word->has_begun = true;
    reader->at++;
    while (*reader->at != '"') {
        if (!*reader->at)
            return false;
        if (*reader->at == '\\' && reader->at[1] == '\n') {
            reader->at += 2;
            reader->line++;
        } else if (*reader->at == '\\' && reader->at[1] && strchr("\"\\$`", reader->at[1])) {
            text_add(&word->text, "%c", reader->at[1]);
            reader->at += 2;
        } else if (*reader->at == '$') {
            add_dollar(word, true, reader);
        } else {
            reader->line += *reader->at == '\n';
            text_add(&word->text, "%c", *reader->at++);
        }
        if (word->text.length > MOST_SHELL_BYTES)
            return false;
    }
    reader->at++;
    return true;
}

bool shell_read_word(struct shell_reader *reader, struct shell_words *into)
{
    struct growing word = { .into = into };
    bool ok = true;
    while (ok && *reader->at && !strchr(" \t\r\n;&|<>()", *reader->at)) {
        if (word.text.length > MOST_SHELL_BYTES || into->count > MOST_SHELL_WORDS)
            ok = false;
        else if (strncmp(reader->at, "\"$@\"", 4) == 0)
            reader->at += 4; /* the script's own arguments expand to nothing */
        else if (*reader->at == '\'')
            ok = read_single(&word, reader);
        else if (*reader->at == '"')
            ok = read_double(&word, reader);
        else if (*reader->at == '$')
            add_dollar(&word, false, reader);
        else if (*reader->at == '\\' && reader->at[1] == '\n') {
            reader->at += 2;
            reader->line++;
            break;
        } else {
            reader->at += *reader->at == '\\' && reader->at[1];
            text_add(&word.text, "%c", *reader->at++);
            word.has_begun = true;
        }
    }
    end_word(&word, reader);
    if (!ok) {
        char where[16];
        snprintf(where, sizeof where, "%d", reader->line);
        err_set(reader->err, ERR_INPUT, where,
                "a quotation mark is not closed, or a word is too long");
    }
    return ok;
}
