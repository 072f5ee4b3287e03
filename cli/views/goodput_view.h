/* cli/views/goodput_view.h - shows the whole run with failures and checkpoints: the last lines of
 * an answer, and the key "run" of a plan. */
#ifndef CLI_VIEWS_GOODPUT_VIEW_H
#define CLI_VIEWS_GOODPUT_VIEW_H

#include "base/field.h"
#include "cli/input/setup.h"
#include "cli/print/terminal.h"
#include "sim/campaign/goodput.h"
#include "sim/engine/simulate.h"

/* Goodput of a plan during training on all of the model's tokens. The model must state its tokens.
 */
struct goodput goodput_of_plan(const struct setup *setup, const struct plan *plan,
                               const struct prediction *prediction);

/* Shows the run; prints nothing if the tokens are not known. */
void show_goodput(const struct terminal *terminal, const struct setup *setup,
                  const struct plan *plan, const struct prediction *prediction);
void add_run_json(json_t *object, const struct setup *setup, const struct plan *plan,
                  const struct prediction *prediction);

/* Keys of "run", for the reference page. */
extern const struct field run_fields[];
extern const size_t num_run_fields;

#endif
