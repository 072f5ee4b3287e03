#include "sim/collective/measured_curve.h"

#include "base/length.h"

#include <math.h>
#include <string.h>

const char *const curve_names[NUM_CURVE_KINDS + 1] = {
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "point_to_point",
};

#define AT(member) .offset = offsetof(struct curve, member)

// clang-format off
const struct field curve_fields[] = {
    { .name = "collective", .kind = FIELD_NAME, AT(collective), .names = curve_names,
      .doc = "What was measured." },
    { .name = "ranks", .kind = FIELD_INT, AT(num_ranks), .min = 2, .max = 1e6,
      .doc = "GPUs of the group." },
    { .name = "nodes", .kind = FIELD_INT, AT(num_nodes), .min = 1, .max = 1e6, .fallback = "1",
      .doc = "Number of nodes that the group spans." },
    { .name = "fabric", .kind = FIELD_TEXT, AT(fabric), .size = sizeof((struct curve *)0)->fabric,
      .doc = "Fabric of the cluster's level that connects these GPUs, named as in the cluster's "
             "file." },
    { .name = "points", .kind = FIELD_OTHER,
      .doc = "At most 40, by size: [\"1 MiB\", \"92.2 us\"]." },
};
// clang-format on
const size_t num_curve_fields = LENGTH(curve_fields);

double curve_s(const struct curve *curve, double message_bytes)
{
    const struct curve_point *low = curve->points;
    const struct curve_point *high = &curve->points[curve->num_points - 1];
    if (message_bytes <= low->bytes)
        return low->time_s;
    if (message_bytes >= high->bytes)
        return high->time_s;
    while (high - low > 1) {
        const struct curve_point *middle = low + (high - low) / 2;
        *(message_bytes < middle->bytes ? &high : &low) = middle;
    }
    double share = (log(message_bytes) - low->log_bytes) / (high->log_bytes - low->log_bytes);
    return exp(low->log_s + share * (high->log_s - low->log_s));
}

static bool read_point(const json_t *row, struct curve_point *out, struct err *err)
{
    const char *bytes = json_string_value(json_array_get(row, 0));
    const char *time = json_string_value(json_array_get(row, 1));
    if (json_array_size(row) != 2 || !bytes || !time)
        return err_set(err, ERR_INPUT, "", "expected [size, time], like [\"1 MiB\", \"92.2 us\"]");
    if (!units_parse(bytes, QUANTITY_BYTES, &out->bytes, err) ||
        !units_parse(time, QUANTITY_SECONDS, &out->time_s, err))
        return false;
    if (out->bytes <= 0 || out->time_s <= 0)
        return err_set(err, ERR_INPUT, "", "expected a size and a time above 0");
    out->log_bytes = log(out->bytes);
    out->log_s = log(out->time_s);
    return true;
}

bool curve_read(const json_t *object, struct curve *out, struct err *err)
{
    memset(out, 0, sizeof *out);
    if (!fields_read(curve_fields, num_curve_fields, object, out, err))
        return false;
    const json_t *points = json_object_get(object, "points");
    size_t count = json_array_size(points);
    if (count < 1 || count > MAX_CURVE_POINTS)
        return err_set(err, ERR_INPUT, "points", "expected a list of 1 to %d points; found %zu",
                       MAX_CURVE_POINTS, count);
    for (size_t i = 0; i < count; i++) {
        bool ok = read_point(json_array_get(points, i), &out->points[i], err);
        if (ok && i > 0 && out->points[i].bytes <= out->points[i - 1].bytes)
            ok = err_set(err, ERR_INPUT, "",
                         "expected a larger size than that of the previous point");
        if (!ok)
            return err_within_item(err, "points", i);
    }
    out->num_points = (int)count;
    return true;
}

json_t *curve_write(const struct curve *curve)
{
    json_t *object = fields_write(curve_fields, num_curve_fields, curve);
    json_t *points = json_array();
    for (int i = 0; i < curve->num_points; i++) {
        char bytes[64], time[64];
        units_write(curve->points[i].bytes, QUANTITY_BYTES, bytes, sizeof bytes);
        units_write(curve->points[i].time_s, QUANTITY_SECONDS, time, sizeof time);
        json_array_append_new(points, json_pack("[s, s]", bytes, time));
    }
    json_object_set_new(object, "points", points);
    return object;
}
