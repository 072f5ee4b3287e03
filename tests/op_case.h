/* tests/op_case.h - one of the cases of op_cases.h: its tensors, and the ops that it runs on them.
 * Only op_cases.c, op_exchange.c and op_check.c include it. */
#ifndef TESTS_OP_CASE_H
#define TESTS_OP_CASE_H

#include "tests/op_cases.h"

/* VALUES are kept as they are stored. EXACT floats and BYTES must have the host's bits; TIES are
 * EXACT and of few values, infinities among them. */
enum tensor_kind { VALUES, FLOATS, POSITIVE, EXACT, TIES, DOUBLES, IDS, BYTES };
enum tensor_role { IN, OUT, IN_OUT };

struct tensor {
    const char *what;
    enum tensor_kind kind;
    enum tensor_role role;
    long rows, width;
};

enum { MOST_TENSORS = 11, MOST_ID = 25 }; /* ids: from -1 */

struct op_case {
    const char *name;
    /* at[i] is where tensors[i] lies. */
    void (*run)(const struct op_case *c, const struct op_backend *b, void *const *at);
    long rows, width, inner;
    int kind; /* of a norm, an activation, an optimizer */
    double dropout;
    struct attention attention;
    double roundings; /* that the host spares itself, in the root mean square */
    struct tensor tensors[MOST_TENSORS];
    int count;
};

static inline void add(struct op_case *c, const char *what, enum tensor_kind kind,
                       enum tensor_role role, long rows, long width)
{
    c->tensors[c->count++] = (struct tensor){ what, kind, role, rows, width };
}

const struct op_case *op_cases(int *count);

/* Those of exchanges, written one behind the other; how many. */
int op_exchange_cases(struct op_case *at);

#endif
