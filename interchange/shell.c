/* Finds the training command of a shell script and expands its variables, without executing
 * anything. interchange/shell.h states the subset of bash that is understood. */
#include "interchange/shell.h"

#include "base/text.h"
#include "interchange/shell_words.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- commands -------------------------------------------------------------------------------- */

/* Skips blanks, continued lines and comments, but no ends of lines. */
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

/* Length of "NAME=" or "NAME+=" at the beginning of the text; 0: the text begins otherwise. */
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
            reader->at++; /* skips an operator, which is not valid within an array */
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
    for (int i = 0; !is_array && i < words.count; i++) /* words are not split in an assignment */
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

/* Keeps the command if it runs a .py file and has at least as many flags as the command kept so
 * far. It also reads the script in bash -c "...". */
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

/* Reads to the end of a simple command. Assignments are recognised only at its beginning. */
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
            words.count--; /* in 2>&1, drops the number of the redirected stream */
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
    const char *colon = strrchr(at, ':'); /* as in gpu:h100:8 */
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
