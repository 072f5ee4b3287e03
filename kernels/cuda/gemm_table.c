/* The table of cuBLASLt algorithms by shape of product, and its text file. */
#include "kernels/cuda/gemm_table.h"

#include "base/arena.h"
#include "base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define X(name) +1
enum { NUM_FIELDS = 0 GEMM_SHAPE(X), NUM_WORDS = 8, LINE_BYTES = 1024 };
#undef X

/* Copies a shape's members in the order of a line, which is also their order in memory. */
static void fields_of(const struct gemm_shape *shape, int64_t fields[NUM_FIELDS])
{
    memcpy(fields, shape, sizeof *shape);
}

static bool read_number(const char **text, int base, uint64_t *out)
{
    char *end;
    *out = strtoull(*text, &end, base);
    bool is_one = end != *text && (*end == ' ' || *end == '\n');
    *text = end;
    return is_one;
}

/* Reads a line and leaves `text` after its end. */
static bool read_choice(const char **text, struct gemm_choice *choice)
{
    uint64_t fields[NUM_FIELDS];
    for (int i = 0; i < NUM_FIELDS; i++)
        if (!read_number(text, 10, &fields[i]))
            return false;
    memcpy(&choice->shape, fields, sizeof choice->shape);
    if (!read_number(text, 10, &choice->is_taken) ||
        !read_number(text, 10, &choice->workspace_bytes))
        return false;
    for (int i = 0; i < NUM_WORDS; i++)
        if (!read_number(text, 16, &choice->algorithm[i]))
            return false;
    return *(*text)++ == '\n';
}

static bool read_lines(const char *text, struct gemm_table *table, struct err *err)
{
    for (int line = 1; *text; line++) {
        struct gemm_choice choice;
        if (!read_choice(&text, &choice)) {
            char where[32];
            snprintf(where, sizeof where, "line %d", line);
            return err_set(err, ERR_INPUT, where,
                           "expected %d decimal numbers and %d hexadecimal ones; without the file, "
                           "all products are tuned again",
                           NUM_FIELDS + 2, NUM_WORDS);
        }
        gemm_table_add(table, &choice);
    }
    return true;
}

bool gemm_table_read(const char *path, struct gemm_table *table, struct err *err)
{
    *table = (struct gemm_table){ 0 };
    if (!file_exists(path))
        return true;
    char *text = file_read(path, FILE_MAX_BYTES, NULL, err);
    bool ok = text && read_lines(text, table, err);
    if (text && !ok) {
        char outer[300];
        snprintf(outer, sizeof outer, "%s: ", path);
        err_prefix(err, outer);
    }
    free(text);
    return ok;
}

static int write_choice(const struct gemm_choice *choice, char *line)
{
    int64_t fields[NUM_FIELDS];
    fields_of(&choice->shape, fields);
    int length = 0;
    for (int i = 0; i < NUM_FIELDS; i++)
        length += snprintf(line + length, (size_t)(LINE_BYTES - length), "%" PRId64 " ", fields[i]);
    length += snprintf(line + length, (size_t)(LINE_BYTES - length), "%" PRIu64 " %" PRIu64,
                       choice->is_taken, choice->workspace_bytes);
    for (int i = 0; i < NUM_WORDS; i++)
        length += snprintf(line + length, (size_t)(LINE_BYTES - length), " %016" PRIx64,
                           choice->algorithm[i]);
    length += snprintf(line + length, (size_t)(LINE_BYTES - length), "\n");
    return length;
}

static bool write_table(const char *path, const struct gemm_table *table, struct err *err)
{
    char *text = arena_grow(NULL, (size_t)table->count * LINE_BYTES + 1);
    size_t length = 0;
    for (int i = 0; i < table->count; i++)
        length += (size_t)write_choice(&table->at[i], text + length);
    bool ok = file_write(path, text, length, err);
    free(text);
    return ok;
}

bool gemm_table_add_to_file(const char *path, const struct gemm_table *table, struct err *err)
{
    struct gemm_table file;
    bool ok = gemm_table_read(path, &file, err);
    for (int i = 0; ok && i < table->count; i++)
        if (!gemm_table_find(&file, &table->at[i].shape))
            gemm_table_add(&file, &table->at[i]);
    ok = ok && write_table(path, &file, err);
    gemm_table_release(&file);
    return ok;
}

/* --- lookup ------------------------------------------------------------------------------- */

static uint64_t hash_of(const struct gemm_shape *shape)
{
    int64_t fields[NUM_FIELDS];
    uint64_t hash = 0;
    fields_of(shape, fields);
    for (int i = 0; i < NUM_FIELDS; i++)
        hash = (hash ^ (uint64_t)fields[i]) * 0x9e3779b97f4a7c15; /* Knuth 1998, 6.4 */
    return hash >> 32;
}

/* The slot of the shape, or the free slot to put it into. num_slots is a power of 2, and some slots
 * are always free. */
static int *slot_of(const struct gemm_table *table, const struct gemm_shape *shape)
{
    uint64_t mask = (uint64_t)table->num_slots - 1, i = hash_of(shape) & mask;
    while (table->slots[i] >= 0 &&
           memcmp(&table->at[table->slots[i]].shape, shape, sizeof *shape) != 0)
        i = (i + 1) & mask;
    return &table->slots[i];
}

static void enter(struct gemm_table *table, int choice)
{
    int *slot = slot_of(table, &table->at[choice].shape);
    if (*slot < 0)
        *slot = choice;
}

static void grow_slots(struct gemm_table *table)
{
    table->num_slots = table->num_slots > 0 ? 2 * table->num_slots : 64;
    size_t bytes = sizeof *table->slots * (size_t)table->num_slots;
    table->slots = memset(arena_grow(table->slots, bytes), 0xff, bytes);
    for (int i = 0; i < table->count; i++)
        enter(table, i);
}

const struct gemm_choice *gemm_table_find(const struct gemm_table *table,
                                          const struct gemm_shape *shape)
{
    int *slot = table->count > 0 ? slot_of(table, shape) : NULL;
    return slot && *slot >= 0 ? &table->at[*slot] : NULL;
}

void gemm_table_add(struct gemm_table *table, const struct gemm_choice *choice)
{
    size_t bytes = sizeof *table->at * (size_t)(table->count + 1);
    table->at = arena_grow(table->at, bytes);
    table->at[table->count++] = *choice;
    if (2 * table->count > table->num_slots)
        grow_slots(table);
    else
        enter(table, table->count - 1);
}

void gemm_table_release(struct gemm_table *table)
{
    free(table->at);
    free(table->slots);
    *table = (struct gemm_table){ 0 };
}
