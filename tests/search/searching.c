#include "tests/search/searching.h"

#include "tests/check_ok.h"

#include <string.h>

struct search_result search_of(const struct search_request *request)
{
    struct search_result result;
    struct err err = { 0 };
    check_ok(search_run(request, &result, &err), &err);
    return result;
}

double exclusion_of(const struct search_result *result, const char *rule)
{
    for (int i = 0; i < result->num_exclusions; i++)
        if (strcmp(result->exclusions[i].rule, rule) == 0)
            return result->exclusions[i].count;
    return 0;
}

bool always(void)
{
    return true;
}
