#include "sim/cost/error_widths.h"

#include "base/length.h"

#include <assert.h>
#include <string.h>

static_assert(sizeof(struct error_widths) == NUM_ERROR_PARTS * sizeof(double),
              "struct error_widths has only doubles");

#define WIDTH(member)                                                                       \
    .name = #member, .kind = FIELD_NUMBER, .offset = offsetof(struct error_widths, member), \
    .min = 1e-4, .max = 10

// clang-format off
const struct field error_width_fields[] = {
    { WIDTH(common), .doc = "Half width of an error of the whole step that does not depend on how its time divides into classes." },
    { WIDTH(compute), .doc = "Error of compute: matrix products, attention and memory traffic, recompute included." },
    { WIDTH(tensor), .doc = "Error of exposed tensor collectives." },
    { WIDTH(context), .doc = "Error of exposed context collectives." },
    { WIDTH(pipeline), .doc = "Error of messages that block a stage." },
    { WIDTH(bubble), .doc = "Error of the bubble: the time that the busiest stage waits for other stages." },
    { WIDTH(data), .doc = "Error of exposed data and expert collectives." },
    { WIDTH(optimizer), .doc = "Error of the optimizer's update." },
    { WIDTH(other), .doc = "Error of host time and stragglers." },
};
// clang-format on
const size_t num_error_width_fields = LENGTH(error_width_fields);

double error_width(const struct error_widths *widths, int i)
{
    double value;
    memcpy(&value, (const char *)widths + error_width_fields[i].offset, sizeof value);
    return value;
}

void error_width_set(struct error_widths *widths, int i, double value)
{
    memcpy((char *)widths + error_width_fields[i].offset, &value, sizeof value);
}
