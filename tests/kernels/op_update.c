#include "tests/kernels/op_case.h"

static void run_update(const struct op_case *c, const struct op_backend *b, void *const *at)
{
    struct sgd sgd = { 1e-2F, 0.1F, 0 };
    struct momentum momentum = { 1e-2F, 0.1F, 0, 0.9F };
    struct adamw adamw = { 1e-2F, 0.1F, 0, 0.9F, 0.95F, 1e-8F, 3 };
    switch (c->kind) {
    case SGD:
        b->sgd(b->self, &(struct sgd_args){ sgd, c->width, at[0], at[1], at[2], at[5] });
        break;
    case MOMENTUM:
        b->momentum(b->self, &(struct momentum_args){ momentum, c->width, at[0], at[1], at[3],
                                                      at[2], at[5] });
        break;
    default:
        b->adamw(b->self,
                 &(struct adamw_args){ adamw, c->width, at[0], at[1], at[3], at[4], at[2], at[5] });
    }
}

struct op_case update_case(int optimizer, long n)
{
    struct op_case c = { .name = "update", .run = run_update, .width = n, .kind = optimizer };
    add(&c, "gradients", FLOATS, IN, 1, n);
    add(&c, "scale", POSITIVE, IN, 1, 1);
    add(&c, "weights", FLOATS, IN_OUT, 1, n);
    add(&c, "first moments", FLOATS, IN_OUT, 1, n);
    add(&c, "second moments", POSITIVE, IN_OUT, 1, n);
    add(&c, "values", VALUES, OUT, 1, n);
    return c;
}

static void run_squares(const struct op_case *c, const struct op_backend *b, void *const *at)
{
    b->square_sum(b->self, &(struct square_sum){ c->width, at[0], at[1] });
    b->clip(b->self, &(struct clip){ at[1], 0.5, 8, at[2] });
    b->clip(b->self, &(struct clip){ at[1], 0, 8, at[3] });
    b->pack(b->self, &(struct pack){ c->width, at[0], at[4] });
}

struct op_case squares_case(long n)
{
    struct op_case c = { .name = "squares", .run = run_squares, .width = n };
    add(&c, "gradients", FLOATS, IN, 1, n);
    add(&c, "squares", DOUBLES, IN_OUT, 1, 1);
    add(&c, "clip", FLOATS, OUT, 1, 1);
    add(&c, "no clip", FLOATS, OUT, 1, 1);
    add(&c, "packed", VALUES, OUT, 1, n);
    return c;
}
