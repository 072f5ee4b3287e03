/* sim/textbook/work.h - parameters, FLOPs and compute time by the formulas of a lecture
 * (docs/lecture.md).
 *
 * A transformer here has l layers of width h, a vocabulary v, feed-forward 4h, and keys and values
 * for every head. Every function is pure; a FLOP is half a multiply-add. */
#ifndef SIM_TEXTBOOK_WORK_H
#define SIM_TEXTBOOK_WORK_H

#include "models/model.h"

/* Sequences processed together, each `seq` tokens. */
struct textbook_batch {
    int sequences;
    int seq;
};

/* A number of GPUs, with the dense peak of one. */
struct textbook_gpus {
    int count;
    double peak_flops_per_s;
};

double textbook_layer_parameters(const struct model *model); /* parameters of one layer: 12 h^2 */
/* parameters of the model: 12 l h^2 + 2 v h */
double textbook_parameters(const struct model *model);

/* FLOPs to train `parameters` on `tokens`: 6 T P for P parameters and T tokens, 8 T P with full
 * recompute, (6 + 2 r) T P if a share r of the layers is recomputed. */
double textbook_flops(double parameters, double tokens, double recomputed);

/* FLOPs of one batch, attention and output head included. The first counts the FLOPs executed with
 * full recompute, the second the model FLOPs (for MFU), the third the model FLOPs with a causal
 * mask. The fourth is Korthikanti et al.'s formula for the hardware FLOPs of selective recompute,
 * which is too high. */
double textbook_recompute_flops(const struct model *model, struct textbook_batch batch);
double textbook_model_flops(const struct model *model, struct textbook_batch batch);
double textbook_causal_flops(const struct model *model, struct textbook_batch batch);
double textbook_selective_flops(const struct model *model, struct textbook_batch batch);

/* FLOPs of one token by PaLM's convention, which MosaicML's MFU uses: the FLOPs of attention are
 * not halved for a causal mask. */
double textbook_palm_token_flops(const struct model *model, double parameters, int seq);

/* Seconds for `flops` at `utilization` (0..1) of the peak, and the utilization at which they take
 * `time_s`. */
double textbook_compute_s(struct textbook_gpus gpus, double flops, double utilization);
double textbook_utilization(struct textbook_gpus gpus, double flops, double time_s);

#endif
