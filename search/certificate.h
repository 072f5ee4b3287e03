/* search/certificate.h - a proof of a search's answer that others can check.
 *
 * The certificate names the space by the layout words that the request fixes (such as tp8). It
 * lists the splits (divisions of layers over stages) and each family of plans that breaks no rule.
 * A family is a set of plans that differ only in recompute and ZeRO. For each family it states why
 * no member is faster than the answer. Either a lower bound of all members' times or of their
 * memory shows it, or each member has its own reason: it breaks a rule of recompute or ZeRO (then
 * it is not listed), exceeds the memory, or has a bound or a time that is not below the answer's.
 * Families and members that are not listed break a rule. If no plan is feasible, the answer is null
 * and memory rules out every member. tests/search/certificate_check.h says what a checker confirms
 * without search/. */
#ifndef SEARCH_CERTIFICATE_H
#define SEARCH_CERTIFICATE_H

#include "search/search.h"

#include <jansson.h>

/* Whether answers to the request can be certified. The objective must be time, and the only rank
 * order must be that of the base plan. Forbidden words, uneven stages, mixed recompute and an added
 * plan (`also`) are not supported. */
bool certificate_can_be(const struct search_request *request, struct err *err);

/* The certificate of an answer that was proved to be the best of the request's space. It walks the
 * space again, so it does not depend on the method that found the answer or on the number of
 * workers. `answer` NULL: no plan of the space is feasible. NULL with an error when the space has a
 * plan that is faster than the answer, or any feasible plan although `answer` is NULL. */
json_t *certificate_of(const struct search_request *request, const struct scored_plan *answer,
                       struct err *err);

#endif
