/* tests/search/certificate_check.h - checks the certificate of a search (`search --certificate`)
 * without using the search.
 *
 * It uses only the layout grammar, the rules and the predictions of single plans. It checks that -
 * every combination of the values left by the space's fixed words, and of its splits, belongs to a
 * family or breaks a rule in all members; and that no usual split is missing; - a family that a
 * lower bound (floor) rules out has no member below that bound, and the bound exceeds the answer's
 * time or the memory that may be planned; - every member of the other families either breaks a
 * rule, or needs more memory than may be planned, or has a lower bound above the answer's time and
 * no time below that bound, or takes the stated time, which is at least the answer's; - the answer
 * is one of the timed members; if it is null, memory rules out all members. If there are more than
 * a few thousand families, only the members of every n-th family are checked. */
#ifndef TESTS_SEARCH_CERTIFICATE_CHECK_H
#define TESTS_SEARCH_CERTIFICATE_CHECK_H

#include "sim/cost/hardware.h"

#include <jansson.h>

/* where = the part of the certificate that does not hold. */
bool certificate_check(const json_t *certificate, const struct system *system,
                       const struct model *model, struct err *err);

#endif
