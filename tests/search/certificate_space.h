/* ^  - derives from the space's words the list of values of each word, independently of
 * search/space.h. */
#ifndef TESTS_SEARCH_CERTIFICATE_SPACE_H
#define TESTS_SEARCH_CERTIFICATE_SPACE_H

#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

#include <jansson.h>

struct named_space {
    const json_t *lists; /* the certificate's lists */
    const struct plan *base;
    const struct system *system;
    const struct model *model;
    struct err *err;
};

/* Whether --fix has this word: the letters of its name, then a digit, '=' or its end. */
bool space_fixes(const struct named_space *space, const char *word);

/* The enum recompute of entry i of the list; -1 if the word is unknown. */
int space_recompute(const struct named_space *space, size_t i);

static inline int number_at(const json_t *list, size_t i)
{
    return (int)json_integer_value(json_array_get(list, i));
}

/* Whether each list is the default list, or has one value if the word is fixed. The splits must
 * include the even ones, and those that count the embedding, the loss or both as a layer. */
bool space_has_usual_lists(const struct named_space *space);

#endif
