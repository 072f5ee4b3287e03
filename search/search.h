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

/* Sets the request's fields for a named space. SEARCH_ALL adds everything that the request's method
 * supports. */
void search_set_space(struct search_request *request, enum search_space space);
/* Whether the space has every set of recomputed modules unless an option restricts it. This is so
 * if the stack can repeat any set. It is not so with OBJECTIVE_MEMORY, because modules are chosen
 * for the shortest step. */
bool search_picks_parts(const struct search_request *request);
/* The kinds of plans that the request's space leaves out, separated by commas, each with the option
 * that adds it; "" if it leaves out none. */
const char *search_leaves_out(const struct search_request *request, struct arena *arena);

struct search;

/* A search method. To add one, extend `search_methods` in methods.c. */
struct search_method {
    const char *name;
    const char *summary;
    const char *source;
    bool (*run)(const struct search *search, struct search_result *result, struct err *err);
    bool is_drawn; /* whether it is a random method, which takes a budget and a seed */
};
extern const struct search_method search_methods[];
extern const int num_search_methods;
const struct search_method *search_method_find(const char *name);
/* Whether the method supports the constraints on all stages together. */
bool search_method_joins(const struct search_method *method);
/* Whether the method supports `uneven` and `recompute_mixes`. */
bool search_method_divides(const struct search_method *method);

/* False only when the request is wrong (unknown words in fix, unknown method ...). If no plan is
 * feasible, it returns true, num_top is 0 and the exclusions give the reasons. Release the result
 * in either case. */
bool search_run(const struct search_request *request, struct search_result *result,
                struct err *err);
/* The optimality gap: the largest fraction of the best plan's time that another plan could save. 0:
 * proved optimal; 1: nothing is known. */
double search_gap(const struct search_result *result);
void search_result_release(struct search_result *result);

/* A copy of the request whose space also contains `plan`: the plan's values are added to the lists
 * of the searched words; its rank order and its words that are not searched replace those of the
 * base plan. `plan` must outlast the copy. */
struct search_request search_including(const struct search_request *request,
                                       const struct plan *plan);

/* The rank of a layout among all plans of the space that fit: 1 is the best. */
struct standing {
    struct scored_plan plan;
    bool is_valid;   /* whether the plan keeps all rules; if not, the error names the broken rule */
    double rank, of; /* rank of the plan among the `of` plans that fit; 0: it does not fit, or the
                        search ended early */
    double lost_share; /* step time / best step time - 1 */
};
/* A plan outside the space ranks directly after the plans that are better. Returns false only when
 * the request is wrong; a plan that breaks a rule is no error. */
bool search_standing(const struct search_request *request, const struct search_result *result,
                     const struct plan *plan, struct arena *arena, struct standing *out,
                     struct err *err);

#endif
