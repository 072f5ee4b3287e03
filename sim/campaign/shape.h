/* sim/campaign/shape.h - layers and width of a model of a given size, in the style of another.
 *
 * A size says nothing of the shape, and a loss little: 6 layers of width 4288 came within 3 % of 48
 * of 1600 (Kaplan et al. 2020, figure 5). So a shape follows a convention of those who trained or
 * measured many, and sizes that divide over GPUs. */
#ifndef SIM_CAMPAIGN_SHAPE_H
#define SIM_CAMPAIGN_SHAPE_H

#include "models/model.h"

/* A convention for the layers that go with a width. */
enum aspect { ASPECT_GPT3, ASPECT_LEVINE, NUM_ASPECTS };
extern const char *const aspect_names[]; /* "gpt3", "levine", NULL */
const char *aspect_source(enum aspect aspect);
double aspect_layers(enum aspect aspect, double width);

/* The model nearest to `parameters`: its width is a multiple of heads that tensor parallelism can
 * divide (8 of them from 32 heads on), its layers a multiple of 4 when there are 24 or more. All
 * else is of the style: head width, key and value heads, the feed-forward's share of the width,
 * vocabulary. The embedding counts. ERR_USAGE for a style of several kinds of blocks, and for sizes
 * below that of one layer of one head. */
double shape_least(const struct model *style); /* parameters of one layer of one head */
bool shape_of_size(const struct model *style, enum aspect aspect, double parameters,
                   struct model *out, struct err *err);

#endif
