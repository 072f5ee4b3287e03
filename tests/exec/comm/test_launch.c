#include "tests/testing.h"

#include "base/parallel.h"
#include "exec/comm/comm.h"
#include "exec/launch.h"
#include "exec/watchdog.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void print_cause(void *context, const struct err *err)
{
    (void)context;
    printf("cause: %s %s\n", err->where, err->msg);
    fflush(stdout);
}

static bool launch_shell(const char *script, int num_ranks, double grace_s, int *status,
                         struct err *err)
{
    char *arguments[] = { (char[]){ "sh" }, (char[]){ "-c" }, strdup(script), NULL };
    bool ok = launch(&(struct launch_options){ .num_ranks = num_ranks,
                                               .arguments = arguments,
                                               .program = "/bin/sh",
                                               .grace_s = grace_s,
                                               .hear = print_cause },
                     status, err);
    free(arguments[2]);
    return ok;
}

/* Launches ranks and reads their standard output. */
static bool launch_and_read(const char *script, int num_ranks, char *text, size_t size)
{
    int status;
    struct err err = { 0 };
    FILE *file = tmpfile();
    fflush(stdout);
    int before = dup(STDOUT_FILENO);
    dup2(fileno(file), STDOUT_FILENO);
    bool ok = launch_shell(script, num_ranks, 1, &status, &err);
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    rewind(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
    return ok;
}

START_TEST(each_launched_rank_gets_its_number_and_prefixes_its_output)
{
    char text[500];
    ck_assert(launch_and_read("echo $SIMSEARCH_RANK of $SIMSEARCH_RANKS; printf end", 3, text,
                              sizeof text));
    static const char *const pieces[] = { "0 of 3\n", "[rank 1] 1 of 3\n", "[rank 2] 2 of 3\n",
                                          "[rank 1] end\n", "[rank 2] end\n" };
    for (size_t i = 0; i < LENGTH(pieces); i++)
        ck_assert_msg(strstr(text, pieces[i]), "%s is not in %s", pieces[i], text);
}
END_TEST

/* Rank 1 leaves a process behind, which holds the pipes open. The launcher must read what the rank
 * wrote, but must not wait for this process, which outlives the launch. */
START_TEST(a_rank_may_leave_a_process_behind)
{
    char text[500];
    ck_assert(launch_and_read("[ $SIMSEARCH_RANK = 1 ] || exit 0; sleep 60 & "
                              "echo $!; printf end; exit 0",
                              2, text, sizeof text));
    const char *number = strstr(text, "[rank 1] ");
    ck_assert_msg(number && strstr(text, "[rank 1] end\n"), "lines are missing in: %s", text);
    ck_assert_int_eq(kill(atoi(number + strlen("[rank 1] ")), SIGKILL), 0);
}
END_TEST

START_TEST(a_rank_computes_with_one_thread)
{
    char text[100];
    ck_assert(launch_and_read("echo $OPENBLAS_NUM_THREADS", 1, text, sizeof text));
    ck_assert_str_eq(text, "1\n");
}
END_TEST

/* All ranks know the address and the token of the meeting (how ranks find each other); only rank 0
 * has its socket. */
START_TEST(ranks_share_the_meetings_address_and_token)
{
    char text[600], address[2][64], token[2][64];
    int fd = -1, port = 0, threads[2] = { 0 };
    ck_assert(launch_and_read("echo at$SIMSEARCH_RANK $SIMSEARCH_MEETING $SIMSEARCH_TOKEN "
                              "$OMP_NUM_THREADS $SIMSEARCH_MEETING_FD; "
                              "[ -S /proc/self/fd/${SIMSEARCH_MEETING_FD:-none} ] && "
                              "echo $SIMSEARCH_RANK has a socket; exit 0",
                              2, text, sizeof text));
    const char *first = strstr(text, "at0 "), *second = strstr(text, "[rank 1] at1 ");
    ck_assert_msg(first && second && strstr(text, "0 has a socket\n"), "lines are missing in: %s",
                  text);
    ck_assert(!strstr(text, "1 has a socket"));
    ck_assert_int_eq(sscanf(first, "at0 %63s %63s %d %d", address[0], token[0], &threads[0], &fd),
                     4);
    ck_assert_int_eq(
        sscanf(second, "[rank 1] at1 %63s %63s %d\n", address[1], token[1], &threads[1]), 3);
    ck_assert(threads[0] == 1 && threads[1] == 1);
    ck_assert_str_eq(address[0], address[1]);
    ck_assert_str_eq(token[0], token[1]);
    ck_assert(sscanf(address[0], "127.0.0.1:%d", &port) == 1 && port > 0);
    ck_assert_uint_eq(strspn(token[0], "0123456789abcdef"), 32);
    ck_assert_uint_eq(strlen(token[0]), 32);
}
END_TEST

/* The launcher reads a rank's output in pieces of 4 KiB. A piece may end within a line or between
 * two lines. */
START_TEST(long_lines_and_many_lines_are_copied_whole)
{
    enum { LONG = 5000, MANY = 2000 };
    static char text[100000];
    ck_assert(launch_and_read("[ $SIMSEARCH_RANK = 1 ] || exit 0; "
                              "printf '%05000d\n' 7; i=0; "
                              "while [ $i -lt 2000 ]; do echo line $i; i=$((i + 1)); done",
                              2, text, sizeof text));
    char *at = text, line[64];
    ck_assert_int_eq(strncmp(at, "[rank 1] ", 9), 0);
    ck_assert_uint_eq(strcspn(at, "\n"), 9 + LONG);
    ck_assert_uint_eq(strspn(at + 9, "0"), LONG - 1);
    at += 9 + LONG + 1;
    for (int i = 0; i < MANY; i++) {
        int length = snprintf(line, sizeof line, "[rank 1] line %d\n", i);
        ck_assert_msg(strncmp(at, line, (size_t)length) == 0,
                      "the output is \"%.40s\" instead of \"%s\"", at, line);
        at += length;
    }
    ck_assert_str_eq(at, "");
}
END_TEST

/* Number of ranks whose line ends with `number`. */
static int count_lines(const char *text, int number)
{
    char end[32];
    int count = 0;
    snprintf(end, sizeof end, "%d\n", number);
    for (const char *at = text; (at = strstr(at, end)) != NULL; at++)
        count++;
    return count;
}

/* With as many ranks as cores each rank is pinned to a core; with one rank more none is pinned. */
START_TEST(each_rank_is_pinned_to_a_core_if_there_are_enough)
{
    static const char script[] = "unset OMP_NUM_THREADS; nproc";
    int cores = parallel_cores();
    char text[2000];
    if (cores > 16)
        return;
    ck_assert(launch_and_read(script, cores, text, sizeof text));
    ck_assert_int_eq(count_lines(text, 1), cores);
    ck_assert(launch_and_read(script, cores + 1, text, sizeof text));
    ck_assert_int_eq(count_lines(text, cores), cores + 1);
}
END_TEST

START_TEST(a_killed_rank_is_named_and_the_others_are_ended)
{
    int status;
    struct err err = { 0 };
    ck_assert(
        !launch_shell("[ $SIMSEARCH_RANK = 2 ] && kill -9 $$; exec sleep 60", 4, 5, &status, &err));
    ck_assert_int_eq(status, 75);
    ck_assert_str_eq(err.where, "rank 2");
    ck_assert_ptr_nonnull(strstr(err.msg, "signal 9"));
}
END_TEST

/* The launcher asks the other ranks to end. The killed rank is the cause, so it must be reported
 * before this request. */
START_TEST(the_killed_rank_is_reported_before_the_others_are_asked_to_end)
{
    char text[500];
    ck_assert(!launch_and_read("[ $SIMSEARCH_RANK = 1 ] && kill -9 $$; "
                               "trap 'echo asked; exit 75' TERM; while :; do sleep 0.01; done",
                               2, text, sizeof text));
    const char *cause = strstr(text, "cause: rank 1 was killed by signal 9");
    const char *asked = strstr(text, "asked\n");
    ck_assert_msg(cause && (!asked || cause < asked), "the cause does not come first in: %s", text);
}
END_TEST

/* A rank that fails tells its own cause, so only killed ranks are reported at once. */
START_TEST(a_rank_that_fails_is_not_reported_at_once)
{
    char text[500];
    ck_assert(
        !launch_and_read("[ $SIMSEARCH_RANK = 1 ] && exit 4; exec sleep 60", 2, text, sizeof text));
    ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(the_exit_code_is_that_of_the_first_rank_that_failed)
{
    int status;
    struct err err = { 0 };
    ck_assert(
        !launch_shell("[ $SIMSEARCH_RANK = 1 ] && exit 4; exec sleep 60", 3, 5, &status, &err));
    ck_assert_int_eq(status, 4);
    ck_assert_str_eq(err.where, "rank 1");
}
END_TEST

/* A rank that lost its connection to another rank exits with code 75. The first rank that does so
 * is named, because the other ranks may have lost the connection to this rank. */
START_TEST(of_ranks_that_lost_another_the_first_is_named)
{
    int status;
    struct err err = { 0 };
    ck_assert(!launch_shell("[ $SIMSEARCH_RANK = 1 ] && exit 75; "
                            "trap 'exit 75' TERM; while :; do sleep 0.01; done",
                            3, 5, &status, &err));
    ck_assert_int_eq(status, 75);
    ck_assert_str_eq(err.where, "rank 1");
}
END_TEST

/* Both ranks run `answer` when they get the signal. Rank 1 runs `first` as soon as a file shows
 * that rank 0 is ready for the signal. */
static void fill_script(char script[400], const char *answer, const char *signal, const char *first)
{
    char ready[64];
    snprintf(ready, sizeof ready, "/tmp/test_launch.%d", (int)getpid());
    unlink(ready);
    snprintf(script, 400,
             "trap '%s' %s; if [ $SIMSEARCH_RANK = 0 ]; then : >%s; else "
             "while [ ! -e %s ]; do sleep 0.01; done; rm %s; %s; fi; "
             "while :; do sleep 0.01; done",
             answer, signal, ready, ready, ready, first);
}

/* Rank 1 ends first, so rank 0 is asked to end. The failure of rank 0 is reported if rank 0 was
 * killed and rank 1 was not, or if rank 0 failed and rank 1 only lost its connection to another
 * rank (exit code 75). Otherwise the failure of rank 1 is reported. */
static const struct {
    const char *first, *asked; /* commands of rank 1 and, when it is asked, of rank 0 */
    int status;
    const char *where, *msg;
} ends[] = {
    { "exit 4", "exit 5", 4, "rank 1", "ended with exit code 4; the other ranks are stopped" },
    { "exit 75", "exit 5", 5, "rank 0", "ended with exit code 5; the other ranks are stopped" },
    { "exit 75", "exit 0", 75, "rank 1", "ended with exit code 75; the other ranks are stopped" },
    { "exit 75", "exit 75", 75, "rank 1", "ended with exit code 75; the other ranks are stopped" },
    { "exit 4", "kill -9 $$", 75, "rank 0", "was killed by signal 9 (Killed); the other ranks" },
    { "exit 75", "kill -11 $$", 75, "rank 0", "was killed by signal 11 (Segmentation fault);" },
    { "kill -9 $$", "kill -11 $$", 75, "rank 1", "was killed by signal 9 (Killed); the other" },
    { "kill -9 $$", "exit 5", 75, "rank 1", "was killed by signal 9 (Killed); the other ranks" },
    { "exit 4", "trap - TERM; kill $$", 4, "rank 1", "ended with exit code 4; the other ranks" },
    { "exit 75", "trap - TERM; kill $$", 75, "rank 1", "ended with exit code 75; the other" },
};

START_TEST(the_rank_that_explains_a_failure_best_is_named)
{
    int status;
    struct err err = { 0 };
    char script[400];
    fill_script(script, ends[_i].asked, "TERM", ends[_i].first);
    ck_assert(!launch_shell(script, 2, 5, &status, &err));
    ck_assert_str_eq(err.where, ends[_i].where);
    ck_assert_msg(strncmp(err.msg, ends[_i].msg, strlen(ends[_i].msg)) == 0, "%s", err.msg);
    ck_assert_int_eq(status, ends[_i].status);
}
END_TEST

/* A user interrupts the launcher. The launcher passes the signal on to the ranks, and blames no
 * rank, whatever the rank's exit status is. */
static const struct {
    const char *signal, *answer;
} interrupts[] = { { "INT", "exit 3" },
                   { "TERM", "exit 0" },
                   { "INT", "trap - INT; kill -INT $$" } };

START_TEST(an_interrupted_launcher_ends_all_ranks)
{
    int status;
    struct err err = { 0 };
    char script[400], interrupt[40];
    snprintf(interrupt, sizeof interrupt, "kill -%s $PPID", interrupts[_i].signal);
    fill_script(script, interrupts[_i].answer, interrupts[_i].signal, interrupt);
    ck_assert(!launch_shell(script, 2, 5, &status, &err));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_str_eq(err.where, "launch");
    ck_assert_str_eq(err.msg, "interrupted; all ranks were stopped");
    ck_assert_int_eq(status, 75);
}
END_TEST

START_TEST(a_rank_that_ignores_the_request_to_end_is_killed)
{
    int status;
    struct err err = { 0 };
    ck_assert(!launch_shell("if [ $SIMSEARCH_RANK = 1 ]; then sleep 0.1; exit 3; fi; "
                            "trap '' TERM; while :; do sleep 0.02; done",
                            2, 0.1, &status, &err));
    ck_assert_int_eq(status, 3);
    ck_assert_str_eq(err.where, "rank 1");
}
END_TEST

/* A stopped rank does not react to a request to end. */
START_TEST(a_stopped_rank_is_killed_and_named)
{
    int status;
    struct err err = { 0 };
    ck_assert(!launch_shell("if [ $SIMSEARCH_RANK = 1 ]; then sleep 0.1; exit 75; fi; "
                            "kill -STOP $$",
                            2, 0.1, &status, &err));
    ck_assert_int_eq(status, 75);
    ck_assert_str_eq(err.where, "rank 0");
    ck_assert_str_eq(err.msg,
                     "did not end when asked and was killed; the run ended because rank 1 failed");
}
END_TEST

/* Returns the number that follows those of the next `count` descriptors that the system would give.
 */
static int end_of_next(int count)
{
    int fd = dup(STDIN_FILENO), end = count == 0   ? fd
                                      : count == 1 ? fd + 1
                                                   : end_of_next(count - 1);
    close(fd);
    return end;
}

/* Three ranks take 8 descriptors: the meeting's socket, the signals, the pipes of rank 1, and both
 * ends of the pipes of rank 2. With fewer free descriptors the launch fails, and it leaves no
 * descriptor open. */
START_TEST(a_launch_fails_without_descriptors_and_leaves_none)
{
    int next = end_of_next(0);
    for (int room = 0; room < 10; room++) {
        struct rlimit whole, limit;
        int status;
        struct err err = { 0 };
        ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &whole), 0);
        limit = whole;
        limit.rlim_cur = (rlim_t)end_of_next(room);
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
        bool ok = launch_shell("exit 0", 3, 1, &status, &err);
        setrlimit(RLIMIT_NOFILE, &whole);
        ck_assert_msg(ok == (room >= 8), "%d descriptors: %s: %s", room, err.where, err.msg);
        ck_assert_int_eq(err.code, ok ? ERR_NONE : ERR_SYSTEM);
        ck_assert_int_eq(end_of_next(0), next);
    }
}
END_TEST

START_TEST(a_program_that_does_not_exist_is_a_failure)
{
    int status;
    struct err err = { 0 };
    char *arguments[] = { (char[]){ "none" }, NULL };
    ck_assert(!launch(&(struct launch_options){ .num_ranks = 1,
                                                .arguments = arguments,
                                                .program = "/nonexistent/program",
                                                .grace_s = 1 },
                      &status, &err));
    ck_assert_int_eq(status, 127);
}
END_TEST

/* Each rank keeps the pipe open while it lives, so the pipe closes when all ranks have ended. */
START_TEST(ranks_end_when_their_launcher_ends)
{
    int lives[2], started[2];
    ck_assert(pipe(lives) == 0 && pipe(started) == 0);
    pid_t launcher = fork();
    if (launcher == 0) {
        int status;
        struct err err = { 0 };
        char script[100];
        snprintf(script, sizeof script, "echo x >&%d; exec sleep 60", started[1]);
        launch_shell(script, 3, 1, &status, &err);
        _exit(0);
    }
    close(lives[1]);
    char byte;
    for (int rank = 0; rank < 3; rank++)
        ck_assert(read(started[0], &byte, 1) == 1 && read(started[0], &byte, 1) == 1);
    kill(launcher, SIGKILL);
    waitpid(launcher, NULL, 0);
    ck_assert_int_eq(read(lives[0], &byte, 1), 0);
}
END_TEST

/* --- ranks that talk ------------------------------------------------------------------------ */

struct own_rank {
    struct place place;
    struct device *device;
    struct comm *comm;
    struct watchdog *watchdog;
};

static void describe(void *context, int lane, const void *at, struct text *out)
{
    (void)context;
    (void)lane;
    text_add(out, "%s", (const char *)at);
}

static void stop(void *context)
{
    struct own_rank *own = context;
    if (own->comm)
        comm_tcp.abort(own->comm);
    device_host.abort(own->device);
}

/* Sums a value over all ranks twice. Before the second sum, rank 2 executes the test's fault (such
 * as a signal). */
static bool sum_ranks(struct own_rank *own, double *sum, struct err *err)
{
    int ranks[16];
    for (int i = 0; i < own->place.size; i++)
        ranks[i] = i;
    struct stream *stream = device_host.stream_new(own->device, "sum", err);
    struct group *world = comm_tcp.group_new(own->comm, ranks, own->place.size, err);
    const char *signal = getenv("TEST_SIGNAL");
    *sum = own->place.rank;
    bool ok = world != NULL;
    for (int i = 0; i < 2 && ok; i++) {
        if (i == 1 && signal && own->place.rank == 2)
            raise(atoi(signal));
        watchdog_enter(own->watchdog, 0, i == 0 ? "the first sum" : "the second sum");
        comm_tcp.issue(&(struct comm_call){ .kind = COMM_ALL_REDUCE,
                                            .group = world,
                                            .stream = stream,
                                            .in = sum,
                                            .out = sum,
                                            .count = 1,
                                            .element = ELEMENT_FP64 });
        ok = device_host.stream_sync(stream, err) && comm_tcp.poll(own->comm, err);
    }
    device_host.stream_free(stream);
    comm_tcp.group_free(world);
    return ok;
}

/* The ranks that launch() starts from this program run this. Summed twice over 4 ranks, 0 + 1 + 2 +
 * 3 gives 24. */
static int be_rank(void)
{
    struct own_rank own = { 0 };
    struct err err = { 0 };
    double sum = 0;
    const char *signal = getenv("TEST_SIGNAL");
    bool stands_still = signal && atoi(signal) == SIGSTOP;
    own.watchdog = watchdog_new(&(struct watchdog_options){ .rank = atoi(getenv("SIMSEARCH_RANK")),
                                                            .num_lanes = 1,
                                                            .limit_s = stands_still ? 0.5 : 0,
                                                            .describe = describe,
                                                            .stop = stop,
                                                            .context = &own,
                                                            .grace_s = 0.1 },
                                &err);
    own.device = device_host.open(&(struct device_options){ 0 }, &err);
    if (place_of_environment(&own.place, &err))
        own.comm = comm_tcp.open(
            &(struct comm_options){ .place = &own.place, .device = &device_host, .patience_s = 10 },
            &err);
    bool ok = own.comm && sum_ranks(&own, &sum, &err);
    if (!ok)
        fprintf(stderr, "%s: %s\n", err.where, err.msg);
    watchdog_free(own.watchdog);
    if (own.comm)
        comm_tcp.close(own.comm);
    device_host.close(own.device);
    return !ok ? WATCHDOG_EXIT : sum == 24 ? 0 : 1;
}

static bool launch_self(int *status, struct err *err)
{
    char *arguments[] = { (char[]){ "test_launch" }, NULL };
    return launch(
        &(struct launch_options){ .num_ranks = 4, .arguments = arguments, .grace_s = 0.3 }, status,
        err);
}

static void set_signal(int signal)
{
    char text[16];
    snprintf(text, sizeof text, "%d", signal);
    setenv("TEST_SIGNAL", text, 1);
}

START_TEST(launched_ranks_connect_and_sum)
{
    int status;
    struct err err = { 0 };
    ck_assert_msg(launch_self(&status, &err), "%s %s", err.where, err.msg);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(a_lost_rank_is_named_as_the_cause_of_the_others_failure)
{
    int status;
    struct err err = { 0 };
    set_signal(SIGKILL);
    ck_assert(!launch_self(&status, &err));
    ck_assert_int_eq(status, 75);
    ck_assert_str_eq(err.where, "rank 2");
    ck_assert_ptr_nonnull(strstr(err.msg, "signal 9"));
}
END_TEST

/* Returns whether the output of a rank names the stopped rank or a closed connection. A rank
 * reports a closed connection if its watchdog fires late, after the other ranks have closed their
 * connections. */
static bool tells(const char *text, int rank)
{
    char waits[64], lost[64];
    snprintf(waits, sizeof waits, "rank %d waits the second sum\n", rank);
    snprintf(lost, sizeof lost, "rank %d: rank ", rank);
    const char *closed = strstr(text, lost);
    return strstr(text, waits) || (closed && strstr(closed, " closed its connection\n"));
}

/* The stopped rank's connections stay open, so only the watchdogs of the other ranks can end the
 * wait. */
START_TEST(a_stopped_rank_ends_the_run_and_the_others_report_where_they_wait)
{
    int status;
    struct err err = { 0 };
    FILE *file = tmpfile();
    set_signal(SIGSTOP);
    fflush(stderr);
    int before = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    bool ok = launch_self(&status, &err);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(file);
    char text[4000];
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    ck_assert(!ok);
    ck_assert_int_eq(status, 75);
    ck_assert_msg(strstr(text, " waits the second sum\n"), "%s", text);
    ck_assert_msg(tells(text, 0) && tells(text, 1) && tells(text, 3),
                  "a rank does not report the stopped rank: %s", text);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("launch");
    tcase_set_tags(tc, THREADS);
    tcase_add_test(tc, each_launched_rank_gets_its_number_and_prefixes_its_output);
    tcase_add_test(tc, a_rank_may_leave_a_process_behind);
    tcase_add_test(tc, a_rank_computes_with_one_thread);
    tcase_add_test(tc, ranks_share_the_meetings_address_and_token);
    tcase_add_test(tc, long_lines_and_many_lines_are_copied_whole);
    tcase_add_test(tc, each_rank_is_pinned_to_a_core_if_there_are_enough);
    tcase_add_test(tc, a_killed_rank_is_named_and_the_others_are_ended);
    tcase_add_test(tc, the_killed_rank_is_reported_before_the_others_are_asked_to_end);
    tcase_add_test(tc, a_rank_that_fails_is_not_reported_at_once);
    tcase_add_test(tc, the_exit_code_is_that_of_the_first_rank_that_failed);
    tcase_add_test(tc, of_ranks_that_lost_another_the_first_is_named);
    tcase_add_loop_test(tc, the_rank_that_explains_a_failure_best_is_named, 0, LENGTH(ends));
    tcase_add_loop_test(tc, an_interrupted_launcher_ends_all_ranks, 0, LENGTH(interrupts));
    tcase_add_test(tc, a_rank_that_ignores_the_request_to_end_is_killed);
    tcase_add_test(tc, a_stopped_rank_is_killed_and_named);
    tcase_add_test(tc, a_launch_fails_without_descriptors_and_leaves_none);
    tcase_add_test(tc, a_program_that_does_not_exist_is_a_failure);
    tcase_add_test(tc, ranks_end_when_their_launcher_ends);
    tcase_add_test(tc, launched_ranks_connect_and_sum);
    tcase_add_test(tc, a_lost_rank_is_named_as_the_cause_of_the_others_failure);
    tcase_add_test(tc, a_stopped_rank_ends_the_run_and_the_others_report_where_they_wait);
    Suite *s = suite_create("exec/launch");
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    if (getenv("SIMSEARCH_RANK"))
        return be_rank();
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
