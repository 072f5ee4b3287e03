/* cli/views/largest.h - "search --largest": finds the largest model of a family, or of a given
 * shape, that fits. */
#ifndef CLI_VIEWS_LARGEST_H
#define CLI_VIEWS_LARGEST_H

#include "base/text.h"
#include "cli/input/setup.h"
#include "search/search.h"

/* A family is the set of presets whose names begin with its name: "gpt3" includes gpt3-13b, "llama"
 * includes llama2-7b. "layers" is no family: it means the model of --model with the most layers
 * that fit. */
struct largest {
    const char *family; /* NULL: not requested */
    struct model_preset *presets;
    size_t *members; /* the family's presets, as indices, the largest model first */
    size_t num_members;
    size_t chosen;  /* index in members; the last if none fits */
    bool fits;      /* a plan of the chosen model fits */
    bool timed_out; /* larger models may fit */
};

/* Sets options->model to the largest member; does nothing if --largest is not given. Release `out`
 * in either case. */
bool largest_name_model(struct options *options, struct largest *out, struct err *err);

/* Loads the setup of the first member that fits (of the smallest if none does), or gives the
 * setup's model the most layers that fit. */
bool largest_choose(struct largest *largest, struct options *options, struct setup *setup,
                    struct search_request *request, struct err *err);
void largest_release(struct largest *largest);

void show_largest(const struct setup *setup, const struct largest *largest);
void add_largest_json(json_t *object, const struct setup *setup, const struct largest *largest);

#endif
