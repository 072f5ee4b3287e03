/* sim/plan/tokens.h - all words of the layout grammar: first those of each axis, then the rest. */
#ifndef SIM_PLAN_TOKENS_H
#define SIM_PLAN_TOKENS_H

#include "sim/plan/token.h"

/* Words are numbered from 0. */
int plan_num_tokens(void);
const struct plan_token *plan_token_at(int number);
/* The number of the word whose name is the first `length` letters of `name`; -1 if there is
 * none. */
int plan_token_find(const char *name, size_t length);

/* Length of the name at the start of a word: 2 in "tp8", 7 in "cp-comm=a2a". */
size_t plan_token_length(const char *word);

/* The default of grad=. */
enum dtype plan_default_gradient_dtype(int precision);

#endif
