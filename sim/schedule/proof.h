/* sim/schedule/proof.h - what the parts of schedule_check share; nothing else includes it. */
#ifndef SIM_SCHEDULE_PROOF_H
#define SIM_SCHEDULE_PROOF_H

#include "sim/schedule/schedule.h"

/* What one instruction can rely on whatever the times are: how many instructions of each lane of
 * its rank have finished when it starts. Lane order and `after` imply it. */
struct known {
    int finished[NUM_ALL_LANES];
};

/* One stage under proof. Tables by microbatch are indexed by slot_key of this stage's chunk that
 * makes or needs the message. */
struct proof {
    const struct schedule *schedule;
    const long long *totals; /* [NUM_OPCODES] counts over all stages */
    int stage;
    const struct instrs *list;
    struct known *known; /* [instruction] */
    int *place;          /* [instruction] its place in its own lane */
    int *found[NUM_OPCODES];
    struct err *err;
};

/* Sets the error's `where` and returns false. `instr` may be NO_INSTR. */
bool proof_fail(const struct proof *proof, int instr, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Text of an instruction, returned by value so that a message can quote two. */
struct instr_text {
    char at[48];
};
struct instr_text proof_text(const struct proof *proof, int instr);

/* Fails unless `earlier` has always finished when `later` starts. */
bool proof_ordered(const struct proof *proof, int earlier, int later);

/* Prove gathers, reductions and the update of one stage (check_state.c). */
bool proof_parameters(const struct proof *proof, struct arena *scratch);
bool proof_reductions(const struct proof *proof, struct arena *scratch);
bool proof_update(const struct proof *proof, struct arena *scratch);

/* Proves that all stages together finish without buffers (deadlock.c). */
bool schedule_finishes(const struct schedule *schedule, struct arena *scratch, struct err *err);

#endif
