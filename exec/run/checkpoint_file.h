/* exec/run/checkpoint_file.h - one rank's file of a checkpoint: slices of weights and moments.
 *
 * A slice is a block of elements of one array (values or a moment) of one weight. It states its
 * place in the whole weight, so that ranks of any layout find what they need. A file begins with
 * its header, then the table of its slices, then their floats; header, table and every slice carry
 * their CRC-32C. Numbers are in the machine's byte order, which a reader checks by the magic
 * number. */
#ifndef EXEC_RUN_CHECKPOINT_FILE_H
#define EXEC_RUN_CHECKPOINT_FILE_H

#include "base/err.h"
#include "models/model.h"

#include <stdint.h>

enum { CHECKPOINT_FORMAT = 4, CHECKPOINT_SLICE_ELEMENTS = 1 << 20 };

/* VALUES are fp32: the master copies if weights are stored in 16 bits. KEPT belongs to no weight:
 * it is the state that an exchange keeps per chunk and rank. */
enum checkpoint_array {
    CHECKPOINT_VALUES,
    CHECKPOINT_MOMENTS,  /* the two moments are + 0 and + 1 */
    CHECKPOINT_KEPT = 3, /* the kept arrays are + 0 to MAX_CHECKPOINT_KEPT - 1 */
};
enum { MAX_CHECKPOINT_KEPT = 3 };

// clang-format off
/* Numbers that must be equal in the saved model and in the model that reads it. They determine the
 * shapes of the weights and what is computed with them. */
#define CHECKPOINT_MODEL(X)                                                                       \
    X(layers) X(hidden) X(heads) X(kv_heads) X(head_dim) X(ffn) X(vocab) X(max_positions) X(norm) \
    X(activation) X(positions) X(linear_bias) X(qkv_bias) X(qk_norm) X(embedding_norm) X(tied)
#define CHECKPOINT_MODEL_REALS(X) X(rope_theta) X(norm_epsilon)
// clang-format on
struct checkpoint_model {
#define X(name) int32_t name;
    CHECKPOINT_MODEL(X)
#undef X
    int32_t num_kinds;   /* number of kinds of blocks */
    uint32_t blocks_sum; /* checksum of each block's kind and the kinds' widths */
#define X(name) double name;
    CHECKPOINT_MODEL_REALS(X)
#undef X
};
struct checkpoint_model checkpoint_model_of(const struct model *model);
/* ERR_INPUT, where = the first number that differs. */
bool checkpoint_model_is(const struct checkpoint_model *saved, const struct model *model,
                         struct err *err);

/* All members other than `rank`, `num_slices` and the checksums are equal in every file of a
 * checkpoint. If replicas differ, loss scales also differ. */
struct checkpoint_header {
    uint64_t magic;
    uint32_t format, sum; /* checksum of this header, computed with 0 here */
    struct checkpoint_model model;
    int64_t step; /* the last completed step; with the seed it determines the data */
    uint64_t seed;
    double rate, loss_scale;
    double least_rate; /* this member and the next two are as in struct rate_course; `rate` is the
                          peak */
    int64_t warmup, decay;
    double clip, spike_limit; /* 0: no clipping, no spike limit */
    double spike_mean, spike_variance;
    int64_t spike_count;
    int64_t skipped;
    int32_t steps_since;
    int32_t optimizer; /* enum optimizer */
    uint32_t ranks, rank;
    uint32_t num_slices, table_sum;
    double first_loss; /* this member and the next two are as in struct exchange_period */
    int32_t since, period;
    int32_t replicas; /* number of differing replicas, each of which saved every weight; else 1 */
    uint32_t layout_sum;            /* checksum of the whole layout text */
    char exchange[80], layout[240]; /* as text; the layout may be cut off */
};

/* Elements from..from + count, row by row, of a block with `columns` columns that begins at
 * (first_row, first_column) of the whole weight. A slice of a KEPT array has one column, counts
 * from the array's start, and its `layer` is the local chunk + 1. */
struct checkpoint_slice {
    char name[24];          /* name of the op, for messages */
    uint32_t layer, number; /* the weight's key, also used for its random draw (exec/ops/store.h) */
    uint32_t array, sum;
    uint64_t first_row, first_column, columns, from, count;
    uint64_t offset; /* offset of its floats in the file */
};

struct checkpoint_file {
    char path[512];
    int fd;
    uint64_t bytes; /* size of an opened file */
    struct checkpoint_header header;
    struct checkpoint_slice *slices; /* owned */
};

/* Opens a file and checks header, table and length. ERR_INPUT, where = the path, when the file is
 * missing, damaged or of another format; ERR_SYSTEM when it cannot be read but may be intact. */
bool checkpoint_file_open(const char *path, struct checkpoint_file *file, struct err *err);
/* Reads the floats of a slice; ERR_INPUT when they differ from those written, ERR_SYSTEM when they
 * cannot be read. */
bool checkpoint_file_read(const struct checkpoint_file *file, const struct checkpoint_slice *slice,
                          float *out, struct err *err);

/* Functions for writing, called in this order: checkpoint_file_create makes a new file, which must
 * not exist, for `num_slices` slices; then their floats are added in order; checkpoint_file_finish
 * writes the header, fills in its magic, format and sums, and waits until the file is on disk. */
bool checkpoint_file_create(const char *path, uint32_t num_slices, struct checkpoint_file *file,
                            struct err *err);
bool checkpoint_file_add(struct checkpoint_file *file, const struct checkpoint_slice *slice,
                         const float *floats, struct err *err);
/* Waits until the data added so far is on disk, so that the final flush of a long file is short. */
bool checkpoint_file_flush(const struct checkpoint_file *file, struct err *err);
bool checkpoint_file_finish(struct checkpoint_file *file, const struct checkpoint_header *header,
                            struct err *err);
void checkpoint_file_close(struct checkpoint_file *file);

#endif
