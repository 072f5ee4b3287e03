/* calibration/rows/csv.h - comma-separated text by RFC 4180: quoted fields, doubled quotes,
 * newlines within quotes. */
#ifndef CALIBRATION_ROWS_CSV_H
#define CALIBRATION_ROWS_CSV_H

#include "base/arena.h"
#include "base/err.h"

enum { CSV_MAX_COLUMNS = 1024 };

/* Fields are unquoted in place, as removing quotes never makes a field longer. */
struct csv {
    const char *path;
    char *at;
    const char *end; /* the NUL at the end of the text */
    int line;        /* line number of `at` */
};

/* The fields of one record; a quoted field may span several lines. */
struct csv_record {
    int line; /* line where the record starts */
    int count;
    char *field[CSV_MAX_COLUMNS];
};

/* Reads a file into the arena. Text that is not UTF-8 is ERR_INPUT with FILE:LINE. */
bool csv_open(const char *path, struct arena *arena, struct csv *out, struct err *err);

/* Reads the next record that is not empty; false at the end or on an error. */
bool csv_read(struct csv *in, struct csv_record *out, struct err *err);

/* Reads the first record, which names the columns; an error if the file is empty. */
bool csv_read_header(struct csv *in, struct csv_record *out, struct err *err);

/* Checks that a record has as many fields as the header. */
bool csv_check_width(const struct csv *in, const struct csv_record *header,
                     const struct csv_record *record, struct err *err);

/* Sets ERR_INPUT with FILE:LINE: column in `where` and returns false. */
bool csv_refuse(const char *path, int line, const char *column, struct err *err, const char *what);

/* Reads a finite decimal number of 0 or more, without other characters around it. */
bool csv_number(const char *text, double *out);

#endif
