#include "search/partition/chain_file.h"

#include "base/json.h"
#include "base/length.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_NAME = 32 };

/* --- the file ------------------------------------------------------------------------------- */

enum chain_kind { CHAIN_PRODUCT, CHAIN_POINTWISE, CHAIN_NORM, NUM_CHAIN_KINDS };
static const char *const kind_names[NUM_CHAIN_KINDS + 1] = { "product", "pointwise", "norm", NULL };

/* The shardings that each kind of operator allows. A norm needs whole tokens. */
static const unsigned kind_allows[NUM_CHAIN_KINDS] = {
    [CHAIN_PRODUCT] = 1 << SHARDING_COLUMN | 1 << SHARDING_ROW | 1 << SHARDING_REPLICATED |
                      1 << SHARDING_SEQUENCE,
    [CHAIN_POINTWISE] = 1 << SHARDING_REPLICATED | 1 << SHARDING_SEQUENCE | 1 << SHARDING_HIDDEN,
    [CHAIN_NORM] = 1 << SHARDING_REPLICATED | 1 << SHARDING_SEQUENCE,
};

/* Indexed by enum sharding. */
static const char *const sharding_names[NUM_SHARDINGS + 1] = { "column",   "row",    "replicated",
                                                               "sequence", "hidden", NULL };

struct operator_row {
    char name[MOST_NAME];
    int kind, width;
    unsigned allowed;
};

// clang-format off
#define AT(member)     .offset = offsetof(struct chain_file, member)
#define ROW_AT(member) .offset = offsetof(struct operator_row, member)
static const struct field chain_fields[] = {
    { .name = "ranks", .kind = FIELD_INT, AT(ranks), .min = 1, .max = 1 << 20,
      .doc = "Number of ranks that share each operator." },
    { .name = "tokens", .kind = FIELD_INT, AT(tokens), .min = 1, .max = 1 << 30,
      .doc = "Number of rows (tokens) of X." },
    { .name = "width", .kind = FIELD_INT, AT(width), .min = 1, .max = 1 << 30,
      .doc = "Number of values in a row of X." },
    { .name = "reduce_scatter", .kind = FIELD_BOOL, AT(has_reduce_scatter), .fallback = "true",
      .doc = "Whether partial sums can be reduce-scattered; false: they are only all-reduced." },
    { .name = "element_bytes", .kind = FIELD_NUMBER, AT(element_bytes), .min = 0.5, .max = 8, .fallback = "2",
      .doc = "Bytes per value." },
    { .name = "memory", .kind = FIELD_QUANTITY, .quantity = QUANTITY_BYTES, AT(memory_bytes), .min = 0,
      .max = 1e18, .fallback = "0 B",
      .doc = "Bytes of weights and outputs that a rank may keep; no limit when absent." },
    { .name = "operators", .kind = FIELD_OTHER, .doc = "The operators of the chain, in order." },
};
static const struct field chain_operator_fields[] = {
    { .name = "name", .kind = FIELD_TEXT, ROW_AT(name), .size = MOST_NAME, .doc = "Name that answers print." },
    { .name = "kind", .kind = FIELD_NAME, ROW_AT(kind), .names = kind_names, .fallback = "product",
      .doc = "product: has weights; pointwise: computes each value alone; norm: needs whole tokens." },
    { .name = "width", .kind = FIELD_INT, ROW_AT(width), .min = 0, .max = 1 << 30, .fallback = "0",
      .doc = "Width of a product's output; 0 or absent: the width of its input." },
    { .name = "allowed", .kind = FIELD_SET, ROW_AT(allowed), .names = sharding_names, .fallback = "",
      .doc = "Shardings that may be chosen; absent: all that its kind allows." },
};
// clang-format on

static bool check_row(const struct operator_row *row, int index, struct err *err)
{
    char where[64];
    unsigned beyond = row->allowed & ~kind_allows[row->kind];
    for (int i = 0; i < NUM_SHARDINGS; i++)
        if (beyond >> i & 1) {
            snprintf(where, sizeof where, "operators[%d].allowed", index);
            return err_set(err, ERR_INPUT, where, "a %s cannot have the sharding %s",
                           kind_names[row->kind], sharding_names[i]);
        }
    if (row->kind == CHAIN_PRODUCT || row->width == 0)
        return true;
    snprintf(where, sizeof where, "operators[%d].width", index);
    return err_set(err, ERR_INPUT, where, "a %s keeps the width of its input",
                   kind_names[row->kind]);
}

static bool read_row(const json_t *json, int index, struct operator_row *out, struct err *err)
{
    char prefix[32];
    *out = (struct operator_row){ 0 };
    if (!json_is_object(json)) {
        snprintf(prefix, sizeof prefix, "operators[%d]", index);
        return err_set(err, ERR_INPUT, prefix, "expected an object");
    }
    if (!fields_read(chain_operator_fields, LENGTH(chain_operator_fields), json, out, err)) {
        snprintf(prefix, sizeof prefix, "operators[%d].", index);
        err_prefix(err, prefix);
        return false;
    }
    return check_row(out, index, err);
}

/* Sizes are in units of S. */
static bool add_operator(const json_t *json, int *width, struct arena *arena,
                         struct chain_file *out, struct err *err)
{
    struct operator_row row;
    if (!read_row(json, out->num_products, &row, err))
        return false;
    double values = (double)out->tokens * out->width;
    int next = row.width > 0 ? row.width : *width;
    bool has_weights = row.kind == CHAIN_PRODUCT;
    out->products[out->num_products++] = (struct chain_product){
        .name = arena_text(arena, row.name),
        .allowed = row.allowed ? row.allowed : kind_allows[row.kind],
        .output_size = (double)out->tokens * next / values,
        .weight_size = has_weights ? (double)*width * next / values : 0,
    };
    *width = next;
    return true;
}

static bool read_chain(const json_t *json, struct arena *arena, struct chain_file *out,
                       struct err *err)
{
    *out = (struct chain_file){ 0 };
    if (!fields_read(chain_fields, LENGTH(chain_fields), json, out, err))
        return false;
    const json_t *operators = json_object_get(json, "operators");
    size_t count = json_array_size(operators);
    if (count < 1 || count > MAX_OPERATORS)
        return err_set(err, ERR_INPUT, "operators", "expected a list of 1 to %d operators",
                       MAX_OPERATORS);
    int width = out->width;
    for (size_t i = 0; i < count; i++)
        if (!add_operator(json_array_get(operators, i), &width, arena, out, err))
            return false;
    return true;
}

bool chain_file_read(const char *path, struct arena *arena, struct chain_file *out, struct err *err)
{
    struct json_file file = { 0 };
    bool ok = json_file_load(&file, path, err) &&
              (read_chain(file.root, arena, out, err) || json_file_blame(&file, err));
    json_file_release(&file);
    return ok;
}

/* --- the problem ---------------------------------------------------------------------------- */

double chain_file_unit_bytes(const struct chain_file *file)
{
    return (double)file->tokens * file->width * file->element_bytes;
}

/* The part of an operator that one rank keeps: its columns or rows of the weights, and its part of
 * an output that is split. */
static double kept_size(const struct chain_product *product, enum sharding sharding, int num_ranks)
{
    bool splits_weights = sharding == SHARDING_COLUMN || sharding == SHARDING_ROW;
    enum tensor_placement output = shardings[sharding].output;
    bool splits_output = output == PLACED_HIDDEN || output == PLACED_SEQUENCE;
    return product->weight_size / (splits_weights ? num_ranks : 1) +
           product->output_size / (splits_output ? num_ranks : 1);
}

struct partition_problem chain_file_problem(const struct chain_file *file, struct arena *arena)
{
    struct chain chain = { file->products, file->num_products, file->ranks,
                           file->has_reduce_scatter };
    struct partition_problem problem = chain_problem(&chain, arena);
    for (int i = 0; i < problem.num_operators; i++)
        for (int j = 0; j < NUM_SHARDINGS; j++)
            problem.operators[i].score[j].bytes =
                chain_file_unit_bytes(file) *
                kept_size(&file->products[i], (enum sharding)j, file->ranks);
    if (file->memory_bytes > 0)
        problem.budget_bytes = file->memory_bytes;
    return problem;
}
