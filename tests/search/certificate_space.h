/* tests/search/certificate_space.h - the lists that span a space of plans, as its words define
 * them: what search/space.h says, derived once more. */
#ifndef TESTS_SEARCH_CERTIFICATE_SPACE_H
#define TESTS_SEARCH_CERTIFICATE_SPACE_H

#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

#include <jansson.h>

struct named_space {
    const json_t *lists; /* the certificate's */
    const struct plan *base;
    const struct system *system;
    const struct model *model;
    struct err *err;
};

/* Whether --fix has this word: the letters of its name, then a digit, '=' or its end. */
bool space_fixes(const struct named_space *space, const char *word);

/* The enum recompute at this place of the list; -1: no such word. */
int space_recompute(const struct named_space *space, size_t i);

static inline int number_at(const json_t *list, size_t i)
{
    return (int)json_integer_value(json_array_get(list, i));
}

/* Whether each list is the default one, or of one value where that is fixed; of splits, that the
 * even ones are there, and those with the embedding, the loss or both counted as a layer. */
bool space_has_usual_lists(const struct named_space *space);

#endif
