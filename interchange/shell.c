#include "interchange/shell.h"

#include "base/text.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SHELL_WORDS = 1 << 14, MOST_SHELL_BYTES = 1 << 20, DEEPEST_SHELL = 16 };

struct shell_words {
    const char **at;
    int *lines;
    int count, capacity;
};

struct shell_reader {
    const char *at;
    int line;
    int depth; /* of scripts within words: bash -c "..." */
    struct arena *arena;
    struct shell_script *out;
    struct err *err;
};

static void shell_add_word(struct shell_words *words, const char *word, int line,
                           struct arena *arena)
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

static char *shell_span(const char *at, size_t length, struct arena *arena)
{
    char *copy = arena_array(arena, 1, length + 1);
    memcpy(copy, at, length);
    return copy;
}

static bool shell_is_name(char c)
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

static void shell_skip_blanks(const char **at)
{
    while (**at == ' ' || **at == '\t')
        ++*at;
}

/* Reads a number, a variable or a sum in brackets. */
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

/* A word as it grows; unquoted variables may split it. */
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

/* "${ARR[@]}": each element is a word of its own; "${ARR[*]}" too, which differs where an element
 * has blanks. */
static void add_elements(struct growing *word, const struct setting *array, bool quoted,
                         struct shell_reader *reader)
{
    for (int i = 0; i < array->num_values; i++) {
        if (i > 0)
            end_word(word, reader);
        add_value(word, array->values[i], quoted, reader);
    }
}

/* The end of a bracket that begins at `at`; NULL: none. */
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

/* ${NAME}, ${NAME:-WORD}, ${NAME[@]}. Other forms (${NAME//a/b}) give the value unchanged. */
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

/* Expands what follows a $. */
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

/* Reads one word into `into`, or several where variables split it. It ends at a blank or an
 * operator. */
static bool shell_read_word(struct shell_reader *reader, struct shell_words *into)
{
    struct growing word = { .into = into };
    bool ok = true;
    while (ok && *reader->at && !strchr(" \t\r\n;&|<>()", *reader->at)) {
        if (word.text.length > MOST_SHELL_BYTES || into->count > MOST_SHELL_WORDS)
            ok = false;
        else if (strncmp(reader->at, "\"$@\"", 4) == 0)
            reader->at += 4; /* a script's own arguments: there are none */
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
        err_set(reader->err, ERR_INPUT, where, "a quote does not end, or a word is too long");
    }
    return ok;
}

/* --- commands -------------------------------------------------------------------------------- */

/* Skips blanks, continued lines and comments; not ends of lines. */
static void skip_to_word(struct shell_reader *reader)
{
    for (;;) {
        shell_skip_blanks(&reader->at);
        if (*reader->at == '\r')
            reader->at++;
        else if (reader->at[0] == '\\' && reader->at[1] == '\n') {
            reader->at += 2;
            reader->line++;
        } else if (reader->at[0] == '\\' && reader->at[1] == '\r' && reader->at[2] == '\n') {
            reader->at += 3;
            reader->line++;
        } else if (*reader->at == '#') {
            while (*reader->at && *reader->at != '\n')
                reader->at++;
        } else {
            return;
        }
    }
}

/* Length of "NAME=" or "NAME+=" where the text begins with one; else 0. */
static size_t assignment(const char *at)
{
    size_t length = 0;
    while (shell_is_name(at[length]))
        length++;
    if (length == 0 || isdigit((unsigned char)at[0]))
        return 0;
    if (at[length] == '=')
        return length + 1;
    return at[length] == '+' && at[length + 1] == '=' ? length + 2 : 0;
}

static bool read_array(struct shell_reader *reader, struct shell_words *words)
{
    for (reader->at++;;) {
        skip_to_word(reader);
        if (*reader->at == '\n') {
            reader->line++;
            reader->at++;
        } else if (*reader->at == ')') {
            reader->at++;
            return true;
        } else if (!*reader->at) {
            return true;
        } else if (strchr(";&|<>(", *reader->at)) {
            reader->at++; /* stands in an array only by mistake */
        } else if (!shell_read_word(reader, words)) {
            return false;
        }
    }
}

static bool read_assignment(struct shell_reader *reader, size_t length)
{
    struct settings *variables = &reader->out->variables;
    bool adds = reader->at[length - 2] == '+';
    bool is_array = reader->at[length] == '(';
    const char *name = shell_span(reader->at, length - (adds ? 2 : 1), reader->arena);
    struct shell_words words = { 0 };
    const struct setting *before = adds ? settings_find(variables, name) : NULL;
    int line = reader->line;
    reader->at += length;
    if (is_array ? !read_array(reader, &words) : !shell_read_word(reader, &words))
        return false;
    struct text whole = { 0 };
    for (int i = 0; !is_array && before && i < before->num_values; i++)
        text_add(&whole, "%s", before->values[i]);
    for (int i = 0; !is_array && i < words.count; i++) /* an assignment does not split words */
        text_add(&whole, "%s%s", i ? " " : "", words.at[i]);
    int num_before = before ? before->num_values : 0;
    const char **values = before ? before->values : NULL;
    struct setting *added = settings_add(variables, name, line);
    for (int i = 0; is_array && i < num_before; i++)
        setting_add_value(variables, added, values[i]);
    for (int i = 0; is_array && i < words.count; i++)
        setting_add_value(variables, added, words.at[i]);
    if (!is_array)
        setting_add_value(variables, added, text_get(&whole));
    bool ok = whole.length <= MOST_SHELL_BYTES;
    text_release(&whole);
    return ok || err_set(reader->err, ERR_INPUT, name, "grows beyond %d bytes", MOST_SHELL_BYTES);
}

static int num_flags(const struct shell_words *words)
{
    int count = 0;
    for (int i = 0; i < words->count; i++)
        count += strncmp(words->at[i], "--", 2) == 0;
    return count;
}

static bool read_script(struct shell_reader *reader);

/* Keeps the command that runs a .py with the most flags; looks into bash -c "...". */
static bool keep_command(struct shell_reader *reader, const struct shell_words *words)
{
    struct shell_command *best = &reader->out->command;
    struct shell_words kept = { best->words, best->lines, best->count, best->count };
    int script = -1;
    for (int i = 0; i < words->count && script < 0; i++) {
        const char *word = words->at[i];
        if (text_ends_in(word, ".py"))
            script = i;
        else if (strchr(word, ' ') && strstr(word, ".py") && reader->depth < DEEPEST_SHELL) {
            struct shell_reader inner = *reader;
            inner.at = word;
            inner.line = words->lines[i];
            inner.depth++;
            return read_script(&inner);
        }
    }
    if (script < 0 || (best->count > 0 && num_flags(words) < num_flags(&kept)))
        return true;
    *best = (struct shell_command){ words->at, words->lines, words->count, script };
    return true;
}

static bool is_prefix(const char *word)
{
    static const char *const words[] = { "export", "declare", "local", "readonly", "typeset",
                                         "if",     "then",    "else",  "elif",     "fi",
                                         "do",     "done",    "while", "for",      "{",
                                         "}",      "time",    "exec",  "env" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

/* Reads up to the end of a simple command. Assignments count where a command begins. */
static bool read_command(struct shell_reader *reader)
{
    struct shell_words words = { 0 };
    for (;;) {
        skip_to_word(reader);
        bool at_start = words.count == 0 || is_prefix(words.at[words.count - 1]);
        size_t length = at_start ? assignment(reader->at) : 0;
        if (length > 0) {
            if (!read_assignment(reader, length))
                return false;
            continue;
        }
        if (*reader->at == '<' || *reader->at == '>') { /* a redirection: skip it and its file */
            struct shell_words file = { 0 };
            while (*reader->at && strchr("<>&", *reader->at))
                reader->at++;
            skip_to_word(reader);
            if (*reader->at && !strchr("\n;&|()", *reader->at) && !shell_read_word(reader, &file))
                return false;
            continue;
        }
        if (!*reader->at || strchr("\n;&|()", *reader->at))
            break;
        const char *from = reader->at;
        if (!shell_read_word(reader, &words))
            return false;
        bool is_number = words.count > 0 && isdigit((unsigned char)*from) &&
                         reader->at == from + strspn(from, "0123456789");
        if (is_number && (*reader->at == '<' || *reader->at == '>'))
            words.count--; /* 2>&1: the stream that is redirected */
    }
    if (*reader->at) {
        reader->line += *reader->at == '\n';
        reader->at++;
    }
    return keep_command(reader, &words);
}

static bool read_script(struct shell_reader *reader)
{
    while (*reader->at)
        if (!read_command(reader))
            return false;
    return true;
}

/* --- #SBATCH --------------------------------------------------------------------------------- */

static int number_behind(const char *line, const char *option)
{
    const char *at = strstr(line, option);
    if (!at)
        return 0;
    at += strlen(option);
    at += strspn(at, "= ");
    const char *colon = strrchr(at, ':'); /* gpu:h100:8 */
    long value = strtol(colon ? colon + 1 : at, NULL, 10);
    return value > 0 && value < 1 << 20 ? (int)value : 0;
}

static void read_batch_lines(const char *text, struct shell_script *out)
{
    char line[256];
    for (const char *at = text; at; at = strchr(at, '\n'), at = at ? at + 1 : NULL) {
        if (strncmp(at, "#SBATCH", 7) != 0)
            continue;
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\r\n"), at);
        int nodes = number_behind(line, "--nodes");
        int gpus = number_behind(line, "--gpus-per-node");
        nodes = nodes ? nodes : number_behind(line, " -N");
        gpus = gpus ? gpus : number_behind(line, "--gres");
        out->nodes = nodes ? nodes : out->nodes;
        out->gpus_per_node = gpus ? gpus : out->gpus_per_node;
    }
}

bool shell_read(const char *text, struct arena *arena, struct shell_script *out, struct err *err)
{
    *out = (struct shell_script){ .variables.arena = arena };
    struct shell_reader reader = { .at = text, .line = 1, .arena = arena, .out = out, .err = err };
    read_batch_lines(text, out);
    return read_script(&reader);
}

/* --- plain lists ----------------------------------------------------------------------------- */

static void split_line(const char *at, int line, struct shell_words *words, struct arena *arena)
{
    const char *end = at + strcspn(at, "\r\n");
    while (at < end) {
        at += strspn(at, " \t");
        if (at >= end || *at == '\\')
            return;
        char quote = '\0';
        if (*at == '"' || *at == '\'')
            quote = *at;
        at += quote != '\0';
        const char *stop = at;
        while (stop < end && (quote ? *stop != quote : !strchr(" \t", *stop)))
            stop++;
        shell_add_word(words, shell_span(at, (size_t)(stop - at), arena), line, arena);
        at = stop + (quote != '\0' && stop < end);
    }
}

void shell_split(const char *text, struct arena *arena, struct shell_command *out)
{
    struct shell_words words = { 0 };
    int line = 0;
    for (const char *at = text; at && words.count < MOST_SHELL_WORDS;
         at = strchr(at, '\n'), at = at ? at + 1 : NULL) {
        line++;
        if (at[strspn(at, " \t")] != '#')
            split_line(at, line, &words, arena);
    }
    *out = (struct shell_command){ words.at, words.lines, words.count, -1 };
}
