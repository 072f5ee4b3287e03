/* sim/campaign/renewal.h - the share of a run's time that is kept despite failures.
 *
 * Failures are a Poisson process with a mean of M seconds between them; they can also occur during
 * a recovery. A run computes for an interval t, stops for C to take a checkpoint, computes again. A
 * checkpoint counts (a restart can use it) only W after the stop, while the run goes on. A failure
 * costs the restart R and the work since the last checkpoint that counts.
 *
 * The process renews itself each time a checkpoint begins to count. Until the next one, a first
 * attempt takes L = t + C; after a failure each attempt takes R + W + L, as the W of work after the
 * stop is lost too. The mean time until a period l without a failure has ended is M (e^(l/M) - 1),
 * so the mean time between two renewals is
 *
 *     M e^((R + W)/M) (e^(L/M) - 1)
 *
 * For W = 0 this is the result of Daly (2006, section 3). The kept share is t divided by it. */
#ifndef SIM_CAMPAIGN_RENEWAL_H
#define SIM_CAMPAIGN_RENEWAL_H

/* With two levels all checkpoints go into other hosts' memory and every nth one also into storage;
 * some failures lose those in memory. With one level deep.share is 0 and the rest of `deep` is not
 * read. */
struct renewal {
    double mtbf_s;    /* M: mean time between failures of the whole job */
    double blocked_s; /* C: training stops */
    double pending_s; /* W: from the end of C until the checkpoint counts */
    double restart_s; /* R: from a failure to the next step, the loading of a checkpoint included */
    struct {
        double share;                /* share of failures that lose the checkpoints in memory */
        int every;                   /* n >= 1: every nth checkpoint goes into storage */
        double pending_s, restart_s; /* W and R of checkpoints in storage */
    } deep;
};

/* t / (M e^((R + W)/M) (e^((t + C)/M) - 1)), 0 to 1; with two levels, the result of the renewal
 * equations for the n intervals between two checkpoints in storage. It is 0 if the run never
 * ends. */
double renewal_kept(const struct renewal *renewal, double interval_s);

/* The interval with the largest kept share for one level: the root t of (1 - t/M) e^((t + C)/M) =
 * 1, where the derivative of renewal_kept is 0. It depends on neither R nor W; for small C/M it is
 * Young's sqrt(2 C M). */
double renewal_optimum_s(double mtbf_s, double blocked_s);

/* The best interval of at least `least_s` and at least W, so that a checkpoint counts before the
 * next one is taken. With two levels it also sets deep.every. */
double renewal_choose(struct renewal *renewal, double least_s);

#endif
