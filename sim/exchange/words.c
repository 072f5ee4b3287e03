/* Reads and writes the text form of an exchange with the table of its parameters. */
#include "sim/exchange/exchange.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORD = 64, MAX_METHODS = 64 };

/* Copies the text up to the next colon or the end, and moves past it; false after the last. */
static bool next_word(const char **rest, char word[MAX_WORD])
{
    if (!*rest)
        return false;
    size_t length = strcspn(*rest, ":");
    snprintf(word, MAX_WORD, "%.*s", (int)(length < MAX_WORD ? length : MAX_WORD - 1), *rest);
    *rest = (*rest)[length] == ':' ? *rest + length + 1 : NULL;
    return true;
}

static void *member_of(const struct exchange_parameter *parameter, struct exchange *exchange)
{
    return (char *)exchange + parameter->member;
}

static bool read_count(const struct exchange_parameter *parameter, const char *value,
                       struct exchange *out, struct err *err)
{
    char *end;
    long count = strtol(value, &end, 10);
    if (isdigit((unsigned char)*value) && *end == '\0' && (double)count >= parameter->min &&
        (double)count <= parameter->max) {
        *(int *)member_of(parameter, out) = (int)count;
        return true;
    }
    return err_set(err, ERR_USAGE, "", "expected a whole number %s from %.0f to %.0f, found \"%s\"",
                   parameter->name, parameter->min, parameter->max, value);
}

/* The number is rounded to nine digits, so that reading the written text gives the same number. */
static bool read_share(const struct exchange_parameter *parameter, const char *value,
                       struct exchange *out, struct err *err)
{
    char *end, rounded[32];
    double share = strtod(value, &end);
    bool is_number = isdigit((unsigned char)*value) && *end == '\0';
    if (!is_number || !(share >= 1e-9 && share <= 1))
        return err_set(err, ERR_USAGE, "",
                       "expected a share %s above 0 and up to 1, such as 0.01, found \"%s\"",
                       parameter->name, value);
    snprintf(rounded, sizeof rounded, "%.9g", share);
    *(double *)member_of(parameter, out) = strtod(rounded, NULL);
    return true;
}

static size_t num_words(const char *const *words)
{
    size_t n = 0;
    while (words[n])
        n++;
    return n;
}

/* Index of `word`; -1 with an error that names the nearest of `words`, or all of them. */
static int find_word(const char *word, const char *const *words, const char *what, struct err *err)
{
    size_t n = num_words(words);
    for (size_t i = 0; i < n; i++)
        if (strcmp(words[i], word) == 0)
            return (int)i;
    const char *nearest = text_nearest(word, words, n);
    if (nearest) {
        err_set(err, ERR_USAGE, "", "unknown %s \"%s\"; did you mean \"%s\"?", what, word, nearest);
        return -1;
    }
    char all[256] = "";
    for (size_t i = 0, length = 0; i < n && length < sizeof all; i++)
        length +=
            (size_t)snprintf(all + length, sizeof all - length, "%s%s", i ? ", " : "", words[i]);
    err_set(err, ERR_USAGE, "", "unknown %s \"%s\"; expected one of %s", what, word, all);
    return -1;
}

static bool read_value(const struct exchange_parameter *parameter, const char *value,
                       struct exchange *out, struct err *err)
{
    switch (parameter->kind) {
    case PARAMETER_COUNT:
        return read_count(parameter, value, out, err);
    case PARAMETER_SHARE:
        return read_share(parameter, value, out, err);
    case PARAMETER_WORD: {
        int index = find_word(value, parameter->words, parameter->name, err);
        *(int *)member_of(parameter, out) = index;
        return index >= 0;
    }
    }
    return false;
}

static bool is_parameter(const struct exchange_method *method, int i)
{
    return i < MAX_EXCHANGE_PARAMETERS && method->parameters[i].name;
}

/* Reads an optional parameter such as "graph=ring". */
static bool read_optional(const struct exchange_method *method, char *word, unsigned *seen,
                          struct exchange *out, struct err *err)
{
    const char *names[MAX_EXCHANGE_PARAMETERS + 1] = { NULL };
    int index_of[MAX_EXCHANGE_PARAMETERS] = { 0 };
    int count = 0;
    for (int i = 0; is_parameter(method, i); i++)
        if (method->parameters[i].is_optional && !method->parameters[i].is_bare) {
            index_of[count] = i;
            names[count++] = method->parameters[i].name;
        }
    char *equals = strchr(word, '=');
    if (count == 0 || !equals)
        return err_set(err, ERR_USAGE, "", "expected %s%s, found \"%s\" after it", method->form,
                       count ? " and then NAME=VALUE" : "", word);
    *equals = '\0';
    int found = find_word(word, names, "parameter", err);
    if (found < 0)
        return false;
    if (*seen >> found & 1)
        return err_set(err, ERR_USAGE, "", "%s is given twice", word);
    *seen |= 1u << found;
    return read_value(&method->parameters[index_of[found]], equals + 1, out, err);
}

/* The optional parameter that is written without its name; NULL if there is none. */
static const struct exchange_parameter *bare_parameter(const struct exchange_method *method)
{
    for (int i = 0; is_parameter(method, i); i++)
        if (method->parameters[i].is_bare)
            return &method->parameters[i];
    return NULL;
}

static bool read_parameters(const struct exchange_method *method, const char *rest,
                            struct exchange *out, struct err *err)
{
    char word[MAX_WORD];
    for (int i = 0; is_parameter(method, i); i++) {
        const struct exchange_parameter *parameter = &method->parameters[i];
        if (parameter->is_optional)
            *(int *)member_of(parameter, out) = parameter->fallback;
        else if (!next_word(&rest, word))
            return err_set(err, ERR_USAGE, "", "expected %s: %s is missing", method->form,
                           parameter->name);
        else if (!read_value(parameter, word, out, err))
            return false;
    }
    const struct exchange_parameter *bare = bare_parameter(method);
    if (bare && rest && next_word(&rest, word) && !read_value(bare, word, out, err))
        return false;
    unsigned seen = 0;
    while (next_word(&rest, word))
        if (!read_optional(method, word, &seen, out, err))
            return false;
    return true;
}

bool exchange_read(const char *text, struct exchange *out, struct err *err)
{
    const char *names[MAX_METHODS] = { NULL };
    for (int i = 0; i < num_exchange_methods && i < MAX_METHODS - 1; i++)
        names[i] = exchange_methods[i].name;
    char word[MAX_WORD];
    const char *rest = text;
    next_word(&rest, word);
    int method = find_word(word, names, "exchange", err);
    if (method < 0)
        return false;
    *out = (struct exchange){ .method = method };
    return read_parameters(&exchange_methods[method], rest, out, err);
}

static void write_value(const struct exchange_parameter *parameter, const struct exchange *exchange,
                        struct text *out)
{
    const char *at = (const char *)exchange + parameter->member;
    int count = 0;
    double share = 0;
    switch (parameter->kind) {
    case PARAMETER_COUNT:
        memcpy(&count, at, sizeof count);
        text_add(out, "%d", count);
        return;
    case PARAMETER_SHARE:
        memcpy(&share, at, sizeof share);
        text_add(out, "%.9g", share);
        return;
    case PARAMETER_WORD:
        memcpy(&count, at, sizeof count);
        text_add(out, "%s", parameter->words[count]);
        return;
    }
}

static bool is_fallback(const struct exchange_parameter *parameter, const struct exchange *exchange)
{
    int value;
    memcpy(&value, (const char *)exchange + parameter->member, sizeof value);
    return value == parameter->fallback;
}

void exchange_write(const struct exchange *exchange, struct text *out)
{
    const struct exchange_method *method = exchange_method_of(exchange);
    text_add(out, "%s", method->name);
    for (int i = 0; is_parameter(method, i); i++) {
        const struct exchange_parameter *parameter = &method->parameters[i];
        if (parameter->is_optional && is_fallback(parameter, exchange))
            continue;
        text_add(out, ":");
        if (parameter->is_optional && !parameter->is_bare)
            text_add(out, "%s=", parameter->name);
        write_value(parameter, exchange, out);
    }
}
