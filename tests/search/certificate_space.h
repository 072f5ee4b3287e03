/* tests/search/certificate_space.h - the values that a search tries for each layout word (tp, pp,
 * ...), derived from the words of --fix without search/space.h. */
#ifndef TESTS_SEARCH_CERTIFICATE_SPACE_H
#define TESTS_SEARCH_CERTIFICATE_SPACE_H

#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

#include <jansson.h>

struct named_space {
    const json_t *lists; /* the lists of values in the certificate */
    const struct plan *base;
    const struct system *system;
    const struct model *model;
    struct err *err;
};

/* Whether --fix has this word: the letters of the word's name, followed by a digit, by '=' or by
 * the end of the word. */
bool space_fixes(const struct named_space *space, const char *word);

/* Converts entry i of the list of recompute words to enum recompute; -1 if the word is unknown. */
int space_recompute(const struct named_space *space, size_t i);

static inline int number_at(const json_t *list, size_t i)
{
    return (int)json_integer_value(json_array_get(list, i));
}

/* Whether each list equals the default list, or has one value if the word is fixed. The splits of
 * layers over stages must include the even ones, and the ones that count the embedding, the loss or
 * both as one layer. */
bool space_has_usual_lists(const struct named_space *space);

#endif
