#include "exec/comm.h"

// clang-format off
const char *const comm_kind_names[NUM_COMM_KINDS + 1] = {
#define X(name, text, meaning) text,
    COMM_KINDS(X)
#undef X
};

const char *const element_names[NUM_ELEMENTS + 1] = {
#define X(name, text, size) text,
    ELEMENTS(X)
#undef X
};

static const size_t sizes[NUM_ELEMENTS] = {
#define X(name, text, size) size,
    ELEMENTS(X)
#undef X
};
// clang-format on

const char *const reduction_names[NUM_REDUCTIONS + 1] = { "sum", "max" };

size_t element_bytes(enum element element)
{
    return sizes[element];
}
