/* search/search.h - the best plans of a named space, and why other candidates are excluded.
 *
 * A search walks a space of candidate plans (search/space) with a method, scores them with
 * sim/engine and keeps the best. The answer does not depend on the number of jobs. */
#ifndef SEARCH_SEARCH_H
#define SEARCH_SEARCH_H

#include "base/arena.h"
#include "base/err.h"
#include "search/request.h"
#include "search/result.h"
#include "sim/engine/simulate.h"

/* Sets chunks, and for SEARCH_ALL all that the request's method can add to the space. */
void search_set_space(struct search_request *request, enum search_space space);
/* In words, what the request's space leaves out and the option that adds it; "" where nothing. */
const char *search_leaves_out(const struct search_request *request, struct arena *arena);

struct search; /* search/method.h */

/* One way to search. Add yours to `search_methods` in methods.c. */
struct search_method {
    const char *name;
    const char *summary;
    const char *source;
    bool (*run)(const struct search *search, struct search_result *result, struct err *err);
    bool is_drawn; /* a random method: takes a budget and a seed */
};
extern const struct search_method search_methods[];
extern const int num_search_methods;
const struct search_method *search_method_find(const char *name);
/* Whether it supports the constraints on all stages together. */
bool search_method_joins(const struct search_method *method);
/* Whether it supports `uneven` and `recompute_mixes`. */
bool search_method_divides(const struct search_method *method);

/* False only when the request is wrong (unknown words in fix, unknown method ...). No feasible plan
 * is an answer: num_top is 0 and the exclusions say why. Release the result in either case. */
bool search_run(const struct search_request *request, struct search_result *result,
                struct err *err);
/* At most this share of the best plan's time can still be saved: 0 when it is proved, 1 when
 * nothing is known. */
double search_gap(const struct search_result *result);
void search_result_release(struct search_result *result);

/* The request whose space has this plan too: its values are added to the lists, its rank order and
 * its words that are not searched take the place of the base's. `plan` must outlast it. */
struct search_request search_including(const struct search_request *request,
                                       const struct plan *plan);

/* The rank of a layout among all plans of the space that fit: 1 is the best. */
struct rank_result {
    struct scored_plan plan;
    bool is_valid;   /* keeps all rules; else the error names the broken one */
    double rank, of; /* its rank, and the number of plans of the space that fit; rank 0 when it does
                        not fit or the search ended early */
    double lost_share; /* step time / best step time - 1 */
};
/* A plan from outside the space ranks right behind the better ones. False only when the
 * request is wrong: a plan that breaks a rule is an answer. */
bool search_rank(const struct search_request *request, const struct search_result *result,
                 const struct plan *plan, struct arena *arena, struct rank_result *out,
                 struct err *err);

#endif
