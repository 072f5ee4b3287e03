/* cli/largest.h - "search --largest": the largest model that fits, of a family or of a shape. */
#ifndef CLI_LARGEST_H
#define CLI_LARGEST_H

#include "base/text.h"
#include "cli/setup.h"
#include "search/search.h"

/* A family is the presets whose names begin with its own: "gpt3" of gpt3-13b, "llama" also of
 * llama2-7b. "layers" is no family: the --model with as many layers as fit. */
struct largest {
    const char *family; /* NULL: not asked */
    struct model_preset *presets;
    size_t *members; /* of the family, indices of presets, the largest model first */
    size_t num_members;
    size_t chosen;  /* index of members: the last when none fits */
    bool fits;      /* a plan of the chosen model does */
    bool timed_out; /* larger ones may fit */
};

/* Names the largest member in options->model; does nothing when not asked. Release in either
 * case. */
bool largest_name_model(struct options *options, struct largest *out, struct err *err);

/* Loads the setup of the first member that fits, or gives its model the most layers. When nothing
 * fits, the smallest is loaded. */
bool largest_choose(struct largest *largest, struct options *options, struct setup *setup,
                    struct search_request *request, struct err *err);
void largest_release(struct largest *largest);

void show_largest(const struct setup *setup, const struct largest *largest);
void add_largest_json(json_t *object, const struct setup *setup, const struct largest *largest);

#endif
