/* search/words.h - layout words that narrow a space: fixed and forbidden words.
 *
 * Words are those of a layout, separated by blanks: "tp8 sp zero1". */
#ifndef SEARCH_WORDS_H
#define SEARCH_WORDS_H

#include "base/arena.h"
#include "base/err.h"
#include "sim/plan/plan.h"

/* Skips leading blanks. */
const char *words_begin(const char *words);

/* A copy, in the arena, of the next word of *rest, which advances; NULL past the last. */
char *words_next(const char **rest, struct arena *arena);

/* The set of tokens that the words name: bit i is token number i. Unknown words add none. */
unsigned words_tokens(const char *words, struct arena *arena);
bool words_have(unsigned tokens, const char *name);

/* Builds a plan from the fixed words, whose tokens are `fixed`, and the base's words for all other
 * tokens. False when a word is unknown: where = the word. */
bool words_apply(const struct plan *base, const char *fix, unsigned fixed, struct arena *arena,
                 struct plan *out, struct err *err);

struct forbidden_word;

struct forbidden {
    struct forbidden_word *at; /* in the arena */
    int count;
};

/* "tp8" forbids one value; "pp" forbids every value but the default. Of the word "sp", which has no
 * value, both readings forbid sequence parallelism. `out` is zeroed. */
bool forbidden_read(const char *words, struct arena *arena, struct forbidden *out, struct err *err);

/* Whether the plan's value of a token is allowed. */
bool forbidden_allows(const struct forbidden *forbidden, const char *token,
                      const struct plan *plan);

#endif
