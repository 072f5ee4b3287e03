#include "sim/schedule/schedule.h"

int schedule_in_flight(const struct schedule *schedule, int stage)
{
    const struct instrs *list = &schedule->ranks[stage];
    int alive = 0;
    int most = 0;
    for (int i = 0; i < list->count; i++) {
        if (list->at[i].op == INSTR_FORWARD)
            alive++;
        if (instr_ends_backward(list->at[i].op))
            alive--;
        most = alive > most ? alive : most;
    }
    return most;
}

double schedule_held_bytes(const struct schedule *schedule, int stage, double whole_bytes,
                           double waiting_bytes)
{
    const struct instrs *list = &schedule->ranks[stage];
    int whole = 0;
    int waiting = 0;
    double most_bytes = 0;
    for (int i = 0; i < list->count; i++) {
        whole += list->at[i].op == INSTR_FORWARD;
        whole -= instr_starts_backward(list->at[i].op);
        waiting += list->at[i].op == INSTR_BACKWARD_INPUT;
        waiting -= list->at[i].op == INSTR_BACKWARD_WEIGHT;
        double held_bytes = whole * whole_bytes + waiting * waiting_bytes;
        most_bytes = held_bytes > most_bytes ? held_bytes : most_bytes;
    }
    return most_bytes;
}
