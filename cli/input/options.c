/* Parses and checks the options of all commands by one table, whose rows are the options. */
#include "cli/input/options.h"

#include "base/arena.h"
#include "base/length.h"
#include "base/text.h"
#include "cli/input/command.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static bool is_name(const struct option_row *row, const char *name)
{
    return strcmp(row->name, name) == 0 || (row->alias && strcmp(row->alias, name) == 0);
}

static const struct option_row *find(const char *name)
{
    for (int i = 0; i < num_option_rows; i++)
        if (is_name(&option_rows[i], name))
            return &option_rows[i];
    return NULL;
}

static void name_takers(const struct option_row *row, char *text, size_t size)
{
    size_t length = 0;
    text[0] = '\0';
    for (int i = 0; i < num_commands; i++)
        if (row->commands & commands[i].bit && length < size)
            length += (size_t)snprintf(text + length, size - length, "%s%s", length ? ", " : "",
                                       commands[i].name);
}

static bool refuse_option(unsigned command, const char *name, struct err *err)
{
    const struct option_row *row = find(name);
    if (row) {
        char takers[120];
        name_takers(row, takers, sizeof takers);
        return err_set(err, ERR_USAGE, name, "is an option of %s", takers);
    }
    const char **names = arena_grow(NULL, (size_t)num_option_rows * sizeof *names);
    size_t num_names = 0;
    for (int i = 0; i < num_option_rows; i++)
        if (option_rows[i].commands & command)
            names[num_names++] = option_rows[i].name;
    const char *nearest = text_nearest(name, names, num_names);
    free(names);
    if (nearest)
        return err_set(err, ERR_USAGE, name, "there is no such option; did you mean %s?", nearest);
    return err_set(err, ERR_USAGE, name, "there is no such option; --help lists the options");
}

enum { LONGEST_VALUE = 64 };

/* Expands abbreviations that a field accepts: "100B" of tokens becomes "100Btok", a price of "2.5"
 * becomes "2.5$/h", and a sequence length of "8k" becomes "8192". Other values are unchanged. */
static const char *in_full(const struct option_row *row, const char *value, char *room)
{
    size_t length = strlen(value), digits = strspn(value, "0123456789");
    bool is_quantity = row->field.kind == FIELD_QUANTITY;
    char last = '\0';
    if (length > 0)
        last = value[length - 1];
    if (length == 0 || length > LONGEST_VALUE - sizeof "tok")
        return value;
    if (is_quantity && row->field.quantity == QUANTITY_TOKENS && strchr("kKMBGT", last) &&
        length > 1 && strchr("0123456789. ", value[length - 2]))
        snprintf(room, LONGEST_VALUE, "%.*s%ctok", (int)length - 1, value,
                 last == 'K' ? 'k' : last);
    else if (is_quantity && row->field.quantity == QUANTITY_DOLLARS_PER_HOUR &&
             strspn(value, "0123456789.") == length)
        snprintf(room, LONGEST_VALUE, "%.*s $/h", (int)length, value);
    else if (row->field.kind == FIELD_INT && row->field.quantity == QUANTITY_TOKENS &&
             digits + 1 == length && digits > 0 && digits < 9 && strchr("kKM", last))
        snprintf(room, LONGEST_VALUE, "%lld", atoll(value) << (last == 'M' ? 20 : 10));
    else
        return value;
    return room;
}

static bool read_value(const struct option_row *row, const char *typed, struct options *out,
                       struct err *err)
{
    char room[LONGEST_VALUE];
    const char *value = in_full(row, typed, room);
    bool ok = true;
    if (row->field.kind != FIELD_OTHER)
        ok = field_parse(&row->field, value, out, err);
    else if (*value)
        memcpy((char *)out + row->field.offset, &value, sizeof value);
    else
        ok = err_set(err, ERR_USAGE, row->field.name, "expected %s; found empty text",
                     row->argument);
    if (ok)
        return true;
    err->code = ERR_USAGE; /* the option is wrong, not a file */
    err_prefix(err, "--");
    return false;
}

/* The arguments that have not been read yet. */
struct arguments {
    int count;
    char **at;
};

static char *next(struct arguments *arguments)
{
    arguments->count--;
    return *arguments->at++;
}

/* Whether the word is a dash and letters: one option with its value, or several switches, as in
 * "-j4", "-qv". */
static bool is_cluster(const char *word)
{
    const char letter[] = { '-', word[1], '\0' };
    return word[1] != '-' && word[2] && find(letter);
}

static bool read_letters(unsigned command, const char *word, struct options *out, struct err *err)
{
    for (const char *at = word + 1; *at; at++) {
        const char letter[] = { '-', *at, '\0' };
        const struct option_row *row = find(letter);
        if (!row || !(row->commands & command))
            return refuse_option(command, letter, err);
        if (row->argument && !at[1])
            return err_set(err, ERR_USAGE, letter, "expected %s; nothing follows in \"%.60s\"",
                           row->argument, word);
        if (row->argument)
            return read_value(row, at + 1, out, err);
        if (!read_value(row, "yes", out, err))
            return false;
    }
    return true;
}

/* Reads an option and its value, as "--gpus" "8" or "--gpus=8". */
static bool read_option(unsigned command, struct arguments *arguments, struct options *out,
                        struct err *err)
{
    const char *word = next(arguments);
    if (is_cluster(word))
        return read_letters(command, word, out, err);
    const char *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
    char name[64];
    int length = equals ? (int)(equals - word) : (int)strlen(word);
    snprintf(name, sizeof name, "%.*s", length, word);
    const struct option_row *row = find(name);
    if (!row || !(row->commands & command))
        return refuse_option(command, name, err);
    if (!row->argument && equals)
        return err_set(err, ERR_USAGE, name, "takes no value; found \"%.60s\"", equals + 1);
    if (!row->argument)
        return read_value(row, "yes", out, err);
    if (equals)
        return read_value(row, equals + 1, out, err);
    if (arguments->count == 0)
        return err_set(err, ERR_USAGE, name, "expected %s; nothing follows", row->argument);
    if (strncmp(arguments->at[0], "--", 2) == 0)
        return err_set(err, ERR_USAGE, name, "expected %s; found the option %.60s", row->argument,
                       arguments->at[0]);
    return read_value(row, next(arguments), out, err);
}

static bool read_file_name(int max_files, const char *word, struct options *out, struct err *err)
{
    if (out->num_files < max_files) {
        out->files[out->num_files++] = word;
        return true;
    }
    if (max_files == 0)
        return err_set(err, ERR_USAGE, word, "expected an option, like --gpus 8");
    return err_set(err, ERR_USAGE, word, "expected at most %d file%s", max_files,
                   max_files > 1 ? "s" : "");
}

static bool is_stdout(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

bool options_answer_is_hidden(const struct options *options)
{
    return is_stdout(options->output) || is_stdout(options->trace) ||
           is_stdout(options->fit.predictions);
}

/* Rejects more than one output on standard output, so that other programs can read it. */
static bool check_stdout(const struct options *options, struct err *err)
{
    const struct {
        const char *name;
        bool prints;
    } all[] = {
        { "--output -", is_stdout(options->output) },
        { "--trace -", is_stdout(options->trace) },
        { "--predictions -", is_stdout(options->fit.predictions) },
        { "--json", options->json },
        { "--gantt", options->gantt },
        { "--schedule-text", options->schedule_text },
        { "--run", options->run },
    };
    const char *first = NULL;
    for (size_t i = 0; options_answer_is_hidden(options) && i < LENGTH(all); i++) {
        if (all[i].prints && first)
            return err_set(err, ERR_USAGE, all[i].name,
                           "prints on standard output, and %s does too; omit one of them", first);
        first = all[i].prints ? all[i].name : first;
    }
    return true;
}

bool options_parse(unsigned command, int max_files, int argc, char **argv, struct options *out,
                   struct err *err)
{
    *out = (struct options){ .search.space = -1,
                             .search.recompute_modules = -1,
                             .precision = -1,
                             .optimizer = -1,
                             .dispatcher = -1,
                             .fit.tolerance = -1,
                             .price = -1,
                             .search.robust = -1,
                             .training.lr_warmup = -1,
                             .training.lr_decay = -1,
                             .training.least_rate = -1,
                             .training.clip = -1,
                             .training.spike = -1 };
    struct arguments left = { argc - 1, argv + 1 };
    bool options_end = false;
    while (left.count > 0) {
        const char *word = left.at[0];
        bool ok = true;
        if (!options_end && strcmp(word, "--") == 0) {
            options_end = true;
            next(&left);
        } else if (!options_end && word[0] == '-' && word[1]) {
            ok = read_option(command, &left, out, err);
        } else {
            ok = read_file_name(max_files, next(&left), out, err);
        }
        if (!ok)
            return false;
    }
    return check_stdout(out, err);
}

void options_left_column(const struct option_row *row, char *text, size_t size)
{
    snprintf(text, size, "%s%s%s%s%s", row->name, row->argument ? " " : "",
             row->argument ? row->argument : "", row->alias ? ", " : "",
             row->alias ? row->alias : "");
}

/* Whether a list of commands like "search simulate]" names a command of `set`. */
static bool is_meant(const char *list, unsigned set)
{
    for (int i = 0; i < num_commands; i++) {
        size_t length = strlen(commands[i].name);
        for (const char *at = list; *at && *at != ']'; at += strcspn(at, " ]"), at += *at == ' ')
            if (strncmp(at, commands[i].name, length) == 0 && strchr(" ]", at[length]) &&
                (commands[i].bit & set))
                return true;
    }
    return false;
}

void options_add_doc(const struct option_row *row, unsigned command, struct text *out)
{
    const char *at = row->field.doc;
    size_t length = strcspn(at, "[");
    text_add(out, "%.*s", (int)length, at);
    for (at += length; *at == '['; at += length) {
        size_t names = strcspn(at, "]");
        const char *words = at + names + 1;
        length = names + 1 + strcspn(words, "[");
        if (!is_meant(at + 1, command ? command : ~0u))
            continue;
        text_add(out, "%s", out->length > 0 ? " " : "");
        for (size_t i = 1; command == 0 && i < names; i++)
            text_add(out, at[i] == ' ' ? ", " : "%c", at[i]);
        text_add(out, "%s%.*s", command == 0 ? ": " : "", (int)(length - names - 1), words);
    }
    for (int i = 0; row->field.names && row->field.names[i]; i++)
        text_add(out, command ? "%s%s" : "%s`%s`",
                 i == 0    ? " "
                 : command ? " | "
                           : ", ",
                 row->field.names[i]);
}

void options_document(FILE *to)
{
    fprintf(to, "| option | commands | meaning |\n|---|---|---|\n");
    for (int i = 0; i < num_option_rows; i++) {
        const struct option_row *row = &option_rows[i];
        char left[64], takers[120];
        struct text doc = { 0 };
        options_left_column(row, left, sizeof left);
        name_takers(row, takers, sizeof takers);
        options_add_doc(row, 0, &doc);
        fprintf(to, "| `%s` | %s | %s |\n", left, takers, text_get(&doc));
        text_release(&doc);
    }
}
