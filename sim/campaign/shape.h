/* sim/campaign/shape.h - layers and width of a model of a given size, in the style of another
 * model.
 *
 * The loss depends little on the shape: 6 layers of width 4288 came within 3 % of 48 layers of
 * width 1600 (Kaplan et al. 2020, figure 5). So the shape follows a published convention and uses
 * widths and layers that divide over GPUs. */
#ifndef SIM_CAMPAIGN_SHAPE_H
#define SIM_CAMPAIGN_SHAPE_H

#include "models/model.h"

/* A convention for the number of layers at a width. */
enum aspect { ASPECT_GPT3, ASPECT_LEVINE, NUM_ASPECTS };
extern const char *const aspect_names[]; /* "gpt3", "levine", NULL */
const char *aspect_source(enum aspect aspect);
double aspect_layers(enum aspect aspect, double width);

/* The model nearest to `parameters`, the embedding included. So that ranks can divide them, the
 * number of heads is a multiple of 8 from 32 heads on, and the number of layers a multiple of 2
 * from 8 layers on and of 4 from 24 layers on. Head width, key-value heads, the ratio of
 * feed-forward to hidden width and the vocabulary are the style's. ERR_USAGE for a style with
 * several kinds of blocks, and for sizes below that of one layer with one head. */
double shape_least(const struct model *style); /* parameters of one layer of one head */
bool shape_of_size(const struct model *style, enum aspect aspect, double parameters,
                   struct model *out, struct err *err);

#endif
