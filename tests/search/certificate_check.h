/* tests/search/certificate_check.h - checks the certificate of a search (`search --certificate`)
 * without using the search.
 *
 * It uses only the layout grammar, the rules and the predictions of single plans. It derives the
 * space from the name of the space, the fixed words and the splits (divisions of layers over
 * stages) in the certificate. A family is a set of plans, its members, that differ only in ZeRO
 * and recompute. The check fails if
 *
 * - a split that belongs to the named space is missing, or a combination of values breaks no
 * rule but is in no family; - a family that a lower bound rules out has a member below that
 * bound, or the bound exceeds neither the answer's time nor the memory that may be planned; - a
 * member of a family that no bound rules out breaks no rule and fits, but has no valid lower
 * bound above the answer's time, and its stated time is wrong or shorter than the answer's; -
 * the answer is not one of the timed members, or is null although a member fits.
 *
 * The certificate has one row per member of a family that no single bound rules out. A row with
 * "every set" rules out all sets of modules for selective recompute; each set is checked. The
 * members of a family without rows are always checked if there are at most CERTIFICATE_SAMPLED
 * families, otherwise only in every n-th family. */
#ifndef TESTS_SEARCH_CERTIFICATE_CHECK_H
#define TESTS_SEARCH_CERTIFICATE_CHECK_H

#include "sim/cost/hardware.h"

#include <jansson.h>

/* If there are at most this many families, the members of every family are checked. */
enum { CERTIFICATE_SAMPLED = 4000 };

/* On failure `where` names the part of the certificate that is wrong. */
bool certificate_check(const json_t *certificate, const struct system *system,
                       const struct model *model, struct err *err);

#endif
