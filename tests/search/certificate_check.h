/* tests/search/certificate_check.h - checks the certificate of a search (`search --certificate`)
 * without using the search.
 *
 * It uses only the layout grammar, the rules and the predictions of single plans. It derives the
 * space from the name of the space, the fixed words and the splits (divisions of layers over
 * stages) in the certificate. A family is the set of plans that differ only in ZeRO and recompute.
 * The check fails if
 *
 *   - a usual split is missing, or a combination of values breaks no rule but is in no family;
 *   - a family that a lower bound rules out has a member below that bound, or the bound exceeds
 *     neither the answer's time nor the memory that may be planned;
 *   - a member of another family breaks no rule and fits, but it has no valid lower bound above the
 *     answer's time, and its stated time is wrong or shorter than the answer's;
 *   - the answer is not one of the timed members, or is null although a member fits.
 *
 * A member's row with "every set" rules out all sets of modules for selective recompute; each set
 * is checked. If there are more than CERTIFICATE_SAMPLED families, only the members of every n-th
 * family without rows are checked. */
#ifndef TESTS_SEARCH_CERTIFICATE_CHECK_H
#define TESTS_SEARCH_CERTIFICATE_CHECK_H

#include "sim/cost/hardware.h"

#include <jansson.h>

/* Up to this number of families the members of all are checked. */
enum { CERTIFICATE_SAMPLED = 4000 };

/* On failure `where` names the part of the certificate that is wrong. */
bool certificate_check(const json_t *certificate, const struct system *system,
                       const struct model *model, struct err *err);

#endif
