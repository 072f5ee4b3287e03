/* Cases of op_cases.h for the embedding and the loss. */
#include "tests/kernels/op_case.h"

enum {
    TABLE_ROWS = 13
}; /* rows of the embedding on this rank; ids are drawn below twice this
    * number */

static void run_embedding(const struct op_case *c, const struct op_backend *b, void *const *at)
{
    struct embedding embedding = { c->rows, c->width, TABLE_ROWS / 2, TABLE_ROWS };
    b->embedding(b->self, &(struct embedding_args){ embedding, TOKENS_OF_A_SEQUENCE, at[0], at[1],
                                                    at[2], at[3] });
    b->embedding(b->self, &(struct embedding_args){ embedding, TOKENS_OF_A_SEQUENCE, at[0], at[1],
                                                    NULL, at[4] });
    b->embedding_gradient(b->self, &(struct embedding_gradient){ embedding, TOKENS_OF_A_SEQUENCE,
                                                                 at[0], at[5], at[6], at[7] });
}

struct op_case embedding_case(long tokens, long width)
{
    struct op_case c = {
        .name = "embedding", .run = run_embedding, .rows = tokens, .width = width
    };
    add(&c, "ids", IDS, IN, tokens, 1);
    add(&c, "table", VALUES, IN, TABLE_ROWS, width);
    add(&c, "positions", VALUES, IN, TOKENS_OF_A_SEQUENCE, width);
    add(&c, "y", VALUES, OUT, tokens, width);
    add(&c, "y without positions", VALUES, OUT, tokens, width);
    add(&c, "dy", VALUES, IN, tokens, width);
    add(&c, "dtable", FLOATS, IN_OUT, TABLE_ROWS, width);
    add(&c, "dpositions", FLOATS, IN_OUT, TOKENS_OF_A_SEQUENCE, width);
    return c;
}

/* `inner` is the size of the whole vocabulary. The shard of `width` columns begins at column 7. */
static void run_loss(const struct op_case *c, const struct op_backend *b, void *const *at)
{
    struct cross_entropy loss = { c->rows, c->width, 7, c->inner };
    b->loss_maxima(b->self, &(struct loss_maxima){ loss, at[0], at[2] });
    b->loss_sums(b->self, &(struct loss_sums){ loss, at[0], at[1], at[2], at[3] });
    b->loss_total(b->self, &(struct loss_total){ c->rows, at[1], at[6], at[4] });
    b->loss_gradient(b->self,
                     &(struct loss_gradient){ loss, at[0], at[1], at[2], at[6], at[7], at[5] });
}

struct op_case loss_case(long rows, long columns, long vocab)
{
    struct op_case c = {
        .name = "cross-entropy", .run = run_loss, .rows = rows, .width = columns, .inner = vocab
    };
    add(&c, "logits", VALUES, IN, rows, columns);
    add(&c, "targets", IDS, IN, rows, 1);
    add(&c, "maxima", FLOATS, OUT, rows, 1);
    add(&c, "sums", FLOATS, OUT, rows, 2);
    add(&c, "loss", DOUBLES, IN_OUT, 1, 1);
    add(&c, "dlogits", VALUES, OUT, rows, columns);
    add(&c, "sums of all ranks", POSITIVE, IN, rows, 2);
    add(&c, "scale", POSITIVE, IN, 1, 1);
    return c;
}
