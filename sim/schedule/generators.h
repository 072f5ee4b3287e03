/* sim/schedule/generators.h - functions shared by the files that generate schedules; only these
 * include it. */
#ifndef SIM_SCHEDULE_GENERATORS_H
#define SIM_SCHEDULE_GENERATORS_H

#include "sim/schedule/schedule.h"

/* These functions append an instruction to a list that has room for it. */
void emit_forward(struct instrs *out, int chunk, int microbatch);
void emit_pair(struct instrs *out, int chunk, int microbatch, int back_chunk, int back_microbatch);
void emit_backward(struct instrs *out, int chunk, int microbatch);
void emit_backward_input(struct instrs *out, int chunk, int microbatch);
void emit_backward_weight(struct instrs *out, int chunk, int microbatch);

/* Accepts shapes with one chunk per stage and refuses all others. */
bool accepts_one_chunk(const struct schedule_shape *shape, struct err *err);

void naive_emit(const struct schedule_shape *shape, int stage, struct instrs *out);
int naive_in_flight(const struct schedule_shape *shape, int stage);

void gpipe_emit(const struct schedule_shape *shape, int stage, struct instrs *out);
int gpipe_in_flight(const struct schedule_shape *shape, int stage);

void one_f_one_b_emit(const struct schedule_shape *shape, int stage, struct instrs *out);
int one_f_one_b_in_flight(const struct schedule_shape *shape, int stage);

bool interleaved_accepts(const struct schedule_shape *shape, struct err *err);
void interleaved_emit(const struct schedule_shape *shape, int stage, struct instrs *out);
int interleaved_in_flight(const struct schedule_shape *shape, int stage);
int interleaved_of_round(const struct schedule_shape *shape, int stage, int round);
int interleaved_most_of_round(const struct schedule_shape *shape, int stage, int round);

bool zero_bubble_accepts(const struct schedule_shape *shape, struct err *err);
void zb_h1_emit(const struct schedule_shape *shape, int stage, struct instrs *out);
int zb_h1_in_flight(const struct schedule_shape *shape, int stage);
int zb_h1_waiting(const struct schedule_shape *shape, int stage);
void zb_h2_emit(const struct schedule_shape *shape, int stage, struct instrs *out);
int zb_h2_in_flight(const struct schedule_shape *shape, int stage);
int zb_h2_waiting(const struct schedule_shape *shape, int stage);

bool v_accepts(const struct schedule_shape *shape, struct err *err);
int v_waiting(const struct schedule_shape *shape, int stage);

void zb_v_emit(const struct schedule_shape *shape, int stage, struct instrs *out);
int zb_v_in_flight(const struct schedule_shape *shape, int stage);
int zb_v_of_round(const struct schedule_shape *shape, int stage, int round);
int zb_v_most_of_round(const struct schedule_shape *shape, int stage, int round);

bool dualpipev_accepts(const struct schedule_shape *shape, struct err *err);
void dualpipev_emit(const struct schedule_shape *shape, int stage, struct instrs *out);
int dualpipev_in_flight(const struct schedule_shape *shape, int stage);
int dualpipev_of_round(const struct schedule_shape *shape, int stage, int round);
int dualpipev_pairs(const struct schedule_shape *shape, int stage, int round);

bool dualpipe_accepts(const struct schedule_shape *shape, struct err *err);
void dualpipe_emit(const struct schedule_shape *shape, int stage, struct instrs *out);
int dualpipe_in_flight(const struct schedule_shape *shape, int stage);
int dualpipe_of_round(const struct schedule_shape *shape, int stage, int round);
int dualpipe_pairs(const struct schedule_shape *shape, int stage, int round);

#endif
