#include "tests/exec/checkpoint_runs.h"

#include "tests/testing.h"

#include <stdio.h>
#include <stdlib.h>

char checkpoint_folder[64];

void checkpoint_folder_make(void)
{
    snprintf(checkpoint_folder, sizeof checkpoint_folder, "/tmp/test_checkpoint.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(checkpoint_folder));
}

void checkpoint_folder_remove(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", checkpoint_folder);
    ck_assert_int_eq(system(command), 0);
}

struct parity_run checkpoint_run(int precision, int optimizer)
{
    return (struct parity_run){ .optimizer = optimizer,
                                .rate = optimizer == OPTIMIZER_ADAM ? 0.01F : 0.3F,
                                .precision = precision,
                                .seed = 11 };
}

bool checkpoint_load_whole(struct rank *rank, const struct parity_run *run, struct err *err)
{
    struct checkpoint_state state;
    (void)run;
    return checkpoint_load(rank, checkpoint_folder, &state, err) &&
           (state.damage.code == ERR_NONE ||
            err_set(err, ERR_INPUT, state.damage.where, "%s", state.damage.msg));
}
