#include "calibration/runs.h"

#include "base/file.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS_MAX_BYTES = 256 << 20, MAX_COLUMNS = 1024 };

enum column_kind { COLUMN_TEXT, COLUMN_NUMBER, COLUMN_FLAG };

struct column {
    const char *name;
    enum column_kind kind;
    size_t offset;
    bool needed;
};

#define TEXT(member)                                                  \
    {                                                                 \
#member, COLUMN_TEXT, offsetof(struct run_row, member), false \
    }
#define NUMBER(member)                                                  \
    {                                                                   \
#member, COLUMN_NUMBER, offsetof(struct run_row, member), false \
    }
#define NEEDED(member)                                                 \
    {                                                                  \
#member, COLUMN_NUMBER, offsetof(struct run_row, member), true \
    }

// clang-format off
static const struct column columns[] = {
    { "id", COLUMN_TEXT, offsetof(struct run_row, id), true },
    { "source_key", COLUMN_TEXT, offsetof(struct run_row, source_key), true },
    { "gpu", COLUMN_TEXT, offsetof(struct run_row, gpu), true },
    { "core", COLUMN_FLAG, offsetof(struct run_row, core), true },
    NEEDED(n_gpus), NEEDED(layers), NEEDED(hidden), NEEDED(heads), NEEDED(vocab), NEEDED(seq),
    NEEDED(gbs_seqs), NEEDED(mbs), NEEDED(dp), NEEDED(tp), NEEDED(pp),
    TEXT(network), TEXT(model_name), TEXT(schedule), TEXT(recompute), TEXT(precision),
    TEXT(software), TEXT(notes), TEXT(config_group),
    NUMBER(gpus_per_node), NUMBER(params_b), NUMBER(kv_heads), NUMBER(ffn_hidden),
    NUMBER(gated_mlp), NUMBER(experts), NUMBER(topk), NUMBER(sp), NUMBER(vpp), NUMBER(cp),
    NUMBER(ep), NUMBER(zero_stage), NUMBER(dist_opt), NUMBER(flash_attn), NUMBER(measured_iter_s),
    NUMBER(measured_tokens_per_s_per_gpu), NUMBER(measured_mem_gb), NUMBER(derived_iter_s),
};
// clang-format on
enum { NUM_COLUMNS = sizeof columns / sizeof *columns };

/* --- CSV ------------------------------------------------------------------------------------ */

/* Fields are cut out of the text in place: a field never grows when its quotes go. */
struct reader {
    const char *path;
    char *at;
    const char *end; /* where the text's NUL is */
    int line;        /* of `at` */
};

/* The fields of one line; those of a quoted field may span several. */
struct record {
    int line; /* where it starts */
    int count;
    char *field[MAX_COLUMNS];
};

static bool refuse(const char *path, int line, const char *column, struct err *err,
                   const char *what)
{
    char where[sizeof err->where];
    snprintf(where, sizeof where, "%s:%d%s%s", path, line, *column ? ": " : "", column);
    return err_set(err, ERR_INPUT, where, "%s", what);
}

/* Quoted: up to the closing quote, each doubled quote made one. */
static bool cut_quoted(struct reader *in, char **field, struct err *err)
{
    int opened = in->line;
    char *to = ++in->at;
    *field = to;
    for (;;) {
        if (in->at == in->end)
            return refuse(in->path, opened, "", err, "this quote is not closed");
        if (*in->at == '"' && *++in->at != '"')
            break;
        in->line += *in->at == '\n';
        *to++ = *in->at++;
    }
    if (*in->at != ',' && *in->at != '\n' && *in->at != '\r' && in->at != in->end)
        return refuse(in->path, in->line, "", err,
                      "expected a comma or the end of the line after the closing quote");
    *to = '\0';
    return true;
}

static void cut_plain(struct reader *in, char **field)
{
    *field = in->at;
    while (in->at < in->end && *in->at != ',' && *in->at != '\n' && *in->at != '\r')
        in->at++;
}

/* Past the field's separator, which becomes its NUL; true when another field follows. */
static bool end_field(struct reader *in)
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

/* False at the end of the text or on an error. */
static bool read_record(struct reader *in, struct record *out, struct err *err)
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
        if (out->count == MAX_COLUMNS)
            return refuse(in->path, in->line, "", err, "more than 1024 fields");
        char **field = &out->field[out->count++];
        if (*in->at != '"')
            cut_plain(in, field);
        else if (!cut_quoted(in, field, err))
            return false;
    } while (end_field(in));
    return true;
}

/* --- text ----------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character at `at`, or 0: cut short, overlong, a surrogate, or past U+10FFFF.
 */
static int character_bytes(const unsigned char *at)
{
    int bytes = at[0] < 0x80 ? 1 : at[0] < 0xC2 ? 0 : at[0] < 0xE0 ? 2 : at[0] < 0xF0 ? 3 : 4;
    if (at[0] > 0xF4)
        return 0;
    for (int i = 1; i < bytes; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    bool overlong = (at[0] == 0xE0 && at[1] < 0xA0) || (at[0] == 0xF0 && at[1] < 0x90);
    bool surrogate = at[0] == 0xED && at[1] > 0x9F;
    bool beyond = at[0] == 0xF4 && at[1] > 0x8F;
    return overlong || surrogate || beyond ? 0 : bytes;
}

/* Whatever is quoted from here is shown on terminals and written as JSON. */
static bool check_text(const char *path, const char *text, size_t length, struct err *err)
{
    int line = 1;
    for (size_t i = 0; i < length;) {
        const unsigned char *at = (const unsigned char *)text + i;
        bool is_control = (*at < ' ' && *at != '\n' && *at != '\r' && *at != '\t') || *at == 0x7F;
        if (is_control)
            return refuse(path, line, "", err, "a control character; this is not CSV text");
        int bytes = character_bytes(at);
        if (bytes == 0)
            return refuse(path, line, "", err, "not UTF-8 text");
        line += *at == '\n';
        i += (size_t)bytes;
    }
    return true;
}

/* --- rows ----------------------------------------------------------------------------------- */

static void *member(struct run_row *row, const struct column *column)
{
    return (char *)row + column->offset;
}

static const struct column *find_column(const char *name, int *index)
{
    for (*index = 0; *index < NUM_COLUMNS; ++*index)
        if (strcmp(columns[*index].name, name) == 0)
            return &columns[*index];
    return NULL;
}

/* Which field of a record each column is; -1: not in this file. */
static bool read_header(const char *path, const struct record *header, int *place, struct err *err)
{
    for (int i = 0; i < NUM_COLUMNS; i++)
        place[i] = -1;
    for (int i = 0; i < header->count; i++) {
        int index;
        if (!find_column(header->field[i], &index))
            continue;
        if (place[index] >= 0)
            return refuse(path, header->line, header->field[i], err, "two columns are called that");
        place[index] = i;
    }
    for (int i = 0; i < NUM_COLUMNS; i++)
        if (columns[i].needed && place[i] < 0)
            return refuse(path, header->line, columns[i].name, err,
                          "expected a column of this name; the header has none");
    return true;
}

/* Decimal, finite, nothing around it. */
static bool parse_number(const char *text, double *out)
{
    if (text[strspn(text, "0123456789+-.eE")] != '\0')
        return false;
    char *end;
    errno = 0;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*out) && *out >= 0;
}

static bool read_number(const char *text, double *out)
{
    if (*text == '\0') {
        *out = -1;
        return true;
    }
    return parse_number(text, out);
}

static bool read_flag(const char *text, bool *out)
{
    *out = strcmp(text, "1") == 0;
    return *out || *text == '\0' || strcmp(text, "0") == 0;
}

static bool read_field(const struct column *column, char *text, struct run_row *row)
{
    switch (column->kind) {
    case COLUMN_TEXT:
        *(const char **)member(row, column) = text;
        return true;
    case COLUMN_NUMBER:
        return read_number(text, member(row, column));
    case COLUMN_FLAG:
        return read_flag(text, member(row, column));
    }
    return false;
}

static bool read_row(const char *path, const struct record *record, const int *place,
                     struct run_row *row, struct err *err)
{
    static char nothing[] = "";
    row->line = record->line;
    for (int i = 0; i < NUM_COLUMNS; i++) {
        char *text = place[i] < 0 ? nothing : record->field[place[i]];
        if (read_field(&columns[i], text, row))
            continue;
        char what[128];
        snprintf(what, sizeof what, "expected %s; found \"%.40s\"",
                 columns[i].kind == COLUMN_FLAG ? "0 or 1" : "a number, 0 or more", text);
        return refuse(path, record->line, columns[i].name, err, what);
    }
    if (*row->id == '\0')
        return refuse(path, record->line, "id", err, "expected a name; found nothing");
    return true;
}

static bool check_width(const char *path, const struct record *header, const struct record *record,
                        struct err *err)
{
    if (record->count == header->count)
        return true;
    char what[96];
    snprintf(what, sizeof what, "expected %d fields, as in the header; found %d", header->count,
             record->count);
    return refuse(path, record->line, "", err, what);
}

static struct run_row *add_row(struct run_rows *rows, int *room, struct arena *arena)
{
    if (rows->count == *room) {
        const struct run_row *old = rows->at;
        *room = *room ? 2 * *room : 64;
        rows->at = ARENA_ARRAY(arena, struct run_row, (size_t)*room);
        if (old)
            memcpy(rows->at, old, (size_t)rows->count * sizeof *old);
    }
    return &rows->at[rows->count++];
}

static bool read_rows(struct reader *in, struct record *header, struct record *record,
                      struct arena *arena, struct run_rows *out, struct err *err)
{
    int place[NUM_COLUMNS];
    int room = 0;
    if (!read_record(in, header, err))
        return err->code == ERR_NONE
                   ? refuse(in->path, 1, "", err, "expected a header line; the file is empty")
                   : false;
    if (!read_header(in->path, header, place, err))
        return false;
    while (read_record(in, record, err))
        if (!check_width(in->path, header, record, err) ||
            !read_row(in->path, record, place, add_row(out, &room, arena), err))
            return false;
    return err->code == ERR_NONE;
}

bool runs_load(const char *path, struct arena *arena, struct run_rows *out, struct err *err)
{
    size_t length;
    *out = (struct run_rows){ 0 };
    char *read = file_read(path, RUNS_MAX_BYTES, &length, err);
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
    struct reader in = { .path = path, .at = text, .end = text + length, .line = 1 };
    struct record *records = ARENA_ARRAY(arena, struct record, 2);
    return read_rows(&in, &records[0], &records[1], arena, out, err);
}

double run_measured_s(const struct run_row *row)
{
    if (row->measured_iter_s > 0)
        return row->measured_iter_s;
    double tokens_per_s = row->measured_tokens_per_s_per_gpu * row->n_gpus;
    if (row->measured_tokens_per_s_per_gpu > 0 && row->n_gpus > 0 && row->gbs_seqs > 0 &&
        row->seq > 0)
        return row->gbs_seqs * row->seq / tokens_per_s;
    return row->derived_iter_s > 0 ? row->derived_iter_s : -1;
}
