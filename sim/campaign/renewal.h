/* sim/campaign/renewal.h - the share of its time that a run keeps between failures.
 *
 * Failures are a Poisson process of one in M seconds, and they hit recoveries too. A run works for
 * an interval t, stops for C to take a checkpoint, and so on; the checkpoint counts W after the
 * stop, while the run goes on. A failure costs R and the work since the last checkpoint that
 * counts.
 *
 * The moments at which checkpoints begin to count renew the process. The first attempt at the next
 * one takes L = t + C; each later one takes R, the W that was worked since the stop, and L; a
 * failure in it starts it anew. An attempt of length l without failure takes M (e^(l/M) - 1) on
 * average, so the mean time from one such moment to the next is
 *
 *     M e^((R + W)/M) (e^(L/M) - 1)
 *
 * which for W = 0 is Daly's (2006, section 3), and the share kept is t over it. */
#ifndef SIM_CAMPAIGN_RENEWAL_H
#define SIM_CAMPAIGN_RENEWAL_H

/* Two levels: checkpoints in other hosts' memory, every nth of them in storage too, and failures
 * that lose those in memory. One level: deep_share 0, the rest of deep not read. */
struct renewal {
    double mtbf_s;    /* M, of the whole job */
    double blocked_s; /* C: training stops */
    double pending_s; /* W: from the end of C until the checkpoint counts */
    double restart_s; /* R: from a failure to the next step, the loading of a checkpoint included */
    struct {
        double share;                /* of failures, that lose the checkpoints in memory */
        int every;                   /* n >= 1 */
        double pending_s, restart_s; /* W and R of those in storage */
    } deep;
};

/* t / (M e^((R + W)/M) (e^((t + C)/M) - 1)), 0 to 1; with two levels, the renewal equations of the
 * n intervals between two checkpoints in storage. 0: the run never ends. */
double renewal_kept(const struct renewal *renewal, double interval_s);

/* The interval that keeps most of one level's time: the root t of (1 - t/M) e^((t + C)/M) = 1,
 * where the derivative of renewal_kept is 0. It depends on neither R nor W; for small C/M it is
 * Young's sqrt(2 C M). */
double renewal_optimum_s(double mtbf_s, double blocked_s);

/* The best interval of at least `least_s` in which a checkpoint also comes to count before the
 * next is taken; with two levels it sets deep.every too. */
double renewal_choose(struct renewal *renewal, double least_s);

#endif
