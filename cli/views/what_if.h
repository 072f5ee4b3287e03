/* cli/views/what_if.h - predictions of the chosen plan on slightly changed systems. */
#ifndef CLI_VIEWS_WHAT_IF_H
#define CLI_VIEWS_WHAT_IF_H

#include "cli/input/setup.h"
#include "cli/print/terminal.h"
#include "search/search.h"

void show_what_if(const struct terminal *terminal, const struct setup *setup,
                  const struct scored_plan *plan);

#endif
