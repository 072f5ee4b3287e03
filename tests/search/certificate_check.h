/* tests/search/certificate_check.h - confirms a search's certificate without the search.
 *
 * It uses the grammar, the rules and the predictions of plans alone. It confirms that
 * - every combination of the values that the space's fixed words leave, and of its splits, is a
 *   family, or breaks a rule in all members; no usual split is missing;
 * - a family that a floor rules out has no member below the floor, and the floor is above the
 *   answer's time, or above the memory that may be planned; of the other families, that every
 * member breaks a rule, takes more memory than may be planned, has a bound above the answer and no
 * time below the bound, or takes the time that is stated, which is no less than the answer's;
 * - the answer is one of the members that were timed; where it is null, memory rules out all.
 * Members of more than a few thousand families are a sample: those of every so many families. */
#ifndef TESTS_SEARCH_CERTIFICATE_CHECK_H
#define TESTS_SEARCH_CERTIFICATE_CHECK_H

#include "sim/cost/hardware.h"

#include <jansson.h>

/* where = the part of the certificate that does not hold. */
bool certificate_check(const json_t *certificate, const struct system *system,
                       const struct model *model, struct err *err);

#endif
