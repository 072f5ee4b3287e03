/* base/units.h - converts text with a unit to SI numbers and back. No other file converts units.
 *
 * Inside the program every quantity is in its base unit (bytes, seconds, bytes/s, FLOP/s, hertz,
 * watts, dollars/hour). Decimal and binary prefixes differ: GB is 1e9, GiB is 2^30. */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include "base/err.h"

#include <stddef.h>

enum quantity {
    QUANTITY_BYTES,       /* B kB MB GB TB PB, KiB MiB GiB TiB PiB */
    QUANTITY_SECONDS,     /* ns us ms s min h d w */
    QUANTITY_BYTES_PER_S, /* B/s .. TB/s, MiB/s GiB/s, Mb/s Gb/s Tb/s (bits, as networks are sold)
                           */
    QUANTITY_FLOPS_PER_S, /* FLOP/s, MFLOP/s .. EFLOP/s */
    QUANTITY_HERTZ,       /* Hz kHz MHz GHz */
    QUANTITY_WATTS,       /* W kW MW */
    QUANTITY_DOLLARS_PER_HOUR, /* $/h */
    QUANTITY_TOKENS,           /* tok ktok Mtok Btok Gtok Ttok */
};

enum { DAY_S = 86400 };

/* "450 GB/s" or "450GB/s" -> 4.5e11. Fails (ERR_INPUT, where = "") on a number without unit, an
 * unknown unit (the message lists the known ones), NaN, infinity, or trailing text. */
bool units_parse(const char *text, enum quantity quantity, double *out, struct err *err);

/* Writes text that parses back to the same bits, in the most readable unit: "80 GiB", "450 GB/s".
 */
void units_write(double value, enum quantity quantity, char *text, size_t size);

/* Writes readable text with three significant digits: "9.41 s", "59.0 GiB", "1.20 M", "334 k". A
 * whole number of the base unit below 1000 is shown exactly: "8", "512 B". */
void units_show(double value, enum quantity quantity, char *text, size_t size);
void units_show_count(double value, char *text, size_t size);
/* Writes the duration of a training with three significant digits: "864 s", "11.7 days", "83.0
 * thousand years", "never". */
void units_show_duration(double seconds, char *text, size_t size);

/* The units of a quantity, for messages: "GB/s, GiB/s, Gb/s ...". */
const char *units_names(enum quantity quantity);
/* An example of a value, for messages: "80 GiB". */
const char *units_example(enum quantity quantity);

#endif
