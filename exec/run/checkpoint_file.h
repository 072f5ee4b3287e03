/* exec/run/checkpoint_file.h - what one rank wrote of a checkpoint: a file of slices.
 *
 * A slice is a run of elements of one array, values or a moment, of one weight, and says where they
 * are in the whole weight, so that ranks of any layout find what they need. A file begins with its
 * header, then the table of its slices, then their floats; header, table and every slice carry
 * their CRC-32C. Numbers are in the byte order of the machine, which the magic number tells. */
#ifndef EXEC_RUN_CHECKPOINT_FILE_H
#define EXEC_RUN_CHECKPOINT_FILE_H

#include "base/err.h"
#include "models/model.h"

#include <stdint.h>

enum { CHECKPOINT_FORMAT = 4, CHECKPOINT_SLICE_ELEMENTS = 1 << 20 };

/* VALUES in fp32: the masters where values are kept in 16 bits. KEPT is of no weight but of what an
 * exchange keeps of a chunk for each rank. */
enum checkpoint_array {
    CHECKPOINT_VALUES,
    CHECKPOINT_MOMENTS,  /* + 0 and + 1 */
    CHECKPOINT_KEPT = 3, /* + 0 to MAX_CHECKPOINT_KEPT - 1 */
};
enum { MAX_CHECKPOINT_KEPT = 3 };

// clang-format off
/* What makes two models' weights mean the same. */
#define CHECKPOINT_MODEL(X)                                                                       \
    X(layers) X(hidden) X(heads) X(kv_heads) X(head_dim) X(ffn) X(vocab) X(max_positions) X(norm) \
    X(activation) X(positions) X(linear_bias) X(qkv_bias) X(qk_norm) X(embedding_norm) X(tied)
#define CHECKPOINT_MODEL_REALS(X) X(rope_theta) X(norm_epsilon)
// clang-format on
struct checkpoint_model {
#define X(name) int32_t name;
    CHECKPOINT_MODEL(X)
#undef X
    int32_t num_kinds;   /* of blocks */
    uint32_t blocks_sum; /* of which block is of which kind, and the kinds' widths */
#define X(name) double name;
    CHECKPOINT_MODEL_REALS(X)
#undef X
};
struct checkpoint_model checkpoint_model_of(const struct model *model);
/* ERR_INPUT, where = the first number that differs. */
bool checkpoint_model_is(const struct checkpoint_model *saved, const struct model *model,
                         struct err *err);

/* All but `rank`, `num_slices` and the sums is the same in every file of a checkpoint; of replicas
 * that differ each has a loss scale of its own too. */
struct checkpoint_header {
    uint64_t magic;
    uint32_t format, sum; /* of this header, with 0 here */
    struct checkpoint_model model;
    int64_t step; /* the last one done; with the seed it is the data's cursor too */
    uint64_t seed;
    double rate, loss_scale;
    double least_rate; /* this and the next two as in struct rate_course; rate is the peak */
    int64_t warmup, decay;
    double clip, spike_limit; /* 0: none */
    double spike_mean, spike_variance;
    int64_t spike_count;
    int64_t skipped;
    int32_t steps_since;
    int32_t optimizer; /* enum optimizer */
    uint32_t ranks, rank;
    uint32_t num_slices, table_sum;
    double first_loss; /* this and the next two as in struct exchange_period */
    int32_t since, period;
    int32_t replicas;    /* that differ, of which every weight is there so many times; else 1 */
    uint32_t layout_sum; /* of the whole text */
    char exchange[80], layout[240]; /* text forms; the layout's beginning */
};

/* Elements from..from + count, row by row, of the block of `columns` columns that begins at
 * (first_row, first_column) of the whole weight. KEPT: of one column, from the array's first; layer
 * is the local chunk + 1. */
struct checkpoint_slice {
    char name[24];          /* of the op, for messages */
    uint32_t layer, number; /* of the weight's draw (exec/store.h): the key */
    uint32_t array, sum;
    uint64_t first_row, first_column, columns, from, count;
    uint64_t offset; /* of its floats in the file */
};

struct checkpoint_file {
    char path[512];
    int fd;
    uint64_t bytes; /* of a file that was opened */
    struct checkpoint_header header;
    struct checkpoint_slice *slices; /* owned */
};

/* Checks header, table and length. ERR_INPUT, where = the path, when the file is missing, damaged
 * or of another format; ERR_SYSTEM when it cannot be read, so that nobody knows whether it is
 * whole. */
bool checkpoint_file_open(const char *path, struct checkpoint_file *file, struct err *err);
/* The floats of a slice; ERR_INPUT when they are not those that were written, ERR_SYSTEM when they
 * cannot be read. */
bool checkpoint_file_read(const struct checkpoint_file *file, const struct checkpoint_slice *slice,
                          float *out, struct err *err);

/* A new file, which must not exist, for `num_slices` slices; then their floats in order; then the
 * header, whose magic, format and sums are filled in, until it is on the disk. */
bool checkpoint_file_create(const char *path, uint32_t num_slices, struct checkpoint_file *file,
                            struct err *err);
bool checkpoint_file_add(struct checkpoint_file *file, const struct checkpoint_slice *slice,
                         const float *floats, struct err *err);
/* Until what was added is on the disk: a long file that is flushed at its end alone takes long
 * there. */
bool checkpoint_file_flush(const struct checkpoint_file *file, struct err *err);
bool checkpoint_file_finish(struct checkpoint_file *file, const struct checkpoint_header *header,
                            struct err *err);
void checkpoint_file_close(struct checkpoint_file *file);

#endif
