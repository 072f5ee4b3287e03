/* calibration/rows/csv.h - comma-separated text by RFC 4180: quoted fields, doubled quotes,
 * newlines within quotes. */
#ifndef CALIBRATION_ROWS_CSV_H
#define CALIBRATION_ROWS_CSV_H

#include "base/arena.h"
#include "base/err.h"

enum { CSV_MAX_COLUMNS = 1024 };

/* Fields are cut out of the text in place: a field never grows when its quotes go. */
struct csv {
    const char *path;
    char *at;
    const char *end; /* where the text's NUL is */
    int line;        /* of `at` */
};

/* The fields of one line; those of a quoted field may span several. */
struct csv_record {
    int line; /* where it starts */
    int count;
    char *field[CSV_MAX_COLUMNS];
};

/* Text that is not UTF-8 is ERR_INPUT with FILE:LINE. The text lives in the arena. */
bool csv_open(const char *path, struct arena *arena, struct csv *out, struct err *err);

/* The next line that is not empty; false at the end, or on an error. */
bool csv_read(struct csv *in, struct csv_record *out, struct err *err);

/* The first line, which names the columns; an empty file has none. */
bool csv_read_header(struct csv *in, struct csv_record *out, struct err *err);

/* A line with as many fields as the header. */
bool csv_check_width(const struct csv *in, const struct csv_record *header,
                     const struct csv_record *record, struct err *err);

/* ERR_INPUT, where = FILE:LINE: column. */
bool csv_refuse(const char *path, int line, const char *column, struct err *err, const char *what);

/* A decimal number, finite, 0 or more, with nothing around it. */
bool csv_number(const char *text, double *out);

#endif
