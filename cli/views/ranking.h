/* cli/views/ranking.h - prints the answer of a search that found plans. */
#ifndef CLI_VIEWS_RANKING_H
#define CLI_VIEWS_RANKING_H

#include "cli/views/finalists.h"
#include "cli/views/nearby_view.h"
#include "cli/views/robust_view.h"
#include "cli/views/similar_plans.h"
#include "cli/views/tight_view.h"
#include "cli/views/tipping_view.h"
#include "cli/views/wider_view.h"

/* The layout of --compare; `rank` is NULL without --compare. */
struct comparison {
    const struct standing *rank;
    const char *reason; /* reason why it is not valid */
    bool left_out;      /* the space lacked this faster layout, which was then added */
};

/* The part of an answer below its header. */
struct ranking {
    const struct search_result *result; /* the best plan of each kind */
    const struct kinds *kinds;
    const struct comparison *comparison;
    const struct robust_view *robust;
    const struct region *region; /* NULL: not requested */
    const struct finalists *finalists;
    /* plan with a high risk of running out of memory; NULL: none */
    const struct scored_plan *tight;
    const struct nearby_view *nearby;
    const struct tipping_view *tipping;
    const struct wider_view *wider;
};

void show_ranking(const struct options *options, const struct setup *setup,
                  const struct ranking *ranking);

#endif
