/* Reads and writes numbers with units, such as "2.1 us". units_write writes text that reads back as
 * exactly the same value; units_show rounds, for people. */
#include "base/units.h"

#include "base/length.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ = 0, WRITE = 1, SHOW = 2, BOTH = WRITE | SHOW };

/* value = number x factor x 10^exponent. The power of ten is separate, so that "2.1 us" is read as
 * the decimal 2.1e-6, which is rounded once; multiplying 2.1 by 1e-6 would round three times. */
struct unit {
    const char *name;
    double factor;
    int exponent;
    int use;
};

/* The base unit comes first. Every unit can be read. READ: never written or shown (weeks, bits per
 * second, Gtok). WRITE: units_write may also use it. SHOW: units_show may also use it. BOTH: both
 * may. If two units make equally readable text, units_write uses the earlier one. units_show does
 * not use minutes, so that a column of step times stays in seconds. */
// clang-format off
static const struct {
    const char *example;
    const char *names;
    struct unit units[12];
} quantities[] = {
    [QUANTITY_BYTES] = { "80 GiB", "B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB, PiB", {
        { "B",            1,  0, BOTH },
        { "kB",           1,  3, WRITE },
        { "MB",           1,  6, WRITE },
        { "GB",           1,  9, WRITE },
        { "TB",           1, 12, WRITE },
        { "PB",           1, 15, WRITE },
        { "KiB",     0x1p10,  0, BOTH },
        { "MiB",     0x1p20,  0, BOTH },
        { "GiB",     0x1p30,  0, BOTH },
        { "TiB",     0x1p40,  0, BOTH },
        { "PiB",     0x1p50,  0, BOTH },
    } },
    [QUANTITY_SECONDS] = { "2 us", "ns, us, ms, s, min, h, d, w", {
        { "s",            1,  0, BOTH },
        { "ms",           1, -3, BOTH },
        { "us",           1, -6, BOTH },
        { "ns",           1, -9, BOTH },
        { "min",         60,  0, WRITE },
        { "h",         3600,  0, BOTH },
        { "d",        DAY_S,  0, BOTH },
        { "w",       604800,  0, READ },
    } },
    [QUANTITY_BYTES_PER_S] = {
        "450 GB/s", "B/s, kB/s, MB/s, GB/s, TB/s, MiB/s, GiB/s, Mb/s, Gb/s, Tb/s", {
        { "B/s",          1,  0, BOTH },
        { "kB/s",         1,  3, BOTH },
        { "MB/s",         1,  6, BOTH },
        { "GB/s",         1,  9, BOTH },
        { "TB/s",         1, 12, BOTH },
        { "MiB/s",   0x1p20,  0, WRITE },
        { "GiB/s",   0x1p30,  0, WRITE },
        { "Mb/s",     0.125,  6, READ },
        { "Gb/s",     0.125,  9, READ },
        { "Tb/s",     0.125, 12, READ },
    } },
    [QUANTITY_FLOPS_PER_S] = {
        "989.4 TFLOP/s", "FLOP/s, MFLOP/s, GFLOP/s, TFLOP/s, PFLOP/s, EFLOP/s", {
        { "FLOP/s",       1,  0, BOTH },
        { "MFLOP/s",      1,  6, BOTH },
        { "GFLOP/s",      1,  9, BOTH },
        { "TFLOP/s",      1, 12, BOTH },
        { "PFLOP/s",      1, 15, BOTH },
        { "EFLOP/s",      1, 18, BOTH },
    } },
    [QUANTITY_HERTZ] = { "1.98 GHz", "Hz, kHz, MHz, GHz", {
        { "Hz",           1,  0, BOTH },
        { "kHz",          1,  3, BOTH },
        { "MHz",          1,  6, BOTH },
        { "GHz",          1,  9, BOTH },
    } },
    [QUANTITY_WATTS] = { "700 W", "W, kW, MW", {
        { "W",            1,  0, BOTH },
        { "kW",           1,  3, BOTH },
        { "MW",           1,  6, BOTH },
    } },
    [QUANTITY_DOLLARS_PER_HOUR] = { "2.5 $/h", "$/h", {
        { "$/h",          1,  0, BOTH },
    } },
    [QUANTITY_TOKENS] = { "300 Btok", "tok, ktok, Mtok, Btok, Gtok, Ttok", {
        { "tok",          1,  0, BOTH },
        { "ktok",         1,  3, BOTH },
        { "Mtok",         1,  6, BOTH },
        { "Btok",         1,  9, BOTH },
        { "Ttok",         1, 12, BOTH },
        { "Gtok",         1,  9, READ },
    } },
};

static const struct unit count_units[] = {
    { "",             1,  0, SHOW },
    { "k",            1,  3, SHOW },
    { "M",            1,  6, SHOW },
    { "B",            1,  9, SHOW },
    { "T",            1, 12, SHOW },
    { NULL, 1, 0, READ },
};
// clang-format on

const char *units_names(enum quantity quantity)
{
    return quantities[quantity].names;
}

const char *units_example(enum quantity quantity)
{
    return quantities[quantity].example;
}

static const struct unit *find(enum quantity quantity, const char *name)
{
    for (const struct unit *unit = quantities[quantity].units; unit->name; unit++)
        if (strcmp(unit->name, name) == 0)
            return unit;
    return NULL;
}

/* A decimal number at the start of a text: its first `mantissa_length` characters, times
 * 10^exponent. `end` is the first character after it. */
struct decimal {
    int mantissa_length;
    int exponent;
    const char *end;
};

enum { LONGEST_MANTISSA = 64, LARGEST_EXPONENT = 9999 };

/* Reads an exponent like "e5" or "E-3" at `text`. For other text, such as the unit in "5 EB", it
 * returns 0 and does not advance. */
static int scan_exponent(const char *text, const char **end)
{
    *end = text;
    if (*text != 'e' && *text != 'E')
        return 0;
    const char *digits = text + 1 + (text[1] == '-' || text[1] == '+');
    if (*digits < '0' || *digits > '9')
        return 0;
    char *after;
    long exponent = strtol(text + 1, &after, 10);
    *end = after;
    if (exponent > LARGEST_EXPONENT)
        return LARGEST_EXPONENT;
    return exponent < -LARGEST_EXPONENT ? -LARGEST_EXPONENT : (int)exponent;
}

/* Reads a decimal number. Unlike strtod it accepts no hexadecimal, "inf" or "nan". */
static bool scan_decimal(const char *text, struct decimal *out)
{
    static const char digits[] = "0123456789";
    const char *at = text + (*text == '-');
    size_t whole = strspn(at, digits);
    at += whole;
    size_t fraction = *at == '.' ? strspn(at + 1, digits) : 0;
    at += *at == '.' ? 1 + fraction : 0;
    if (whole + fraction == 0 || at - text > LONGEST_MANTISSA)
        return false;
    out->mantissa_length = (int)(at - text);
    out->exponent = scan_exponent(at, &out->end);
    return true;
}

static double value_of(const char *mantissa, const struct decimal *number, const struct unit *unit)
{
    char text[LONGEST_MANTISSA + 16];
    snprintf(text, sizeof text, "%.*se%d", number->mantissa_length, mantissa,
             number->exponent + unit->exponent);
    return strtod(text, NULL) * unit->factor;
}

bool units_parse(const char *text, enum quantity quantity, double *out, struct err *err)
{
    const char *start = text + strspn(text, " ");
    struct decimal number;
    if (!scan_decimal(start, &number))
        return err_set(err, ERR_INPUT, "",
                       "expected a quantity with its unit, like \"%s\"; found \"%.60s\"",
                       units_example(quantity), text);
    const char *name = number.end + strspn(number.end, " ");
    if (!*name)
        return err_set(
            err, ERR_INPUT, "",
            "expected a quantity with its unit, like \"%s\"; found the bare number %.60s",
            units_example(quantity), start);
    const struct unit *unit = find(quantity, name);
    if (!unit)
        return err_set(err, ERR_INPUT, "", "expected one of the units %s; found \"%.60s\"",
                       units_names(quantity), name);
    double value = value_of(start, &number, unit);
    if (!isfinite(value))
        return err_set(err, ERR_INPUT, "", "expected a finite quantity; found \"%.60s\"", text);
    *out = value;
    return true;
}

/* The fewest digits that read back as `value`: "d.ddd" in mantissa, and the power of ten. */
static int shortest(double value, char *mantissa, size_t size)
{
    for (int precision = 0; precision <= 16; precision++) {
        snprintf(mantissa, size, "%.*e", precision, value);
        if (strtod(mantissa, NULL) == value)
            break;
    }
    char *e = strchr(mantissa, 'e');
    *e = '\0';
    return (int)strtol(e + 1, NULL, 10);
}

/* Moves the decimal point in the text, which avoids rounding. For example "3.35" with exponent 2
 * gives "335". */
static void place_point(const char *mantissa, int exponent, char *number, size_t size)
{
    const char *sign = *mantissa == '-' ? "-" : "";
    const char *first = mantissa + strlen(sign);
    const char *rest = first[1] == '.' ? first + 2 : "";
    int num_rest = (int)strlen(rest);
    if (exponent < -3 || exponent > 3)
        snprintf(number, size, "%se%d", mantissa, exponent);
    else if (exponent < 0)
        snprintf(number, size, "%s0.%.*s%c%s", sign, -exponent - 1, "00", *first, rest);
    else if (num_rest <= exponent)
        snprintf(number, size, "%s%c%s%.*s", sign, *first, rest, exponent - num_rest, "000");
    else
        snprintf(number, size, "%s%c%.*s.%s", sign, *first, exponent, rest, rest + exponent);
}

static bool reads_back(const char *text, enum quantity quantity, double value)
{
    struct err err = { 0 };
    double again = 0;
    return units_parse(text, quantity, &again, &err) && again == value &&
           signbit(again) == signbit(value);
}

/* Rates how hard a number is to read. Lower is better. From 1 to below 1024 the result is the
 * number's length; outside this range, the length plus the distance from the range in powers of
 * two. */
static int awkwardness(const char *number)
{
    double magnitude = fabs(strtod(number, NULL));
    bool is_plain = magnitude >= 1 && magnitude < 1024;
    int power_of_two;
    frexp(magnitude, &power_of_two);
    return (int)strlen(number) + (is_plain ? 0 : 100 + abs(power_of_two));
}

void units_write(double value, enum quantity quantity, char *text, size_t size)
{
    assert(isfinite(value));
    int least = INT_MAX;
    for (const struct unit *unit = quantities[quantity].units; unit->name; unit++) {
        char mantissa[32], number[48], candidate[64];
        if (!(unit->use & WRITE))
            continue;
        int exponent = shortest(value / unit->factor, mantissa, sizeof mantissa);
        place_point(mantissa, exponent - unit->exponent, number, sizeof number);
        snprintf(candidate, sizeof candidate, "%s %s", number, unit->name);
        if (awkwardness(number) >= least || !reads_back(candidate, quantity, value))
            continue;
        least = awkwardness(number);
        snprintf(text, size, "%s", candidate);
    }
    assert(least < INT_MAX); /* the base unit always reads back exactly, so a unit was found */
}

static double scale_of(const struct unit *unit)
{
    return pow(10, unit->exponent) * unit->factor;
}

/* The largest unit in which the value is at least 1 after rounding (0.9995 rounds to 1.00); the
 * smallest unit if there is none. */
static const struct unit *unit_to_show(const struct unit *units, double value)
{
    const struct unit *best = NULL;
    bool best_fits = false;
    for (const struct unit *unit = units; unit->name; unit++) {
        if (!(unit->use & SHOW))
            continue;
        bool fits = fabs(value) / scale_of(unit) >= 0.9995;
        bool is_larger = best && scale_of(unit) > scale_of(best);
        if (!best || (fits && !best_fits) || (fits == best_fits && is_larger == fits)) {
            best = unit;
            best_fits = fits;
        }
    }
    return best;
}

static void show(const struct unit *units, double value, char *text, size_t size)
{
    const struct unit *unit = value == 0 ? units : unit_to_show(units, value);
    double number = value / scale_of(unit);
    double magnitude = fabs(number);
    const char *gap = *unit->name ? " " : "";
    if (unit == units && magnitude < 1000 && number == floor(number))
        snprintf(text, size, "%.0f%s%s", number, gap, unit->name);
    else if (magnitude < 0.9995)
        snprintf(text, size, "%.3g%s%s", number, gap, unit->name);
    else
        snprintf(text, size, "%.*f%s%s",
                 magnitude < 9.995   ? 2
                 : magnitude < 99.95 ? 1
                                     : 0,
                 number, gap, unit->name);
}

void units_show(double value, enum quantity quantity, char *text, size_t size)
{
    show(quantities[quantity].units, value, text, size);
}

void units_show_count(double value, char *text, size_t size)
{
    show(count_units, value, text, size);
}

void units_show_duration(double seconds, char *text, size_t size)
{
    static const char *const years[] = { "", "thousand ", "million ", "billion ", "trillion " };
    const double year_s = 365.25 * DAY_S, shown_as_next = 999.5;
    double value = seconds / year_s;
    int scale = 0;
    if (seconds < DAY_S / 100.0) {
        units_show(seconds, QUANTITY_SECONDS, text, size);
    } else if (seconds < shown_as_next * DAY_S) {
        snprintf(text, size, "%.3g days", seconds / DAY_S);
    } else if (isinf(seconds)) {
        snprintf(text, size, "never");
    } else {
        for (; value >= shown_as_next && scale < LENGTH(years) - 1; scale++)
            value /= 1000;
        if (value >= shown_as_next)
            snprintf(text, size, "over 1000 %syears", years[scale]);
        else
            snprintf(text, size, "%.3g %syears", value, years[scale]);
    }
}
