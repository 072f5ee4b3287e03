#include "kernels/host/linear.h"

#include "kernels/host/vector.h"

void linear_forward(const struct linear *linear, const float *x, const float *weight,
                    const float *bias, float *y)
{
    for (long row = 0; bias && row < linear->rows; row++)
        memcpy(y + row * linear->out, bias, sizeof *y * (size_t)linear->out);
    linear->blas->product(linear->blas, &(struct product){
                                            .m = linear->rows,
                                            .n = linear->out,
                                            .k = linear->in,
                                            .b_is_transposed = true,
                                            .alpha = 1,
                                            .beta = bias ? 1 : 0,
                                            .a = x,
                                            .b = weight,
                                            .c = y,
                                            .a_stride = linear->in,
                                            .b_stride = linear->in,
                                            .c_stride = linear->out,
                                        });
}

void linear_input_gradient(const struct linear *linear, const float *dy, const float *weight,
                           float *dx)
{
    linear->blas->product(linear->blas, &(struct product){
                                            .m = linear->rows,
                                            .n = linear->in,
                                            .k = linear->out,
                                            .alpha = 1,
                                            .a = dy,
                                            .b = weight,
                                            .c = dx,
                                            .a_stride = linear->out,
                                            .b_stride = linear->in,
                                            .c_stride = linear->in,
                                        });
}

void linear_weight_gradient(const struct linear *linear, const float *dy, const float *x,
                            float *dweight)
{
    linear->blas->product(linear->blas, &(struct product){
                                            .m = linear->out,
                                            .n = linear->in,
                                            .k = linear->rows,
                                            .a_is_transposed = true,
                                            .alpha = 1,
                                            .beta = 1,
                                            .a = dy,
                                            .b = x,
                                            .c = dweight,
                                            .a_stride = linear->out,
                                            .b_stride = linear->in,
                                            .c_stride = linear->in,
                                        });
}

EACH_MACHINE
void linear_bias_gradient(long rows, long width, const float *restrict dy, float *restrict dbias)
{
    for (long row = 0; row < rows; row++)
        for (long i = 0; i < width; i++)
            dbias[i] += dy[row * width + i];
}
