#include "sim/plan/token.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char blanks[] = " \t\r\n";

static const struct plan_token *token_find(const char *name, size_t length)
{
    for (int i = 0; i < num_plan_tokens; i++)
        if (strlen(plan_tokens[i].name) == length && memcmp(plan_tokens[i].name, name, length) == 0)
            return &plan_tokens[i];
    return NULL;
}

/* The names are copied to an array in the arena, as text_nearest needs one. */
static bool refuse_token(const char *token, size_t letters, struct arena *arena, struct err *err)
{
    const char **names = ARENA_ARRAY(arena, const char *, (size_t)num_plan_tokens);
    for (int i = 0; i < num_plan_tokens; i++)
        names[i] = plan_tokens[i].name;
    char *name = arena_text(arena, token);
    name[letters] = '\0';
    const char *nearest = text_nearest(name, names, (size_t)num_plan_tokens);
    if (nearest)
        return err_set(err, ERR_USAGE, token, "unknown word \"%s\"; did you mean \"%s\"?",
                       name[0] ? name : token, nearest);
    return err_set(err, ERR_USAGE, token,
                   "unknown word \"%s\"; a layout is written like \"tp8 pp8 dp16 mb1\"",
                   name[0] ? name : token);
}

/* "tp8", "tp=8" or "schedule=gpipe" into the plan. */
static bool read_token(const char *text, unsigned *seen, struct arena *arena, struct plan *plan,
                       struct err *err)
{
    size_t letters = plan_token_length(text);
    const struct plan_token *token = token_find(text, letters);
    if (!token)
        return refuse_token(text, letters, arena, err);
    if (*seen >> (token - plan_tokens) & 1)
        return err_set(err, ERR_USAGE, text, "%s is given twice", token->name);
    *seen |= 1u << (token - plan_tokens);

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
    return seen >> (token_find(name, strlen(name)) - plan_tokens) & 1;
}

/* Words are read in lower case, but errors show the word as typed. */
static void show_as_typed(struct err *err, const char *token, const char *typed)
{
    size_t length = strlen(token);
    if (strncmp(err->where, token, length) == 0 && length < sizeof err->where)
        memcpy(err->where, typed, length);
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
    for (int i = 0; i < num_plan_tokens; i++)
        plan_tokens[i].write(&plan_tokens[i], plan, out);
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
