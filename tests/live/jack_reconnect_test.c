/* A JACK server dies and comes back: which connections the client then has. And what it says about its audio thread.
 * fake_jack is the server. During a test the clock runs ten times as fast: the client lists its connections once a
 * second. */
#include "fake_jack.h"
#include "host/message.h"
#include "live_driver.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FASTER = 10, LATE_TAP = 2000 };
static const double GIVE_UP_S = 60 * FASTER;
static atomic_llong fast_since_ns; /* 0: the clock runs as usual */

static long long clock_ns(const struct timespec *t)
{
    return t->tv_sec * 1000000000LL + t->tv_nsec;
}

/* Replaces the C library's for the program. */
int clock_gettime(clockid_t id, struct timespec *t)
{
    int error = (int)syscall(SYS_clock_gettime, id, t);
    long long since = atomic_load(&fast_since_ns);
    if (error || id != CLOCK_MONOTONIC || since == 0) return error;
    long long ns = since + FASTER * (clock_ns(t) - since);
    *t = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    return 0;
}

static void set_fast(bool on)
{
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    atomic_store(&fast_since_ns, on ? clock_ns(&now) : 0);
}
static char mask[] = "/tmp/hc_reconnect_XXXXXX.txt";

static const char *const asked[4][2] = {{"system:capture_1", "test:in-1"},
                                        {"system:capture_2", "test:in-2"},
                                        {"test:out-1", "system:playback_1"},
                                        {"test:out-2", "system:playback_2"}};
static const char *const by_hand[2] = {"system:capture_1", "test:in-2"};

static void await_connection(const char *const ends[2], const char *when)
{
    double give_up = now_s() + GIVE_UP_S;
    while (!fake_jack_connects(ends[0], ends[1])) {
        check(now_s() < give_up, "%s: %s and %s are not connected", when, ends[0], ends[1]);
        pause_us(1000);
    }
}

static void await_asked(int n, const char *when)
{
    for (int i = 0; i < n; i++) await_connection(asked[i], when);
}

/* Waits until the client has listed its connections n times more. */
static void await_checks(int n)
{
    double give_up = now_s() + GIVE_UP_S;
    for (int end = fake_jack_checks() + n; fake_jack_checks() < end; pause_us(1000))
        check(now_s() < give_up, "the client does not list its connections");
}

static void await_end_of_client(void)
{
    double give_up = now_s() + GIVE_UP_S;
    for (; fake_jack_has_client(); pause_us(1000)) check(now_s() < give_up, "the client stays");
}

/* Opens the program; with `absent` > 0 the server dies in the first activation: fake_jack_die_in_activation. */
static void open_connected(int absent)
{
    if (live_jack.missing) check_skip(live_jack.missing);
    live_jack.close(); /* of a test that failed */
    set_fast(true);
    fake_jack_return(absent ? 0 : 4); /* a server that dies has removed its ports */
    if (absent) fake_jack_die_in_activation(absent);
    live_jack.open(&(struct live_setup){.mask = mask, .more = {"--connect", "--reconnect"}});
    await_asked(4, "at the start");
}

static void die_and_return(bool while_listed, int ports)
{
    fake_jack_die(while_listed);
    await_end_of_client();
    fake_jack_return(ports);
}

/* The client lists its connections once a second: the server dies before the first time, then after it. */
static void asked_connections_come_back_whenever_the_server_dies(const char *backend)
{
    open_connected(0);
    for (int checks = 0; checks < 2; checks++) {
        char when[40];
        snprintf(when, sizeof when, "a death after %d checks", checks);
        await_checks(checks);
        die_and_return(false, 4);
        await_asked(4, when);
    }
    live_jack.close();
    set_fast(false);
}

static void asked_connections_wait_for_their_ports(const char *backend)
{
    open_connected(0);
    die_and_return(false, 2);
    await_asked(2, "two ports are back");
    die_and_return(false, 2); /* before the others came */
    await_asked(2, "two ports are back again");
    fake_jack_return(4);
    await_asked(4, "all ports are back");
    live_jack.close();
    set_fast(false);
}

static void connections_made_by_hand_come_back(const char *backend)
{
    open_connected(0);
    fake_jack_connect(by_hand[0], by_hand[1]);
    await_checks(2); /* the first of them may have begun before the connection */
    die_and_return(true, 4);
    await_connection(by_hand, "a server that removes the connections, then dies");
    await_asked(4, "beside a connection made by hand");
    live_jack.close();
    set_fast(false);
}

static void a_server_that_dies_in_the_activation_is_waited_for(const char *backend)
{
    open_connected(2);
    live_jack.close();
    set_fast(false);
}

/* Plays, and returns whether the program says that its audio thread, this one, has no real-time priority. */
static bool says_refused(bool has_priority)
{
    static float x[LIVE_CHANNELS][1024];
    const float *in[] = {x[0], x[1]};
    float *out[] = {x[0], x[1]};
    char path[] = "/tmp/hc_said_XXXXXX", said[4096] = "";
    int file = mkstemp(path), before = dup(STDERR_FILENO);
    check(file >= 0 && before >= 0 && dup2(file, STDERR_FILENO) >= 0, "standard error");
    remove(path);
    open_connected(0);
    message_set_quiet(false);
    bool is_skipped = has_priority && sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 10});
    const char *caught = live_jack.process(in, out, live_jack.block);
    await_checks(2);
    sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
    live_jack.close();
    set_fast(false);
    dup2(before, STDERR_FILENO);
    close(before);
    check(pread(file, said, sizeof said - 1, 0) > 0, "the program says nothing");
    close(file);
    if (is_skipped) check_skip("the system grants no real-time priority");
    check(!caught, "the callback reached %s", caught);
    return strstr(said, "refuses real-time priority") != NULL;
}

/* JACK2 calls the callback for new threads in others, too, after the audio thread. */
static void the_priority_of_the_audio_thread_is_reported(const char *backend)
{
    check(says_refused(false), "ordinary priority is not reported");
    check(!says_refused(true), "another thread's priority is reported");
}

/* Plays n blocks of one value, and returns the largest magnitude in the last of them. */
static float play(int n, float value)
{
    enum { BLOCK = 512 };
    static float x[BLOCK], y[2][BLOCK];
    float peak = 0;
    check(live_jack.block <= BLOCK, "blocks of %d frames", live_jack.block);
    for (int i = 0; i < BLOCK; i++) x[i] = value;
    for (; n > 0; n--) live_jack.process((const float *const[]){x, x}, (float *const[]){y[0], y[1]}, live_jack.block);
    for (int ch = 0; ch < 2; ch++)
        for (int i = 0; i < live_jack.block; i++) peak = fmaxf(peak, fabsf(y[ch][i]));
    return peak;
}

static void the_return_of_a_server_brings_back_no_past(const char *backend)
{
    open_connected(0);
    float before = play(100, 0.5f);
    check(before > 0.9f, "the mask plays %g", (double)before);
    die_and_return(false, 4);
    await_asked(4, "after the return");
    for (int i = 0; i < LATE_TAP / live_jack.block + 1; i++) {
        float after = play(1, 0);
        check(after == 0, "block %d after the return: %g", i, (double)after);
    }
    live_jack.close();
    set_fast(false);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(asked_connections_come_back_whenever_the_server_dies, false),
        TEST(asked_connections_wait_for_their_ports, false),
        TEST(connections_made_by_hand_come_back, false),
        TEST(a_server_that_dies_in_the_activation_is_waited_for, false),
        TEST(the_priority_of_the_audio_thread_is_reported, false),
        TEST(the_return_of_a_server_brings_back_no_past, false),
    };
    setenv("HALOCONV_COSTS", "builtin", 1);
    unsetenv("NSM_URL");
    int fd = mkstemps(mask, 4);
    for (int i = 0; i <= LATE_TAP; i++)
        if (fd < 0 || write(fd, i % LATE_TAP ? "0 0\n" : "1 1\n", 4) != 4) return 1;
    close(fd);
    int failed = check_main("jack_reconnect", tests, sizeof tests / sizeof *tests);
    remove(mask);
    return failed;
}
