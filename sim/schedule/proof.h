/* sim/schedule/proof.h - what the parts of schedule_check share; nothing else includes it. */
#ifndef SIM_SCHEDULE_PROOF_H
#define SIM_SCHEDULE_PROOF_H

#include "sim/schedule/schedule.h"

/* What one instruction can rely on: how many instructions of each lane of its rank have finished
 * when it starts, whatever the times are. Lane order and `after` imply it. */
struct known {
    int finished[NUM_LANES];
};

/* One stage under proof. Tables by microbatch are indexed by slot_key of the chunk of this stage
 * that makes or needs the instruction. */
struct proof {
    const struct schedule *schedule;
    const long long *totals; /* [NUM_OPCODES] over all stages: what the schedule does at all */
    int stage;
    const struct instrs *list;
    struct known *known; /* [instruction] */
    int *place;          /* [instruction] its place in its own lane */
    int *found[NUM_OPCODES];
    struct err *err;
};

/* Fills where and returns false. `instr` may be NO_INSTR. */
bool proof_fail(const struct proof *proof, int instr, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Text of an instruction, by value so that a message can quote two. */
struct instr_text {
    char at[48];
};
struct instr_text proof_text(const struct proof *proof, int instr);

/* Fails unless `earlier` has always finished when `later` starts. */
bool proof_ordered(const struct proof *proof, int earlier, int later);

/* Gathers, reductions and the update (check_state.c), of one stage. */
bool proof_parameters(const struct proof *proof, struct arena *scratch);
bool proof_reductions(const struct proof *proof, struct arena *scratch);
bool proof_update(const struct proof *proof, struct arena *scratch);

/* All stages together, without buffers (deadlock.c). */
bool schedule_finishes(const struct schedule *schedule, struct arena *scratch, struct err *err);

#endif
