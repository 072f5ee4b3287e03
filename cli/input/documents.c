#include "cli/input/documents.h"

#include "base/arena.h"
#include "base/field.h"
#include "base/file.h"
#include "base/length.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TOKENS = 100000000, MOST_DOCUMENTS = 100000000 };

/* --- mean=M,cv=C -------------------------------------------------------------------------- */

struct spread {
    double mean;
    double cv;
};

static const struct field spread_fields[] = {
    { .name = "mean",
      .kind = FIELD_NUMBER,
      .offset = offsetof(struct spread, mean),
      .min = 1,
      .max = MOST_TOKENS,
      .doc = "Mean length, tokens." },
    { .name = "cv",
      .kind = FIELD_NUMBER,
      .offset = offsetof(struct spread, cv),
      .min = 0,
      .max = 10,
      .fallback = "0",
      .doc = "Standard deviation over the mean." },
};

static bool read_word(char *word, struct spread *out, struct err *err)
{
    char *equals = strchr(word, '='), *last = word + strlen(word) - 1;
    bool takes_thousands = strncmp(word, "mean=", 5) == 0 && (*last == 'k' || *last == 'K');
    if (takes_thousands) /* 8k is 8192, as for --seq */
        *last = '\0';
    if (equals)
        *equals = '\0';
    const struct field *field = fields_find(spread_fields, LENGTH(spread_fields), word);
    if (!equals || !field)
        return err_set(err, ERR_USAGE, "--documents",
                       "expected a file, or mean=TOKENS,cv=DEVIATION; found \"%.60s\"", word);
    if (field_parse(field, equals + 1, out, err)) {
        out->mean *= takes_thousands ? 1024 : 1;
        return true;
    }
    err->code = ERR_USAGE;
    err_prefix(err, *err->where ? ": " : "");
    err_prefix(err, "--documents");
    return false;
}

static bool read_spread(const char *text, int seq, struct documents *out, struct err *err)
{
    struct spread spread = { 0 };
    char words[128], *rest = NULL;
    if (strlen(text) >= sizeof words)
        return err_set(err, ERR_USAGE, "--documents", "expected mean=TOKENS,cv=DEVIATION");
    snprintf(words, sizeof words, "%s", text);
    for (char *word = strtok_r(words, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
        if (!read_word(word, &spread, err))
            return false;
    if (spread.mean < 1 || spread.mean > seq)
        return err_set(err, ERR_USAGE, "--documents",
                       "expected a mean from 1 to %d tokens, the sequence length; found %g", seq,
                       spread.mean);
    *out = documents_of_spread(spread.mean, spread.cv);
    return true;
}

/* --- a file ------------------------------------------------------------------------------- */

struct lengths {
    double *at, *times;
    size_t count, room;
};

static void add_length(struct lengths *lengths, double length, double times)
{
    if (lengths->count == lengths->room) {
        lengths->room = 2 * lengths->room + 64;
        lengths->at = arena_grow(lengths->at, lengths->room * sizeof *lengths->at);
        lengths->times = arena_grow(lengths->times, lengths->room * sizeof *lengths->times);
    }
    lengths->at[lengths->count] = length;
    lengths->times[lengths->count++] = times;
}

/* Reads a whole number >= 1 and moves past it. */
static bool take_number(const char **at, double most, double *out)
{
    char *end;
    *out = strtod(*at, &end);
    bool ok = end != *at && *out >= 1 && *out <= most && *out == floor(*out) &&
              (*end == '\0' || isspace((unsigned char)*end));
    *at = end;
    return ok;
}

static const char *skip_blanks(const char *at)
{
    while (isspace((unsigned char)*at))
        at++;
    return at;
}

static bool read_line(const char *path, int number, char *line, struct lengths *out,
                      struct err *err)
{
    char where[PATH_MAX + 16];
    double length, times = 1;
    line[strcspn(line, "#")] = '\0';
    const char *at = skip_blanks(line);
    if (!*at)
        return true;
    bool ok = take_number(&at, MOST_TOKENS, &length);
    at = skip_blanks(at);
    if (ok && *at)
        ok = take_number(&at, MOST_DOCUMENTS, &times) && !*skip_blanks(at);
    if (ok) {
        add_length(out, length, times);
        return true;
    }
    snprintf(where, sizeof where, "%s:%d", path, number);
    return err_set(err, ERR_INPUT, where,
                   "expected a length from 1 to %d tokens, then optionally the number of such "
                   "documents; found \"%.40s\"",
                   MOST_TOKENS, skip_blanks(line));
}

static bool read_file(const char *path, int seq, struct documents *out, struct err *err)
{
    struct lengths lengths = { 0 };
    char *text = file_read(path, FILE_MAX_BYTES, NULL, err), *rest = text;
    int number = 0;
    bool ok = text != NULL;
    while (ok && *rest) {
        char *line = rest;
        size_t length = strcspn(rest, "\n");
        rest += length + (rest[length] == '\n');
        line[length] = '\0';
        ok = read_line(path, ++number, line, &lengths, err);
    }
    if (ok && lengths.count == 0)
        ok = err_set(err, ERR_INPUT, path, "expected a length in tokens on each line; found none");
    if (ok)
        *out = documents_of_lengths(lengths.at, lengths.times, lengths.count, seq);
    free(lengths.at);
    free(lengths.times);
    free(text);
    return ok;
}

bool documents_read(const char *text, int seq, struct documents *out, struct err *err)
{
    return strchr(text, '=') && !file_exists(text) ? read_spread(text, seq, out, err)
                                                   : read_file(text, seq, out, err);
}
