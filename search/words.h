/* search/words.h - layout words that narrow a space: fixed ones and forbidden ones.
 *
 * Words are as a layout has them, between blanks: "tp8 sp zero1". */
#ifndef SEARCH_WORDS_H
#define SEARCH_WORDS_H

#include "base/arena.h"
#include "base/err.h"
#include "sim/plan/plan.h"

/* The words without the blanks before them. */
const char *words_begin(const char *words);

/* The next word of *rest, which moves on, as a copy in the arena; NULL past the last. */
char *words_next(const char **rest, struct arena *arena);

/* The tokens that the words name: bit i is plan_tokens[i]. Unknown words have none. */
unsigned words_tokens(const char *words, struct arena *arena);
bool words_have(unsigned tokens, const char *name);

/* Applies the fixed words, whose tokens are `fixed`, and the base's own words for all other tokens.
 * False when a word is unknown: where = the word. */
bool words_apply(const struct plan *base, const char *fix, unsigned fixed, struct arena *arena,
                 struct plan *out, struct err *err);

struct forbidden_word;

struct forbidden {
    struct forbidden_word *at; /* in the arena */
    int count;
};

/* "tp8" forbids one value; "pp" every value but the default; for "sp" both are the
 * same. `out` is zeroed. */
bool forbidden_read(const char *words, struct arena *arena, struct forbidden *out, struct err *err);

/* Whether the plan's value of one token is not forbidden. */
bool forbidden_allows(const struct forbidden *forbidden, const char *token,
                      const struct plan *plan);

#endif
