#include "tests/cli/arithmetic.h"

#include "base/length.h"
#include "base/units.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double sum(const char **at);

static bool take(const char **at, const char *word)
{
    *at += strspn(*at, " ");
    size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0)
        return false;
    *at += length;
    return true;
}

/* Reads a number with an optional unit of bytes, seconds or a rate. */
static double number(const char **at)
{
    static const enum quantity quantities[] = { QUANTITY_BYTES, QUANTITY_SECONDS,
                                                QUANTITY_BYTES_PER_S, QUANTITY_FLOPS_PER_S };
    char *end;
    double value = strtod(*at, &end);
    if (end == *at)
        return (double)NAN;
    char text[64];
    size_t unit =
        *end == ' ' ? strspn(end + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/") : 0;
    snprintf(text, sizeof text, "%.*s", (int)((size_t)(end - *at) + 1 + unit), *at);
    *at = end;
    for (size_t i = 0; unit > 0 && i < LENGTH(quantities); i++) {
        struct err err = { 0 };
        if (units_parse(text, quantities[i], &value, &err)) {
            *at = end + 1 + unit;
            break;
        }
    }
    return value;
}

static double bracketed(const char **at)
{
    double value = sum(at);
    return take(at, ")") ? value : (double)NAN;
}

static double atom(const char **at)
{
    if (take(at, "sqrt("))
        return sqrt(bracketed(at));
    if (take(at, "exp("))
        return exp(bracketed(at));
    if (take(at, "("))
        return bracketed(at);
    return number(at);
}

static double power(const char **at)
{
    double base = atom(at);
    return take(at, "^") ? pow(base, atom(at)) : base;
}

static double product(const char **at)
{
    double value = power(at);
    for (;;) {
        if (take(at, "x "))
            value *= power(at);
        else if (take(at, "/ "))
            value /= power(at);
        else
            return value;
    }
}

static double sum(const char **at)
{
    double value = product(at);
    for (;;) {
        if (take(at, "+ "))
            value += product(at);
        else if (take(at, "- "))
            value -= product(at);
        else
            return value;
    }
}

double arithmetic(const char *text)
{
    double value = sum(&text);
    text += strspn(text, " ");
    return *text ? (double)NAN : value;
}
