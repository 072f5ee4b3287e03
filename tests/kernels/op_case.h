/* tests/kernels/op_case.h - a case of op_cases.h: its tensors, and the ops that it runs on them.
 * Only tests/kernels/op_*.c include it. */
#ifndef TESTS_KERNELS_OP_CASE_H
#define TESTS_KERNELS_OP_CASE_H

#include "tests/kernels/op_backend.h"

/* Kinds of tensors. VALUES have the storage type under test. EXACT floats and BYTES must have the
 * same bits as the host's result. TIES are EXACT floats with few distinct values, including
 * infinities. TINY are EXACT floats that are denormal or slightly larger. */
enum tensor_kind { VALUES, FLOATS, POSITIVE, EXACT, TIES, TINY, DOUBLES, IDS, BYTES };
enum tensor_role { IN, OUT, IN_OUT };

struct tensor {
    const char *what;
    enum tensor_kind kind;
    enum tensor_role role;
    long rows, width;
};

enum {
    MOST_TENSORS = 11,
    TOKENS_OF_A_SEQUENCE = 5,
    MOST_ID = 25 /* ids are drawn from -1 to MOST_ID */
};

struct op_case {
    const char *name;
    /* at[i] is the address of tensors[i]. */
    void (*run)(const struct op_case *c, const struct op_backend *b, void *const *at);
    long rows, width, inner;
    int kind; /* kind of norm, activation or optimizer */
    double dropout;
    struct attention attention;
    double
        roundings; /* roundings of the backend beyond the host's; each one raises the error limit */
    double terms;  /* number of terms of long sequential sums in fp32 */
    struct tensor tensors[MOST_TENSORS];
    int count;
};

static inline void add(struct op_case *c, const char *what, enum tensor_kind kind,
                       enum tensor_role role, long rows, long width)
{
    c->tensors[c->count++] = (struct tensor){ what, kind, role, rows, width };
}

/* Adds a struct draw_place with a random sequence and step. */
static inline void add_place(struct op_case *c)
{
    add(c, "place", IDS, IN, 1, sizeof(struct draw_place) / sizeof(int64_t));
}

const struct op_case *op_cases(int *count);

/* tests/kernels/op_attention.c */
struct op_case head_norm_case(struct attention a);
struct op_case rotary_case(struct attention a);
struct op_case flash_case(struct attention a);
struct op_case unfused_case(struct attention a);

/* tests/kernels/op_ends.c - cases of the embedding and the loss, on a rank that holds a part of
 * the vocabulary: `columns` of its `vocab` entries for the loss. */
struct op_case embedding_case(long tokens, long width);
struct op_case loss_case(long rows, long columns, long vocab);

/* tests/kernels/op_update.c */
enum { SGD, MOMENTUM, ADAMW };
struct op_case update_case(int optimizer, long n);
struct op_case squares_case(long n);

/* Writes the cases of exchanges to `at`; returns their number. */
int op_exchange_cases(struct op_case *at);

#endif
