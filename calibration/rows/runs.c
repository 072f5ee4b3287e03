/* Reads measured runs from a CSV file, by the names of its columns. */
#include "calibration/rows/runs.h"

#include "base/length.h"
#include "calibration/rows/csv.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    TEXT(software), TEXT(config_group), TEXT(reduce_dtype), TEXT(param_dtype), TEXT(mem_kind),
    TEXT(mem_unit), TEXT(inferred),
    NUMBER(gpus_per_node), NUMBER(params_b), NUMBER(kv_heads), NUMBER(ffn_hidden),
    NUMBER(gated_mlp), NUMBER(experts), NUMBER(topk), NUMBER(sp), NUMBER(vpp), NUMBER(cp),
    NUMBER(ep), NUMBER(etp), NUMBER(zero_stage), NUMBER(zero_shard), NUMBER(dist_opt),
    NUMBER(compiled), NUMBER(async_tp), NUMBER(flash_attn), NUMBER(measured_iter_s),
    NUMBER(measured_tokens_per_s_per_gpu), NUMBER(measured_mem_gb), NUMBER(derived_iter_s),
};
// clang-format on
enum { NUM_COLUMNS = LENGTH(columns) };

/* --- rows ---------------------------------------------------------------------------------- */

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

/* Finds the index of each column in a record; -1: not in this file. */
static bool read_header(const char *path, const struct csv_record *header, int *place,
                        struct err *err)
{
    for (int i = 0; i < NUM_COLUMNS; i++)
        place[i] = -1;
    for (int i = 0; i < header->count; i++) {
        int index;
        if (!find_column(header->field[i], &index))
            continue;
        if (place[index] >= 0)
            return csv_refuse(path, header->line, header->field[i], err,
                              "two columns have this name");
        place[index] = i;
    }
    for (int i = 0; i < NUM_COLUMNS; i++)
        if (columns[i].needed && place[i] < 0)
            return csv_refuse(path, header->line, columns[i].name, err,
                              "expected a column of this name; the header has none");
    return true;
}

static bool read_number(const char *text, double *out)
{
    if (*text == '\0') {
        *out = -1;
        return true;
    }
    return csv_number(text, out);
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

static bool read_row(const char *path, const struct csv_record *record, const int *place,
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
        return csv_refuse(path, record->line, columns[i].name, err, what);
    }
    if (*row->id == '\0')
        return csv_refuse(path, record->line, "id", err, "expected a name; found nothing");
    return true;
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

static bool read_rows(struct csv *in, struct csv_record *header, struct csv_record *record,
                      struct arena *arena, struct run_rows *out, struct err *err)
{
    int place[NUM_COLUMNS];
    int room = 0;
    if (!csv_read_header(in, header, err) || !read_header(in->path, header, place, err))
        return false;
    while (csv_read(in, record, err))
        if (!csv_check_width(in, header, record, err) ||
            !read_row(in->path, record, place, add_row(out, &room, arena), err))
            return false;
    return err->code == ERR_NONE;
}

bool runs_load(const char *path, struct arena *arena, struct run_rows *out, struct err *err)
{
    struct csv in;
    *out = (struct run_rows){ 0 };
    struct csv_record *records = ARENA_ARRAY(arena, struct csv_record, 2);
    return csv_open(path, arena, &in, err) &&
           read_rows(&in, &records[0], &records[1], arena, out, err);
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
