/* cli/what_if.h - the chosen plan on a system that is a little different, predicted anew. */
#ifndef CLI_WHAT_IF_H
#define CLI_WHAT_IF_H

#include "cli/setup.h"
#include "cli/terminal.h"
#include "search/search.h"

void show_what_if(const struct terminal *terminal, const struct setup *setup,
                  const struct scored_plan *plan);

#endif
