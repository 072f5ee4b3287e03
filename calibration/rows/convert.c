/* Converts a measured row (a published run) to a model, a system and a plan. */
#include "base/length.h"
#include "base/text.h"
#include "calibration/rows/convert_part.h"

#include <math.h>
#include <string.h>

/* --- helpers for all parts ----------------------------------------------------------------- */

bool row_skip(struct err *err, const char *column, const char *reason)
{
    return err_set(err, ERR_INFEASIBLE, column, "%s %s", column, reason);
}

bool row_count(double value, const char *column, int *out, struct err *err)
{
    enum { MOST = 1 << 30 };
    if (!row_is_stated(value))
        return row_skip(err, column, "is not stated");
    if (value < 1 || value > MOST || value != floor(value))
        return row_skip(err, column, "is not a whole number from 1 to 2^30");
    *out = (int)value;
    return true;
}

bool row_count_or(double value, const char *column, int fallback, int *out, struct err *err)
{
    *out = fallback;
    return !row_is_stated(value) || row_count(value, column, out, err);
}

void convert_assume(const struct conversion *of, const char *text)
{
    if (*text && of->out->num_assumptions < MAX_ASSUMPTIONS)
        of->out->assumptions[of->out->num_assumptions++] = text;
}

/* --- the row ------------------------------------------------------------------------------- */

/* Reads the kind of measured memory. By default it is allocated bytes, which frameworks print. */
static void read_memory_kind(const struct conversion *of)
{
    static const struct {
        const char *words; /* pattern of match_text */
        enum memory_kind kind;
    } kinds[] = {
        { "nvidia-smi|driver", MEMORY_DRIVER },
        { "reserved", MEMORY_RESERVED },
        { "allocated", MEMORY_ALLOCATED },
    };
    const struct run_row *row = of->row;
    for (size_t i = 0; i < LENGTH(kinds); i++)
        if (match_text(kinds[i].words, row->mem_kind)) {
            of->out->memory_kind = kinds[i].kind;
            return;
        }
    of->out->memory_kind = MEMORY_ALLOCATED;
    if (row->measured_mem_gb > 0)
        convert_assume(of, "mem_kind not stated: allocated memory");
}

static void read_inferred(const struct conversion *of)
{
    struct text words = { 0 };
    if (!*of->row->inferred)
        return;
    text_add(&words, "inferred when the row was collected: %.100s", of->row->inferred);
    convert_assume(of, text_keep(&words, &of->systems->arena));
}

static bool is_listed(char (*fitted)[40], int count, const struct run_row *row)
{
    for (int i = 0; i < count; i++)
        if (strcmp(fitted[i], row->id) == 0 || strcmp(fitted[i], row->source_key) == 0)
            return true;
    return false;
}

bool run_convert(struct run_systems *systems, const struct run_row *row, struct run_case *out,
                 struct err *err)
{
    struct conversion of = { .systems = systems,
                             .row = row,
                             .out = out,
                             .recompute = row->recompute,
                             .optimizer = OPTIMIZER_ADAM };
    struct err reason = { 0 };
    memset(out, 0, sizeof *out);
    out->row = row;
    out->skip = "";
    out->is_moe = row->experts > 0;
    bool ok = convert_system(&of, &reason, err) && convert_model(&of, &reason) &&
              convert_plan(&of, &reason);
    if (err->code != ERR_NONE)
        return false;
    if (!ok) {
        out->skip = arena_text(&systems->arena, reason.msg);
        return true;
    }
    read_memory_kind(&of);
    read_inferred(&of);
    const struct profile *profile = &out->system->profile;
    const struct stack *stack = &out->system->stack;
    out->is_fitted = is_listed(profile->fitted, profile->num_fitted, row) ||
                     is_listed(stack->fitted, stack->num_fitted, row);
    return true;
}
