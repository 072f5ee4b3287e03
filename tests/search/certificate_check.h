/* tests/search/certificate_check.h - checks the certificate of a search (`search --certificate`)
 * without using the search.
 *
 * It uses only the layout grammar, the rules and the predictions of single plans. It derives the
 * space from the certificate's name of it, its fixed words and its splits, and refuses a
 * certificate in which
 *
 *   - a usual split is missing, or a combination of values is in no family and keeps every rule;
 *   - a family that a lower bound (floor) rules out has a member below that bound, or the bound
 *     exceeds neither the answer's time nor the memory that may be planned;
 *   - a member of another family keeps every rule, fits, has no lower bound above the answer's time
 *     that it does not undercut, and does not take the stated time, at least the answer's;
 *   - the answer is not one of the timed members, or is null although a member fits.
 *
 * A row with "every set" rules out all sets of parts of selective recompute, each of which
 * is checked. If there are more than a few thousand families, only the members of every n-th family
 * without rows are checked. */
#ifndef TESTS_SEARCH_CERTIFICATE_CHECK_H
#define TESTS_SEARCH_CERTIFICATE_CHECK_H

#include "sim/cost/hardware.h"

#include <jansson.h>

/* where = the part of the certificate that does not hold. */
bool certificate_check(const json_t *certificate, const struct system *system,
                       const struct model *model, struct err *err);

#endif
