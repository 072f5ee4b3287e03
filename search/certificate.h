/* search/certificate.h - a proof of a search's answer that others can check.
 *
 * It names the space value by value, then each family of plans that keeps the rules of families,
 * and why no member is faster than the answer: a floor under all of them, or member by member a
 * rule of recompute or ZeRO, memory, a bound, or its time. Families that it does not name break a
 * rule. tests/search/certificate_check.h says what a checker confirms without search/. */
#ifndef SEARCH_CERTIFICATE_H
#define SEARCH_CERTIFICATE_H

#include "search/search.h"

#include <jansson.h>

/* Whether answers to the request can be certified: of time, in the base's rank order, without
 * forbidden words, uneven chunks or a mixed recompute. */
bool certificate_can_be(const struct search_request *request, struct err *err);

/* The certificate of an answer that was proved the best of the request's space. It walks the space
 * again, so that it is the same whatever method found the answer and on however many workers. NULL
 * with an error when the space has a faster plan. */
json_t *certificate_of(const struct search_request *request, const struct scored_plan *answer,
                       struct err *err);

#endif
