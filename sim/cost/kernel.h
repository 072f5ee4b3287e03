/* sim/cost/kernel.h - seconds of one kind of op as they were measured, by its sizes.
 *
 * For devices that the formulas of sim/cost/compute do not describe: a processor's core has neither
 * tiles nor waves, and its caches make small calls cheaper than their traffic. */
#ifndef SIM_COST_KERNEL_H
#define SIM_COST_KERNEL_H

#include "base/err.h"
#include "base/field.h"
#include "models/op.h"

#include <jansson.h>

enum { KERNEL_OPTIMIZER = NUM_OP_KINDS, NUM_KERNEL_KINDS };
enum { NUM_KERNEL_SIZES = 4, MAX_KERNELS = 96, MAX_KERNEL_POINTS = 1024 };
extern const char *const kernel_names[NUM_KERNEL_KINDS + 1]; /* those of ops, and "optimizer" */
extern const char *const pass_names[];                       /* by enum op_pass */

/* m, n, k and batch as an op has them; of the optimizer m is the parameters that a rank updates and
 * the others are 1. All above 0. */
struct kernel_point {
    double size[NUM_KERNEL_SIZES];
    double time_s;
    double log_size[NUM_KERNEL_SIZES]; /* base 2 */
    double rest; /* log of the time over what the trend says: see kernel_fit */
};

struct kernel {
    int kind; /* enum op_kind, or KERNEL_OPTIMIZER */
    int pass; /* enum op_pass */
    char variant[16];
    int num_points;              /* one at least */
    struct kernel_point *points; /* owned */
    /* Fitted: log seconds per unit of work = level + slope . (log2 size - middle). */
    double level, slope[NUM_KERNEL_SIZES], middle[NUM_KERNEL_SIZES];
    double low[NUM_KERNEL_SIZES], high[NUM_KERNEL_SIZES]; /* of the points' log sizes */
};

/* Fills in all that follows from kind and the points' sizes and times. */
void kernel_fit(struct kernel *kernel);

/* The sizes of an op, or of one run of it; sizes that it does not have are 1. */
void kernel_size_of(const struct op *op, double size[NUM_KERNEL_SIZES]);
bool kernel_sizes_equal(const double a[NUM_KERNEL_SIZES], const double b[NUM_KERNEL_SIZES]);

/* What was measured of a shape; between shapes, the trend corrected by what the nearest of them
 * were off it. Beyond them the trend stays as it is at the end. */
double kernel_s(const struct kernel *kernel, const double size[NUM_KERNEL_SIZES]);

/* The table of such ops: that of the same variant, else of the first; NULL: there is none. */
const struct kernel *kernel_find(const struct kernel *kernels, int num_kernels, int kind, int pass,
                                 const char *variant);

/* An object of a profile's "kernels". */
bool kernel_read(const json_t *object, struct kernel *out, struct err *err);
json_t *kernel_write(const struct kernel *kernel);
void kernel_release(struct kernel *kernel);

extern const struct field kernel_fields[];
extern const size_t num_kernel_fields;

#endif
