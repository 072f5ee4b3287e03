#include "search/method.h"

#include <string.h>

const struct search_method search_methods[] = {
    { "bnb", "branch and bound: families of plans by a floor under their times, until none is left",
      "Land and Doig 1960", bnb_run },
    { "exhaustive", "evaluates every plan that keeps the rules and fits", "", exhaustive_run },
};
const int num_search_methods = sizeof search_methods / sizeof *search_methods;

const struct search_method *search_method_find(const char *name)
{
    for (int i = 0; i < num_search_methods; i++)
        if (strcmp(search_methods[i].name, name) == 0)
            return &search_methods[i];
    return NULL;
}
