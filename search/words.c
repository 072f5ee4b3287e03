#include "search/words.h"

#include "base/text.h"
#include "sim/plan/tokens.h"

#include <string.h>

/* A word of `forbid`: it forbids one value, or all values but the default. */
struct forbidden_word {
    const struct plan_token *token;
    struct plan plan; /* a plan that has the forbidden value */
    bool all_others;
};

static const char blanks[] = " \t\r\n";

const char *words_begin(const char *words)
{
    return words + strspn(words, blanks);
}

char *words_next(const char **rest, struct arena *arena)
{
    *rest += strspn(*rest, blanks);
    size_t length = strcspn(*rest, blanks);
    if (length == 0)
        return NULL;
    char *word = arena_alloc(arena, length + 1);
    memcpy(word, *rest, length);
    text_lower(word);
    *rest += length;
    return word;
}

/* The token whose name the word begins with, NULL when there is none. */
static const struct plan_token *token_of(const char *word)
{
    int number = plan_token_find(word, plan_token_length(word));
    return number < 0 ? NULL : plan_token_at(number);
}

static unsigned token_bit(const char *word)
{
    int number = plan_token_find(word, plan_token_length(word));
    return number < 0 ? 0 : 1u << number;
}

bool words_have(unsigned tokens, const char *name)
{
    return (tokens & token_bit(name)) != 0;
}

unsigned words_tokens(const char *words, struct arena *arena)
{
    unsigned tokens = 0;
    for (char *word; (word = words_next(&words, arena));)
        tokens |= token_bit(word);
    return tokens;
}

bool words_apply(const struct plan *base, const char *fix, unsigned fixed, struct arena *arena,
                 struct plan *out, struct err *err)
{
    *out = *base;
    if (*words_begin(fix) == '\0')
        return true;
    struct text own = { 0 };
    struct text merged = { 0 };
    plan_write(base, &own);
    const char *rest = text_get(&own);
    for (char *word; (word = words_next(&rest, arena));)
        if (!(fixed & token_bit(word)))
            text_add(&merged, "%s ", word);
    text_add(&merged, "%s", fix);
    bool ok = plan_parse(text_get(&merged), arena, out, err);
    text_release(&own);
    text_release(&merged);
    return ok;
}

static bool read_forbidden(const char *word, struct arena *arena, struct forbidden_word *out,
                           struct err *err)
{
    out->token = token_of(word);
    out->plan = plan_default();
    out->all_others = out->token && strcmp(word, out->token->name) == 0;
    return out->all_others || plan_parse(word, arena, &out->plan, err);
}

bool forbidden_read(const char *words, struct arena *arena, struct forbidden *out, struct err *err)
{
    out->at = ARENA_ARRAY(arena, struct forbidden_word, strlen(words) / 2 + 1);
    for (char *word; (word = words_next(&words, arena));)
        if (!read_forbidden(word, arena, &out->at[out->count++], err))
            return false;
    return true;
}

static bool has_schedule_token(const struct plan_token *token)
{
    return strcmp(token->name, "schedule") == 0;
}

/* Compares values as text. Schedules are compared by name, because a layout omits the schedule that
 * its vpp implies. */
static bool matches(const struct forbidden_word *word, const struct plan *plan)
{
    if (has_schedule_token(word->token) && !word->all_others)
        return strcmp(plan_schedule(&word->plan), plan_schedule(plan)) == 0;
    struct text theirs = { 0 };
    struct text ours = { 0 };
    word->token->write(word->token, &word->plan, &theirs);
    word->token->write(word->token, plan, &ours);
    bool equal = strcmp(text_get(&theirs), text_get(&ours)) == 0;
    text_release(&theirs);
    text_release(&ours);
    return equal != word->all_others;
}

bool forbidden_allows(const struct forbidden *forbidden, const char *token, const struct plan *plan)
{
    for (int i = 0; i < forbidden->count; i++)
        if (strcmp(forbidden->at[i].token->name, token) == 0 && matches(&forbidden->at[i], plan))
            return false;
    return true;
}
