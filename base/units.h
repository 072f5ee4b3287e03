/* base/units.h - text with a unit <-> SI numbers; the only place that scales.
 *
 * Inside the program every quantity is in its base unit (bytes, seconds, bytes/s, FLOP/s, hertz,
 * watts, dollars/hour). Decimal and binary prefixes are told apart: GB is 1e9, GiB is 2^30. */
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

/* "450 GB/s" or "450GB/s" -> 4.5e11. Fails (ERR_INPUT, where = "") on a bare number, an unknown
 * unit (naming those of the quantity), NaN, infinity, or trailing text. */
bool units_parse(const char *text, enum quantity quantity, double *out, struct err *err);

/* Exact text that parses back to the same bits, in the unit that reads best: "80 GiB", "450 GB/s".
 */
void units_write(double value, enum quantity quantity, char *text, size_t size);

/* Text for people, three significant digits: "9.41 s", "59.0 GiB", "1.20 M", "334 k". A whole
 * number of the base unit below 1000 is shown as it is: "8", "512 B". */
void units_show(double value, enum quantity quantity, char *text, size_t size);
void units_show_count(double value, char *text, size_t size);
/* How long a training takes, three significant digits: "864 s", "11.7 days", "83.0 thousand years",
 * "never". */
void units_show_duration(double seconds, char *text, size_t size);

/* "GB/s, GiB/s, Gb/s ..." for messages. */
const char *units_names(enum quantity quantity);
/* A value as one would write it, "80 GiB", for messages. */
const char *units_example(enum quantity quantity);

#endif
