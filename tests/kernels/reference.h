/* tests/kernels/reference.h - simple reference implementations of the ops, in double (…_f64) and in
 * fp32 (…_f32).
 */
#ifndef TESTS_KERNELS_REFERENCE_H
#define TESTS_KERNELS_REFERENCE_H

#include <stdint.h>
#include <tgmath.h>

#define REAL        double
#define NAMED(name) name##_f64
#include "tests/kernels/reference_template.h"
#undef REAL
#undef NAMED

#define REAL        float
#define NAMED(name) name##_f32
#include "tests/kernels/reference_template.h"
#undef REAL
#undef NAMED

#endif
