/* Reads comma-separated text. */
#include "calibration/rows/csv.h"

#include "base/file.h"
#include "base/plain.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 256 << 20 };

bool csv_refuse(const char *path, int line, const char *column, struct err *err, const char *what)
{
    char where[sizeof err->where];
    snprintf(where, sizeof where, "%s:%d%s%s", file_shown(path), line, *column ? ": " : "", column);
    return err_set(err, ERR_INPUT, where, "%s", what);
}

/* Reads a quoted field up to the closing quote; doubled quotes become one. */
static bool cut_quoted(struct csv *in, char **field, struct err *err)
{
    int opened = in->line;
    char *to = ++in->at;
    *field = to;
    for (;;) {
        if (in->at == in->end)
            return csv_refuse(in->path, opened, "", err, "this quote is not closed");
        if (*in->at == '"' && *++in->at != '"')
            break;
        in->line += *in->at == '\n';
        *to++ = *in->at++;
    }
    if (*in->at != ',' && *in->at != '\n' && *in->at != '\r' && in->at != in->end)
        return csv_refuse(in->path, in->line, "", err,
                          "expected a comma or the end of the line after the closing quote");
    *to = '\0';
    return true;
}

static void cut_plain(struct csv *in, char **field)
{
    *field = in->at;
    while (in->at < in->end && *in->at != ',' && *in->at != '\n' && *in->at != '\r')
        in->at++;
}

/* Replaces the field's separator by NUL and skips it; true when another field follows. */
static bool end_field(struct csv *in)
{
    char separator = *in->at;
    if (in->at == in->end)
        return false;
    *in->at++ = '\0';
    if (separator == ',')
        return true;
    if (separator == '\r' && *in->at == '\n')
        in->at++;
    in->line++;
    return false;
}

bool csv_read(struct csv *in, struct csv_record *out, struct err *err)
{
    while (*in->at == '\n' || *in->at == '\r') {
        in->line += *in->at == '\n';
        in->at++;
    }
    if (in->at == in->end)
        return false;
    out->line = in->line;
    out->count = 0;
    do {
        if (out->count == CSV_MAX_COLUMNS)
            return csv_refuse(in->path, in->line, "", err, "more than 1024 fields");
        char **field = &out->field[out->count++];
        if (*in->at != '"')
            cut_plain(in, field);
        else if (!cut_quoted(in, field, err))
            return false;
    } while (end_field(in));
    return true;
}

/* --- text ---------------------------------------------------------------------------------- */

/* Checks that the text is UTF-8 and has no control characters except newlines and tabs, as parts of
 * it are printed on terminals and written as JSON. */
static bool check_text(const char *path, const char *text, size_t length, struct err *err)
{
    int line = 1;
    for (size_t i = 0; i < length;) {
        bool is_layout = strchr("\n\r\t", text[i]) != NULL && text[i] != '\0';
        size_t bytes = is_layout ? 1 : plain_bytes(text + i);
        if (bytes == 0)
            return csv_refuse(path, line, "", err,
                              "a control character, or not UTF-8: this is not CSV text");
        line += text[i] == '\n';
        i += bytes;
    }
    return true;
}

/* --- whole files --------------------------------------------------------------------------- */

bool csv_open(const char *path, struct arena *arena, struct csv *out, struct err *err)
{
    size_t length;
    char *read = file_read(path, MAX_BYTES, &length, err);
    if (!read)
        return false;
    if (!check_text(path, read, length, err)) {
        free(read);
        return false;
    }
    char *text = arena_text(arena, read);
    free(read);
    if (strncmp(text, "\xEF\xBB\xBF", 3) == 0) {
        text += 3;
        length -= 3;
    }
    *out = (struct csv){ .path = path, .at = text, .end = text + length, .line = 1 };
    return true;
}

bool csv_read_header(struct csv *in, struct csv_record *out, struct err *err)
{
    return csv_read(in, out, err) ||
           (err->code == ERR_NONE &&
            csv_refuse(in->path, 1, "", err, "expected a header line; the file is empty"));
}

bool csv_check_width(const struct csv *in, const struct csv_record *header,
                     const struct csv_record *record, struct err *err)
{
    if (record->count == header->count)
        return true;
    char what[96];
    snprintf(what, sizeof what, "expected %d fields, as in the header; found %d", header->count,
             record->count);
    return csv_refuse(in->path, record->line, "", err, what);
}

bool csv_number(const char *text, double *out)
{
    if (text[strspn(text, "0123456789+-.eE")] != '\0')
        return false;
    char *end;
    errno = 0;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*out) && *out >= 0;
}
