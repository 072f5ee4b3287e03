/* cli/design_view.h - shows the model that a budget should train. */
#ifndef CLI_DESIGN_VIEW_H
#define CLI_DESIGN_VIEW_H

#include "cli/input/setup.h"
#include "search/questions/design.h"

struct design_view {
    const struct design *design;
    enum loss_law_name law;
    enum aspect aspect;
    double served;
    const struct setup *setup;          /* with the designed model; NULL: no GPUs were given */
    const struct search_result *result; /* the plans for that model; NULL: no GPUs were given */
};

void show_design(const struct design_view *view);
void print_design_json(const struct design_view *view);
/* Prints the JSON document of exit code 3: there is no design. */
void print_no_design_json(const struct setup *setup, const struct err *err);

#endif
