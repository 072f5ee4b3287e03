#include "exec/ops/range.h"

struct range range_overlap(struct range a, struct range b)
{
    struct range both = { a.from > b.from ? a.from : b.from, a.to < b.to ? a.to : b.to };
    return both.from < both.to ? both : (struct range){ 0 };
}

size_t range_count(struct range range)
{
    return range.to - range.from;
}
