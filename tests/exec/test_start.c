/* Tests the start of ranks that are processes. The ranks find each other; if the start fails, they
 * end within the time limit. */
#include "base/clock.h"
#include "exec/comm/greeting.h"
#include "exec/device/kernels.h"
#include "exec/run/session.h"
#include "exec/watchdog.h"
#include "sim/plan/lowering.h"
#include "sim/schedule/generators.h"
#include "tests/exec/checkpoint_runs.h"
#include "tests/exec/parity.h"
#include "tests/exec/rank_job.h"
#include "tests/testing.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* --- admitting connections ------------------------------------------------------------------ */

/* All ranks meet and connect to one another. */
static bool meet_and_wait(struct rank_job *job, const struct comm_options *options)
{
    int ranks[MOST_JOB_RANKS];
    struct err err = { 0 };
    struct comm_options own = *options;
    own.device = &device_host;
    for (int i = 0; i < job->size; i++)
        ranks[i] = i;
    struct comm *comm = comm_tcp.open(&own, &err);
    struct group *world = comm ? comm_tcp.group_new(comm, ranks, job->size, &err) : NULL;
    if (!world)
        fprintf(stderr, "%s: %s\n", err.where, err.msg);
    comm_tcp.group_free(world);
    if (comm)
        comm_tcp.close(comm);
    return world != NULL;
}

static struct rank_job listening_job(int size)
{
    struct rank_job job = { .api = &comm_tcp, .size = size, .seed = 77, .run = meet_and_wait };
    rank_job_listen(&job);
    return job;
}

static struct socket_limit soon(void)
{
    return (struct socket_limit){ .deadline_s = clock_now_s() + 5 };
}

static struct place place_at(const struct rank_job *job, int rank)
{
    struct place place = { .launcher = "test",
                           .rank = rank,
                           .size = job->size,
                           .meeting_host = "127.0.0.1",
                           .meeting_port = job->meeting_port,
                           .meeting_fd = rank == 0 ? job->meeting_fd : -1 };
    snprintf(place.token, sizeof place.token, "%llu", (unsigned long long)job->seed);
    return place;
}

static int call_meeting(const struct rank_job *job)
{
    struct err err = { 0 };
    struct sockaddr_storage address;
    ck_assert(socket_address("127.0.0.1", job->meeting_port, &address, &err));
    int fd = socket_connect(&address, false, soon(), &err);
    ck_assert_msg(fd >= 0, "%s: %s", err.where, err.msg);
    return fd;
}

static struct greeting greeting_in(const struct rank_job *job, int rank)
{
    struct place place = place_at(job, rank);
    return greeting_of(&place, AT_MEETING, 4711);
}

static int say(const struct rank_job *job, const void *words, size_t length)
{
    struct err err = { 0 };
    int fd = call_meeting(job);
    ck_assert(socket_send(fd, words, length, soon(), &err));
    return fd;
}

static int greet(const struct rank_job *job, const struct greeting *greeting)
{
    return say(job, greeting, sizeof *greeting);
}

/* More callers connect than could be served one after another within the time limit. */
START_TEST(silent_callers_delay_no_rank)
{
    enum { NUM_SILENT = 6 };
    struct rank_job job = listening_job(2);
    struct greeting greeting = greeting_in(&job, 1);
    int fds[NUM_SILENT];
    for (int i = 0; i < NUM_SILENT; i++)
        fds[i] = i % 2 ? call_meeting(&job) : say(&job, &greeting, sizeof greeting - 1);
    rank_job_run(job);
    for (int i = 0; i < NUM_SILENT; i++)
        close(fds[i]);
}
END_TEST

/* Rank 0, a separate process, has space for fewer greetings, or has fewer file descriptors. */
START_TEST(silent_callers_are_dropped_to_admit_ranks)
{
    enum { NUM_SILENT = MOST_CALLERS + 40 };
    const rlim_t descriptors[] = { 1000, 30 };
    struct rank_job job = listening_job(2);
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = (rlim_t)job.meeting_fd + descriptors[_i];
    pid_t host = fork();
    if (host == 0) {
        struct place place = place_at(&job, 0);
        setrlimit(RLIMIT_NOFILE, &limit);
        _exit(!meet_and_wait(&job, &(struct comm_options){ .place = &place, .patience_s = 10 }));
    }
    int status, fds[NUM_SILENT];
    for (int i = 0; i < NUM_SILENT; i++)
        fds[i] = call_meeting(&job);
    struct place place = place_at(&job, 1);
    ck_assert(meet_and_wait(&job, &(struct comm_options){ .place = &place, .patience_s = 10 }));
    waitpid(host, &status, 0);
    ck_assert_int_eq(status, 0);
    for (int i = 0; i < NUM_SILENT; i++)
        close(fds[i]);
}
END_TEST

enum lie { LIE_PROGRAM, LIE_TOKEN, LIE_RANK, LIE_HOST, LIE_CALL, LIE_SIZE, NUM_LIES };

/* No message at the meeting can end the run. */
START_TEST(a_forged_greeting_is_rejected)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: a web browser that is lost\r\n\r\n";
    struct rank_job job = listening_job(3);
    close(say(&job, request, sizeof request));
    for (int lie = 0; lie < NUM_LIES; lie++) {
        struct greeting greeting = greeting_in(&job, lie == LIE_RANK ? 3 : lie == LIE_HOST ? 0 : 1);
        greeting.magic ^= lie == LIE_PROGRAM;
        greeting.token[sizeof greeting.token - 1] = lie == LIE_TOKEN ? 1 : 0;
        greeting.number = lie == LIE_CALL ? 0 : lie == LIE_SIZE ? AT_MEETING : greeting.number;
        greeting.size += lie == LIE_SIZE;
        greet(&job, &greeting); /* the connection stays open */
    }
    rank_job_run(job);
}
END_TEST

/* A caller that knew the token has disconnected. */
START_TEST(a_rank_that_left_the_meeting_may_connect_again)
{
    struct rank_job job = listening_job(2);
    struct greeting greeting = greeting_in(&job, 1);
    close(greet(&job, &greeting));
    rank_job_run(job);
}
END_TEST

/* Messages with which rank 0, a separate process, rejects a rank. */
static const struct {
    const char *token;
    int rank, size;
    const char *msg;
} refusals[] = {
    { "78", 1, 3, "it belongs to another run, or its SIMSEARCH_TOKEN differs" },
    { "77", 1, 2, "its run has 3 ranks, but this one has 2" },
    { "77", 2, 3, "a rank with this number has already connected" },
};

START_TEST(a_rejected_rank_reports_the_reason)
{
    struct rank_job job = listening_job(3);
    struct err err = { 0 };
    struct greeting second = greeting_in(&job, 2);
    pid_t host = fork();
    if (host == 0) {
        struct place place = place_at(&job, 0);
        comm_tcp.open(&(struct comm_options){ .place = &place, .patience_s = 60 }, &err);
        _exit(1);
    }
    int there = greet(&job, &second);
    struct place place = place_at(&job, refusals[_i].rank);
    place.size = refusals[_i].size;
    snprintf(place.token, sizeof place.token, "%s", refusals[_i].token);
    struct comm_options options = { .place = &place, .device = &device_host, .patience_s = 60 };
    ck_assert_ptr_null(comm_tcp.open(&options, &err));
    kill(host, SIGKILL);
    waitpid(host, NULL, 0);
    close(there);
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.msg, refusals[_i].msg);
    ck_assert_ptr_nonnull(strstr(err.where, "rank 0: 127.0.0.1:"));
}
END_TEST

/* Another program listens at the meeting address and answers. */
START_TEST(another_program_at_the_meeting_address_has_its_own_error)
{
    struct rank_job job = listening_job(2);
    struct err err = { 0 };
    pid_t stranger = fork();
    if (stranger == 0) {
        int fd = -1;
        while ((fd = socket_accept(job.meeting_fd, &err)) < 0)
            poll(&(struct pollfd){ .fd = job.meeting_fd, .events = POLLIN }, 1, -1);
        socket_send(fd, "220 mail.example.org ESMTP\r\n", 28, soon(), &err);
        pause();
    }
    struct place place = place_at(&job, 1);
    struct comm_options options = { .place = &place, .device = &device_host, .patience_s = 60 };
    ck_assert_ptr_null(comm_tcp.open(&options, &err));
    kill(stranger, SIGKILL);
    waitpid(stranger, NULL, 0);
    ck_assert_str_eq(err.msg, "the program that listens there is no rank of simsearch");
}
END_TEST

/* --- a session of two ranks ----------------------------------------------------------------- */

#if defined __SANITIZE_THREAD__ || IS_ASAN
static const double watchdog_s = 1;
#else
static const double watchdog_s = 0.3;
#endif

/* The moment at which the second rank (the victim) hangs or dies. With "nowhere" it does neither,
 * and the start succeeds. */
enum moment {
    BEFORE_IT_CONNECTS, /* if rank 0 is killed, others may wait for it or find it missing */
    BEFORE_IT_GREETS,
    AFTER_THE_MEETING,
    BETWEEN_TWO_GROUPS,
    AFTER_ALL_GROUPS,
    AFTER_THE_STEPS, /* while ranks exchange their step times */
    NOWHERE
};
enum { FIRST_GROUPS = 2, MOST_GROUPS = 5, NUM_STEPS = 2 };

struct start {
    enum moment moment;
    int victim, signal;
    bool is_noticed; /* whether the other rank notices the failure before its own watchdog fires */
    const char *words; /* expected message */
};

static struct start start; /* start of this process */
static int own_rank, groups_made;
static bool is_saving;
static const char *folder; /* folder of checkpoints; NULL: none */
static double save_s;      /* artificial time that saving each weight takes */

static void come_to(enum moment moment)
{
    if (own_rank == start.victim && moment == start.moment)
        raise(start.signal);
}

static struct comm *open_and_stop(const struct comm_options *options, struct err *err)
{
    struct sockaddr_storage address;
    come_to(BEFORE_IT_CONNECTS);
    if (own_rank > 0 && start.moment == BEFORE_IT_GREETS &&
        socket_address("127.0.0.1", options->place->meeting_port, &address, err) &&
        socket_connect(&address, true, soon(), err) >= 0)
        come_to(BEFORE_IT_GREETS);
    struct comm *comm = comm_tcp.open(options, err);
    come_to(AFTER_THE_MEETING);
    return comm;
}

static struct group *make_group_and_stop(struct comm *comm, const int *ranks, int num_ranks,
                                         struct err *err)
{
    struct group *group = comm_tcp.group_new(comm, ranks, num_ranks, err);
    groups_made++;
    if (groups_made == FIRST_GROUPS)
        come_to(BETWEEN_TWO_GROUPS);
    if (groups_made == MOST_GROUPS)
        come_to(AFTER_ALL_GROUPS);
    return group;
}

/* Replaces the communicator's issue(), and stops the rank if this is the chosen moment. Ranks take
 * the maximum of NUM_STEPS numbers to combine their step times; any other maximum concerns
 * saving. */
static void issue_and_stop(const struct comm_call *call)
{
    if (call->reduction == REDUCTION_MAX && call->count == NUM_STEPS)
        come_to(AFTER_THE_STEPS);
    is_saving = is_saving || call->reduction == REDUCTION_MAX;
    comm_tcp.issue(call);
}

static void copy_slowly(struct stream *stream, void *to, const void *from, size_t bytes)
{
    if (is_saving && save_s > 0)
        nanosleep(&(struct timespec){ .tv_nsec = (long)(1e9 * save_s) }, NULL);
    device_host.copy(stream, to, from, bytes);
}

/* The time limit of a rank's watchdog. The victim has a longer limit than the other rank. */
static double watchdog_of(int rank)
{
    if (save_s > 0)
        return 30 * save_s;
    bool is_patient = start.is_noticed || (start.moment != NOWHERE && rank == start.victim);
    return is_patient ? 50 : watchdog_s;
}

/* Runs two steps and returns the exit code that `simsearch run` would return. */
static int run_two_steps(const struct place *place, struct err *err)
{
    struct arena arena = { 0 };
    struct model model = parity_gpt();
    struct plan plan;
    struct session_result result = { 0 };
    if (!plan_parse("dp2", &arena, &plan, err))
        return 1;
    struct lowering lowering = plan_lowering(&plan, &model);
    struct schedule_shape shape = plan_shape(&plan, model.batch);
    struct token_source tokens = { .vocab = model.vocab, .seq = model.seq, .seed = 1 };
    struct comm_api api = comm_tcp;
    api.open = open_and_stop;
    api.group_new = make_group_and_stop;
    api.issue = issue_and_stop;
    struct device_api device = device_host;
    device.copy = copy_slowly;
    struct run_setup setup = {
        .plan = &plan,
        .model = &model,
        .schedule =
            schedule_new(generator_find(plan_schedule(&plan)), &shape, &lowering, &arena, err),
        .options = { .flash_attention = true,
                     .dtype = precision_value_dtype(plan.precision),
                     .gradient_bytes = 4 },
        .tokens = &tokens,
        .update = { .optimizer = OPTIMIZER_SGD, .rate = 0.1F, .loss_scale = 1 },
        .data_ranks = { 2, 1 },
    };
    struct session_options options = { .setup = &setup,
                                       .device_api = &device,
                                       .kernel_api = &kernels_host,
                                       .comm_api = &api,
                                       .place = place,
                                       .arena_bytes = 8 << 20,
                                       .steps = NUM_STEPS,
                                       .checkpoint = folder,
                                       .watchdog_s = watchdog_of(place->rank) };
    bool ok = setup.schedule && session_run(&options, &arena, &result, err);
    arena_release(&arena);
    return ok ? 0 : result.is_interrupted ? WATCHDOG_EXIT : 1;
}

struct process {
    pid_t id;
    FILE *words;
    char text[2000];
    int status;
};

enum { LATEST_S = 55 }; /* time limit of a rank that waits forever */

/* Starts a rank as a process; its output goes to a file. */
static struct process start_rank(const struct start *how, const struct place *place, int meeting_fd)
{
    struct process process = { .words = tmpfile() };
    process.id = fork();
    if (process.id != 0)
        return process;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(LATEST_S);
    struct err err = { 0 };
    dup2(fileno(process.words), STDERR_FILENO);
    start = *how;
    own_rank = place->rank;
    if (own_rank >
        0) /* like the launcher, only rank 0 keeps the socket, so it closes when rank 0 ends */
        close(meeting_fd);
    int code = run_two_steps(place, &err);
    if (code != 0)
        fprintf(stderr, "simsearch: %s: %s\n", err.where, err.msg);
    _exit(code);
}

static void end_rank(struct process *process)
{
    waitpid(process->id, &process->status, 0);
    rewind(process->words);
    process->text[fread(process->text, 1, sizeof process->text - 1, process->words)] = '\0';
    fclose(process->words);
}

static void start_both(const struct start *how, struct process *ranks)
{
    struct rank_job job = listening_job(2);
    for (int rank = 0; rank < 2; rank++) {
        struct place place = place_at(&job, rank);
        ranks[rank] = start_rank(how, &place, job.meeting_fd);
    }
    close(job.meeting_fd);
}

/* The surviving rank continues and ends; then the victim is killed. */
static void end_both(const struct start *how, struct process *ranks)
{
    end_rank(&ranks[1 - how->victim]);
    kill(ranks[how->victim].id, SIGKILL);
    end_rank(&ranks[how->victim]);
}

static void check_end(const struct start *how, const struct process *ranks)
{
    const struct process *other = &ranks[1 - how->victim];
    char waits[100];
    snprintf(waits, sizeof waits, "rank %d", 1 - how->victim);
    bool says_first = strncmp(other->text, waits, strlen(waits)) == 0;
    ck_assert_msg(
        WIFEXITED(other->status) && WEXITSTATUS(other->status) == WATCHDOG_EXIT,
        "moment %d, rank %d gets signal %d: the other rank ended with wait status %x and wrote: %s",
        how->moment, how->victim, how->signal, (unsigned)other->status, other->text);
    ck_assert_msg(says_first && strstr(other->text, " waits "),
                  "moment %d, rank %d gets signal %d: the other rank did not report that it waits, "
                  "but wrote: %s",
                  how->moment, how->victim, how->signal, other->text);
    ck_assert_msg(strstr(other->text, how->words), "%s is not in %s", how->words, other->text);
    ck_assert_msg(how->is_noticed == !strstr(other->text, ": no progress for "),
                  "the other rank wrote: %s", other->text);
}

#define COMES "rank 0 waits for rank 1 to report its address\n"
static const struct start starts[] = {
    { BEFORE_IT_CONNECTS, 1, SIGSTOP, false, COMES },
    { BEFORE_IT_CONNECTS, 0, SIGSTOP, false, "rank 1 waits for rank 0 to send all addresses\n" },
    { BEFORE_IT_GREETS, 1, SIGSTOP, false, COMES },
    { AFTER_THE_MEETING, 1, SIGSTOP, false, "rank 0 waits " },
    { AFTER_THE_MEETING, 0, SIGSTOP, false, "rank 1 waits " },
    { BETWEEN_TWO_GROUPS, 1, SIGSTOP, false, "rank 0 waits " },
    { BETWEEN_TWO_GROUPS, 0, SIGSTOP, false, "rank 1 waits " },
    { AFTER_ALL_GROUPS, 1, SIGSTOP, false, "rank 0 waits " },
    { AFTER_ALL_GROUPS, 0, SIGSTOP, false, "rank 1 waits " },
    { AFTER_THE_STEPS, 1, SIGSTOP, false, "rank 0 waits " },
    { BEFORE_IT_CONNECTS, 1, SIGKILL, false, COMES },
    { BEFORE_IT_GREETS, 1, SIGKILL, false, COMES },
    { AFTER_THE_MEETING, 1, SIGKILL, false, "rank 0 waits " },
    { AFTER_THE_MEETING, 0, SIGKILL, true, "rank 1: rank 0" },
    { BETWEEN_TWO_GROUPS, 1, SIGKILL, false, "rank 0 waits " },
    { BETWEEN_TWO_GROUPS, 0, SIGKILL, true, "rank 1: rank 0" },
    { AFTER_ALL_GROUPS, 1, SIGKILL, true, "rank 0: rank 1 closed its connection\n" },
    { AFTER_ALL_GROUPS, 0, SIGKILL, true, "rank 1: rank 0 closed its connection\n" },
};

/* All cases run at once, as most of their time is spent waiting for the watchdog. */
START_TEST(a_rank_that_hangs_or_dies_at_the_start_is_reported_lost)
{
    struct process ranks[LENGTH(starts)][2];
    for (int i = 0; i < LENGTH(starts); i++)
        start_both(&starts[i], ranks[i]);
    for (int i = 0; i < LENGTH(starts); i++)
        end_both(&starts[i], ranks[i]);
    for (int i = 0; i < LENGTH(starts); i++)
        check_end(&starts[i], ranks[i]);
}
END_TEST

static void train_both(const struct start *how)
{
    struct process ranks[2];
    start_both(how, ranks);
    for (int rank = 0; rank < 2; rank++) {
        end_rank(&ranks[rank]);
        ck_assert_msg(ranks[rank].status == 0, "rank %d failed and wrote: %s", rank,
                      ranks[rank].text);
    }
}

START_TEST(a_start_that_succeeds_trains)
{
    train_both(&(struct start){ .moment = NOWHERE, .is_noticed = true });
}
END_TEST

/* Both ranks hold the same fifty or so weights, and the first rank saves them. The watchdogs' limit
 * is the time that saving thirty weights takes. */
START_TEST(a_long_checkpoint_does_not_trigger_the_watchdog)
{
    /* a folder in memory, so that a busy disk does not matter */
    bool has_memory = access("/dev/shm", W_OK) == 0;
    snprintf(checkpoint_folder, sizeof checkpoint_folder, "%s/test_start.XXXXXX",
             has_memory ? "/dev/shm" : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(checkpoint_folder));
    folder = checkpoint_folder;
    save_s = 0.04;
    train_both(&(struct start){ .moment = NOWHERE });
    checkpoint_folder_remove();
}
END_TEST

static const struct {
    const char *folder, *msg;
} folders[] = {
    { "/nonexistent/folder", "cannot be made: No such file or directory" },
    { "/dev/null", "is not a folder" },
    { NULL, "is longer than 448 characters" },
};

/* The folder is checked before the ranks meet, as the first checkpoint may be hours later. */
START_TEST(an_unusable_checkpoint_folder_is_reported_at_the_start)
{
    struct rank_job job = listening_job(2);
    struct place place = place_at(&job, 0);
    struct err err = { 0 };
    char longest[600] = "/tmp/";
    memset(longest + 5, 'x', 500);
    folder = folders[_i].folder ? folders[_i].folder : longest;
    ck_assert_int_eq(run_two_steps(&place, &err), 1);
    ck_assert_str_eq(err.msg, folders[_i].msg);
    ck_assert_int_eq(strncmp(err.where, folder, 200), 0);
}
END_TEST

/* In the three cases no process listens at the address, another program listens, or SIGTERM arrives
 * first. */
START_TEST(a_rank_without_peers_names_the_meeting_address)
{
    struct rank_job job = listening_job(2);
    struct start how = { .moment = NOWHERE };
    struct place place = place_at(&job, 0);
    place.meeting_fd = -1;
    char text[200];
    struct process host = start_rank(&how, &place, job.meeting_fd);
    end_rank(&host);
    ck_assert_msg(WIFEXITED(host.status) && WEXITSTATUS(host.status) == 1,
                  "rank 0 did not exit with 1; it wrote: %s", host.text);
    snprintf(text, sizeof text,
             "simsearch: 127.0.0.1:%d: cannot be listened on: Address already in use\n",
             job.meeting_port);
    ck_assert_str_eq(host.text, text);

    close(job.meeting_fd);
    place.rank = 1;
    struct process guest = start_rank(&how, &place, job.meeting_fd);
    end_rank(&guest);
    ck_assert_msg(WIFEXITED(guest.status) && WEXITSTATUS(guest.status) == WATCHDOG_EXIT, "%s",
                  guest.text);
    snprintf(text, sizeof text, "rank 1 waits for rank 0 to listen at 127.0.0.1:%d\n",
             job.meeting_port);
    ck_assert_msg(strstr(guest.text, text), "rank 1 does not name the address: %s", guest.text);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("start");
    tcase_set_tags(tc, THREADS);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, silent_callers_delay_no_rank);
    tcase_add_loop_test(tc, silent_callers_are_dropped_to_admit_ranks, 0, 2);
    tcase_add_test(tc, a_forged_greeting_is_rejected);
    tcase_add_test(tc, a_rank_that_left_the_meeting_may_connect_again);
    tcase_add_loop_test(tc, a_rejected_rank_reports_the_reason, 0, LENGTH(refusals));
    tcase_add_test(tc, another_program_at_the_meeting_address_has_its_own_error);
    tcase_add_test(tc, a_rank_that_hangs_or_dies_at_the_start_is_reported_lost);
    tcase_add_test(tc, a_start_that_succeeds_trains);
    tcase_add_test(tc, a_long_checkpoint_does_not_trigger_the_watchdog);
    tcase_add_loop_test(tc, an_unusable_checkpoint_folder_is_reported_at_the_start, 0,
                        LENGTH(folders));
    tcase_add_test(tc, a_rank_without_peers_names_the_meeting_address);
    Suite *s = suite_create("exec: start");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
