#include "base/length.h"
#include "search/method.h"
#include "search/search.h"

#include <string.h>

const struct search_method search_methods[] = {
    { "bnb", "branch and bound: examines families of plans by rising lower bound of their times",
      "Land and Doig 1960", bnb_run, false },
    { "dp",
      "like bnb; then a dynamic program divides the layers over the stages, and proves its "
      "division the best",
      "Bellman 1957", dp_run, false },
    { "milp",
      "like bnb; then an integer program divides the layers over the stages, and its few best "
      "divisions are timed",
      "Zheng et al. 2022, section 5; solved by GLPK", milp_run, false },
    { "exhaustive", "evaluates every plan that keeps the rules and fits", "", exhaustive_run,
      false },
    { "zo", "simulated annealing and an evolution strategy, within a budget",
      "Kirkpatrick, Gelatt and Vecchi 1983; Rechenberg 1973", zeroth_order_run, true },
    { "rl", "a policy learnt by REINFORCE, within a budget", "Williams 1992", reinforce_run, true },
    { "random", "plans drawn at random, as a baseline", "Bergstra and Bengio 2012", random_run,
      true },
};
const int num_search_methods = LENGTH(search_methods);

const struct search_method *search_method_find(const char *name)
{
    for (int i = 0; i < num_search_methods; i++)
        if (strcmp(search_methods[i].name, name) == 0)
            return &search_methods[i];
    return NULL;
}

bool search_method_divides(const struct search_method *method)
{
    return method->run == bnb_run || method->run == dp_run || method->run == milp_run;
}

bool search_method_joins(const struct search_method *method)
{
    return method->run == milp_run;
}
