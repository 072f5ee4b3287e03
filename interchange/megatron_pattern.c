/* Reads Megatron-LM's patterns of layers, such as the layers that have experts. */
#include "interchange/megatron.h"

#include "base/text.h"
#include "models/blocks.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char frequency_flag[] = "--moe-layer-freq";
enum { MOST_LETTERS = 1 << 16, DEEPEST = 8 };

/* Reads a repeat count like "*12" after a letter or bracket; 1 if there is none. */
static int read_times(const char **at)
{
    if (**at != '*')
        return 1;
    char *end;
    long times = strtol(*at + 1, &end, 10);
    if (end == *at + 1 || times < 1 || times > MOST_LETTERS)
        return -1;
    *at = end;
    return (int)times;
}

static bool repeat(struct text *out, size_t from, int times)
{
    size_t length = out->length - from;
    if (times < 1 || (double)length * times > MOST_LETTERS)
        return false;
    for (int i = 1; i < times; i++)
        for (size_t k = 0; k < length; k++)
            text_add(out, "%c", out->at[from + k]);
    return true;
}

const char *megatron_frequency_write(const struct model *model, struct arena *arena)
{
    struct text out = { 0 };
    int layers = model->layers;
    bool all = true;
    for (int i = 0; i < layers;) {
        int run = 1;
        bool experts =
            model_kind(model, model_kind_of(model, i)).feed_forward == FEED_FORWARD_EXPERTS;
        while (i + run < layers && (model_kind(model, model_kind_of(model, i + run)).feed_forward ==
                                    FEED_FORWARD_EXPERTS) == experts)
            run++;
        text_add(&out, "%s[%d]*%d", i ? "+" : "(", experts, run);
        all = all && experts;
        i += run;
    }
    text_add(&out, ")");
    const char *kept = all ? NULL : arena_text(arena, text_get(&out));
    text_release(&out);
    return kept;
}

/* Converts a Python list of 0 and 1 to letters: [0]*3+[1,1] becomes "00011". */
static bool read_list(const char **at, struct text *out, int depth);

static bool read_item(const char **at, struct text *out, int depth)
{
    size_t from = out->length;
    if (**at == '(') {
        ++*at;
        if (depth == DEEPEST || !read_list(at, out, depth + 1) || *(*at)++ != ')')
            return false;
    } else if (**at == '[') {
        do {
            ++*at;
            if (**at != '0' && **at != '1')
                return false;
            text_add(out, "%c", *(*at)++);
        } while (**at == ',');
        if (*(*at)++ != ']')
            return false;
    } else {
        return false;
    }
    while (**at == '*') {
        int times = read_times(at);
        if (times < 0 || !repeat(out, from, times))
            return false;
    }
    return true;
}

static bool read_list(const char **at, struct text *out, int depth)
{
    if (!read_item(at, out, depth))
        return false;
    while (**at == '+') {
        ++*at;
        if (!read_item(at, out, depth))
            return false;
    }
    return true;
}

/* Reads a step: with "2", layers 0, 2, 4 ... have experts. */
static bool read_ratio(const char *text, int layers, struct text *out)
{
    char *end;
    long step = strtol(text, &end, 10);
    if (*end || end == text || step < 1)
        return false;
    for (int i = 0; i < layers; i++)
        text_add(out, "%d", i % step == 0);
    return true;
}

static bool is_pattern(const char *letters, int layers, int first_dense, int step)
{
    for (int i = 0; i < layers; i++)
        if ((letters[i] == '1') != (i >= first_dense && (i - step + 1) % step == 0))
            return false;
    return true;
}

/* Sets first_dense and moe_step of the model from letters. A layer has experts if its index,
 * counted from 0, is at least first_dense and is moe_step - 1 plus a multiple of moe_step. */
static bool set_pattern(const char *letters, struct model *model, struct err *err)
{
    int dense = (int)strspn(letters, "0");
    for (int step = 1; step <= 8; step++)
        for (int first = step == 1 ? dense : 0; first <= dense; first++)
            if (is_pattern(letters, model->layers, first, step)) {
                model->first_dense = first;
                model->moe_step = step;
                return true;
            }
    return err_set(err, ERR_INPUT, frequency_flag,
                   "expected dense layers first, then every N-th layer with experts; other "
                   "patterns are not modelled");
}

bool megatron_frequency_read(const char *text, struct model *model, struct err *err)
{
    struct text letters = { 0 }, packed = { 0 };
    for (const char *c = text; *c; c++)
        if (!isspace((unsigned char)*c))
            text_add(&packed, "%c", *c);
    const char *at = text_get(&packed);
    bool ok = strpbrk(at, "[(") ? read_list(&at, &letters, 0) && !*at
                                : read_ratio(at, model->layers, &letters);
    if (!ok)
        err_set(err, ERR_INPUT, frequency_flag,
                "expected a number, or a list like \"([0]*3+[1]*58)\", found \"%.80s\"", text);
    else if (letters.length != (size_t)model->layers)
        ok = err_set(err, ERR_INPUT, frequency_flag, "lists %zu layers, but the model has %d",
                     letters.length, model->layers);
    ok = ok && set_pattern(text_get(&letters), model, err);
    text_release(&letters);
    text_release(&packed);
    return ok;
}
