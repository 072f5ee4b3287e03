/* Reads and writes the text of a plan, word by word. */
#include "sim/plan/axis.h"
#include "sim/plan/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char blanks[] = " \t\r\n";

/* text_nearest needs an array of names, so it is built in the arena. */
static bool refuse_token(const char *token, size_t letters, struct arena *arena, struct err *err)
{
    int count = plan_num_tokens();
    const char **names = ARENA_ARRAY(arena, const char *, (size_t)count);
    for (int i = 0; i < count; i++)
        names[i] = plan_token_at(i)->name;
    char *name = arena_text(arena, token);
    name[letters] = '\0';
    const char *nearest = text_nearest(name, names, (size_t)count);
    if (nearest)
        return err_set(err, ERR_USAGE, token, "unknown word \"%s\"; did you mean \"%s\"?",
                       name[0] ? name : token, nearest);
    return err_set(err, ERR_USAGE, token,
                   "unknown word \"%s\"; a layout is written like \"tp8 pp8 dp16 mb1\"",
                   name[0] ? name : token);
}

/* Reads a word such as "tp8", "tp=8" or "schedule=gpipe" into the plan. */
static bool read_token(const char *text, unsigned *seen, struct arena *arena, struct plan *plan,
                       struct err *err)
{
    size_t letters = plan_token_length(text);
    int number = plan_token_find(text, letters);
    if (number < 0)
        return refuse_token(text, letters, arena, err);
    const struct plan_token *token = plan_token_at(number);
    if (*seen >> number & 1)
        return err_set(err, ERR_USAGE, text, "%s is given twice", token->name);
    *seen |= 1u << number;

    const char *value = text + letters;
    bool has_equals = *value == '=';
    value += has_equals;
    if (has_equals ? !*value : strchr(token->form, '=') != NULL)
        return err_set(err, ERR_USAGE, text, "expected %s", token->form);
    if (token->read(token, value, arena, plan, err))
        return true;
    err_prefix(err, text);
    return false;
}

static bool was_seen(unsigned seen, const char *name)
{
    return seen >> plan_token_find(name, strlen(name)) & 1;
}

/* Words are read in lower case, but errors show the word as typed. */
static void show_as_typed(struct err *err, const char *token, const char *typed)
{
    size_t length = strlen(token);
    if (strncmp(err->where, token, length) == 0 && length < sizeof err->where)
        memcpy(err->where, typed, length);
}

struct plan plan_default(void)
{
    struct plan plan = {
        .etp = 1,
        .vpp = 1,
        .microbatch = 1,
        .precision = PRECISION_BF16,
        .gradient_dtype = DTYPE_FP32,
        .reduce_dtype = DTYPE_FP32,
    };
    for (int i = 0; i < num_axes; i++) {
        int before = i;
        for (; before > 0 && axes[plan.order[before - 1]]->place > axes[i]->place; before--)
            plan.order[before] = plan.order[before - 1];
        plan.order[before] = i;
        plan.degree[i] = 1;
    }
    return plan;
}

bool plan_parse(const char *text, struct arena *arena, struct plan *out, struct err *err)
{
    *out = plan_default();
    out->dp = 0;
    unsigned seen = 0;
    for (text += strspn(text, blanks); *text; text += strspn(text, blanks)) {
        size_t length = strcspn(text, blanks);
        char *token = arena_alloc(arena, length + 1);
        memcpy(token, text, length);
        text_lower(token);
        if (!read_token(token, &seen, arena, out, err)) {
            show_as_typed(err, token, text);
            return false;
        }
        text += length;
    }
    if (seen == 0)
        return err_set(err, ERR_USAGE, "",
                       "the layout is empty; one is written like \"tp8 pp8 dp16 mb1\"");
    if (!was_seen(seen, "grad"))
        out->gradient_dtype = (int)plan_default_gradient_dtype(out->precision);
    if (!was_seen(seen, "reduce"))
        out->reduce_dtype = out->gradient_dtype;
    return true;
}

void plan_write(const struct plan *plan, struct text *out)
{
    for (int i = 0, count = plan_num_tokens(); i < count; i++) {
        const struct plan_token *token = plan_token_at(i);
        token->write(token, plan, out);
    }
}

bool plan_equal(const struct plan *a, const struct plan *b)
{
    struct text text_a = { 0 };
    struct text text_b = { 0 };
    plan_write(a, &text_a);
    plan_write(b, &text_b);
    bool equal = strcmp(text_get(&text_a), text_get(&text_b)) == 0;
    text_release(&text_a);
    text_release(&text_b);
    return equal;
}
