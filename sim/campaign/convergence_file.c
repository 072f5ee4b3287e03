#include "sim/campaign/convergence_file.h"

#include "base/json.h"
#include "base/length.h"

#include <stddef.h>

#define F(member)      .offset = offsetof(struct convergence_file, member)
#define NUMBER(member) .kind = FIELD_NUMBER, F(convergence.member)

// clang-format off
const struct field convergence_fields[] = {
    { .name = "format", .kind = FIELD_OTHER, .doc = "1." },
    { .name = "source", .kind = FIELD_TEXT, F(source), .size = sizeof(((struct convergence_file *)0)->source),
      .doc = "The runs on which constants were fitted, and the constants that kept their shipped "
             "values." },
    { .name = "mixing_scale", NUMBER(mixing_scale), .min = 0, .max = 1e30,
      .doc = "Length of the transient of gossip or of periodic averages, in steps, divided by n^3 A^4 (n ranks; A^2: the exchange's factor in the error bound, docs/gradient-exchange.md)." },
    { .name = "memory_scale", NUMBER(memory_scale), .min = 0, .max = 1e30,
      .doc = "The same scale for error feedback." },
    { .name = "heterogeneity", NUMBER(heterogeneity), .min = 0, .max = 0.999,
      .doc = "Share of the variance of one rank's gradients that comes from its own data; 0 for "
             "shuffled data." },
    { .name = "descent", .kind = FIELD_OTHER, .fallback = "{}",
      .doc = "The constants of the loss curve from which the scales are computed." },
    { .name = "intervals", .kind = FIELD_OTHER, .fallback = "{}",
      .doc = "Lower and upper end of the 90 % interval of each fitted constant." },
};
// clang-format on
const size_t num_convergence_fields = LENGTH(convergence_fields);

static bool read_file(const json_t *root, struct convergence_file *out, struct err *err)
{
    const json_t *format = json_object_get(root, "format");
    if (!fields_read(convergence_fields, num_convergence_fields, root, out, err))
        return false;
    return (json_is_integer(format) && json_integer_value(format) == 1) ||
           err_set(err, ERR_INPUT, "format", "expected 1, the only version of such a file");
}

bool convergence_load(const char *path, struct convergence_file *out, struct err *err)
{
    struct json_file file = { 0 };
    *out = (struct convergence_file){ 0 };
    bool ok = json_file_load(&file, path, err) &&
              (read_file(file.root, out, err) || json_file_blame(&file, err));
    json_file_release(&file);
    return ok;
}

json_t *convergence_write(const struct convergence_file *file)
{
    json_t *root = json_pack("{s:i}", "format", 1);
    json_t *fields = fields_write(convergence_fields, num_convergence_fields, file);
    json_object_update(root, fields);
    json_decref(fields);
    return root;
}
