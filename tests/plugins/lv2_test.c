/* The LV2 plugin in a host: what LV2 alone has. plugin_promises_test.c has the promises of every standard. */
#include "lv2_host.h"
#include "recording.h"

#include <stdio.h>
#include <string.h>

enum { RATE = 48000, CAP = (SANITIZED ? 60 : 5) * RATE };

/* A stereo plugin in a host that renders, with this kind of worker. */
static struct recording open_recording(enum lv2_host_worker worker, struct lv2_host **host)
{
    struct recording r = recording_open(&plugin_lv2, &(struct plugin_setup){.variant = "stereo", .way = worker}, CAP);
    *host = r.p->host;
    return r;
}

/* jalv names the minimum and the maximum of frames of a run, which are the same, and no usual number. */
static void the_engine_has_the_block_of_a_host_whose_runs_are_alike(const char *backend)
{
    static const int frames[] = {64, 256};
    for (int i = 0; i < 2; i++) {
        struct lv2_host *host = lv2_host_open("stereo", RATE, frames[i], -1, WORKER_AT_ONCE);
        struct core_meters meters;
        char want[32];
        lv2_host_activate(host);
        lv2_host_meters(host, &meters);
        snprintf(want, sizeof want, ", %d frames", frames[i]);
        check(strstr(meters.engine, want), "%d frames a run: the engine is \"%s\"", frames[i], meters.engine);
        lv2_host_close(host);
    }
}

static void a_bad_file_changes_nothing(const char *backend)
{
    const char *broken = text_file("broken.txt", "1\nnan\n");
    const char *bad[] = {"/nonexistent/mask.wav", "/", broken};
    for (int w = WORKER_AT_ONCE; w <= WORKER_THREAD; w++) {
        struct lv2_host *host;
        struct recording r = open_recording(w, &host);
        *lv2_host_control(host, BACKEND) = backend[1] == 'p' ? BACKEND_CPU : BACKEND_GPU;
        recording_settle(&r);
        for (int i = 0; i < 3; i++) {
            const char *path = bad[i];
            lv2_host_log(host);
            lv2_host_notified(host);
            lv2_host_send_mask(host, path, 3);
            recording_play(&r, 64);
            recording_settle(&r);
            const char *log = lv2_host_log(host);
            check(strstr(log, "error: haloconv: ") && strstr(log, path) && strstr(log, ";"),
                  "%s: the log has no reason and remedy: \"%s\"", path, log);
            check(strcmp(lv2_host_notified(host), shipped_mask("hall.wav")) == 0,
                  "the host is notified of another mask than plays");
            const char *status = lv2_host_status(host);
            check(strstr(status, path) && strncmp(status, "dry:", 4) != 0, "%s: status \"%s\"", path, status);
        }
        int from = r.n < 3000 ? 0 : r.n - 3000;
        check_mix(&r, shipped_mask("hall.wav"), wet_only, 0, from, r.n);
        recording_close(&r);
    }
}

static void work_that_was_dropped_at_deactivate_is_done_later(const char *backend)
{
    struct lv2_host *host;
    struct recording r = open_recording(WORKER_AT_ONCE, &host);
    recording_play(&r, 64);
    lv2_host_drop_work(host, true);
    lv2_host_send_mask(host, shipped_mask("plate.wav"), 0);
    recording_play(&r, 64);
    plugin_deactivate(r.p);
    lv2_host_drop_work(host, false);
    plugin_activate(r.p, RATE, 64);
    recording_play(&r, 64);
    recording_play(&r, 64);
    check(strcmp(lv2_host_notified(host), shipped_mask("plate.wav")) == 0, "the mask is not loaded");
    recording_close(&r);
}

static void a_host_without_a_worker_gets_the_mask(const char *backend)
{
    const struct plugin_setup setup = {.variant = "stereo", .rate = RATE, .way = WORKER_NONE}; /* no usual block */
    struct recording r = recording_open(&plugin_lv2, &setup, 6100);
    struct lv2_host *host = r.p->host;
    *lv2_host_control(host, BACKEND) = BACKEND_GPU;
    lv2_host_send_mask(host, shipped_mask("plate.wav"), 0);
    lv2_host_send_get(host);
    recording_play_random(&r, 6000, 300, 9);
    check_mix(&r, shipped_mask("hall.wav"), wet_only, 0, 0, r.n);
    check(strcmp(lv2_host_notified(host), shipped_mask("hall.wav")) == 0,
          "the host is notified of another mask than plays");
    const char *status = lv2_host_status(host);
    check(strstr(status, "no worker"), "the status is %s", status);
    lv2_host_send_get(host);
    recording_play(&r, 64);
    check(strcmp(lv2_host_status(host), "ok") == 0, "the refusal stays");
    recording_close(&r);
}

static void junk_is_left_alone(const char *backend)
{
    struct lv2_host *host;
    struct recording r = open_recording(WORKER_AT_ONCE, &host);
    for (unsigned i = 0; i < 50; i++) {
        lv2_host_send_junk(host, i);
        recording_play(&r, 64);
    }
    check_mix(&r, shipped_mask("hall.wav"), wet_only, 0, 0, r.n);
    recording_close(&r);
}

static void messages_of_an_empty_block_are_answered_in_the_next(const char *backend)
{
    const char *mask = mask_file("empty.wav", 2, 500, RATE, 12);
    struct lv2_host *host;
    struct recording r = open_recording(WORKER_AT_ONCE, &host);
    recording_play(&r, 0);
    check(!lv2_host_notified(host)[0], "a message in an empty block");
    recording_play(&r, 64);
    check(strcmp(lv2_host_notified(host), shipped_mask("hall.wav")) == 0 && strcmp(lv2_host_status(host), "ok") == 0,
          "the mask of activate() is not notified");
    lv2_host_send_get(host);
    recording_play(&r, 0);
    recording_play(&r, 64);
    check(strcmp(lv2_host_notified(host), shipped_mask("hall.wav")) == 0, "patch:Get has no answer");
    lv2_host_send_mask(host, mask, 0);
    recording_play(&r, 0);
    recording_play(&r, 64);
    check(strcmp(lv2_host_notified(host), mask) == 0, "patch:Set has no answer");
    recording_close(&r);
}

/* A host that keeps sessions gives paths of its own. */
static void a_state_has_the_paths_of_the_session(const char *backend)
{
    const char *mask = mask_file("state \n.wav", 2, 5000, RATE, 12);
    for (int mapped = 0; mapped < 2; mapped++) {
        struct lv2_host_state state = {0}, empty = {0}, again = {0};
        struct lv2_host *host;
        struct recording r = open_recording(WORKER_AT_ONCE, &host);
        lv2_host_send_mask(host, mask, 0);
        recording_play(&r, 64);
        check(lv2_host_save(host, &state, mapped) == 0, "save failed");
        check(strcmp(state.value + (mapped ? 8 : 0), mask) == 0 &&
                  (!mapped || strncmp(state.value, "session:", 8) == 0),
              "saved %s", state.value);
        check(state.size == strlen(state.value) + 1, "%zu bytes", state.size);
        check(state.flags == (mapped ? 3u : 1u), "flags %u", state.flags); /* a bare path is not portable */
        recording_close(&r);
        for (int is_lost = 0; is_lost < 2; is_lost++) {
            if (is_lost)
                state.size = (size_t)sprintf(state.value, "%s/nonexistent/gone.wav", mapped ? "session:" : "") + 1;
            r = open_recording(WORKER_AT_ONCE, &host);
            recording_play(&r, 64);
            check(lv2_host_restore(host, &state, mapped, true) == 0, "restore failed");
            recording_settle(&r);
            if (is_lost) check_log(&r, "error: haloconv: /nonexistent/gone.wav");
            const int from = r.n;
            recording_play_random(&r, 2000, 100, 13);
            if (!is_lost) check_mix(&r, mask, wet_only, 0, from, r.n);
            check(lv2_host_save(host, &again, mapped) == 0 && strcmp(again.value, state.value) == 0,
                  "saved %s, then %s", state.value, again.value);
            check(lv2_host_restore(host, &empty, mapped, true) == 0, "an empty state was refused");
            recording_settle(&r);
            const int own = r.n;
            recording_play_random(&r, 2000, 100, 14);
            check_mix(&r, shipped_mask("hall.wav"), wet_only, 0, own, r.n);
            recording_close(&r);
        }
    }
}

static void the_host_hears_of_the_mask_of_side_b(const char *backend)
{
    const char *mask = mask_file("side.wav", 2, 5000, RATE, 12);
    struct lv2_host_state second = {0}, state = {.second = &second};
    struct lv2_host *host;
    struct recording r = open_recording(WORKER_AT_ONCE, &host);
    recording_play(&r, 64);
    check(lv2_host_save(host, &state, false) == 0 && second.size == 1, "an empty side has %zu bytes", second.size);
    lv2_host_send_side(host, SIDE_B, mask, 0);
    recording_settle(&r);
    check(strcmp(lv2_host_notified_side(host, SIDE_B), mask) == 0, "the host does not hear of the mask of B");
    check_mix(&r, shipped_mask("hall.wav"), wet_only, 0, r.n - 1000, r.n);
    check(lv2_host_save(host, &state, false) == 0, "save failed");
    check(strcmp(state.value, shipped_mask("hall.wav")) == 0 && strcmp(second.value, mask) == 0, "saved %s and %s",
          state.value, second.value);
    recording_close(&r);
}

static void a_preset_changes_side_a_and_a_session_both(const char *backend)
{
    const char *a = mask_file("a.wav", 2, 500, RATE, 1), *b = mask_file("b.wav", 2, 700, RATE, 2);
    static struct lv2_host_state second, state = {.second = &second}, preset, session;
    struct lv2_host *host;
    struct recording r = open_recording(WORKER_AT_ONCE, &host);
    check(lv2_host_save(host, &session, true) == 0, "save failed");
    lv2_host_send_mask(host, a, 0);
    recording_play(&r, 64);
    check(lv2_host_save(host, &preset, true) == 0, "save failed"); /* of A only */
    check(lv2_host_restore(host, &session, true, true) == 0, "restore failed");
    lv2_host_send_side(host, SIDE_B, b, 0);
    recording_play(&r, 64);
    check(lv2_host_restore(host, &preset, true, true) == 0, "restore failed");
    recording_play(&r, 64);
    check(lv2_host_save(host, &state, false) == 0 && strcmp(state.value, a) == 0 && strcmp(second.value, b) == 0,
          "after a preset, A is %s, B is %s", state.value, second.value);
    recording_close(&r);
    r = open_recording(WORKER_AT_ONCE, &host);
    static struct lv2_host_state none, whole = {.second = &none};
    check(lv2_host_save(host, &whole, true) == 0, "save failed"); /* side B is empty */
    lv2_host_send_side(host, SIDE_B, b, 0);
    recording_play(&r, 64);
    check(lv2_host_restore(host, &whole, true, true) == 0, "restore failed");
    recording_play(&r, 64);
    check(lv2_host_save(host, &state, false) == 0 && second.size == 1, "B of a session that has none is %s",
          second.value);
    recording_close(&r);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(the_engine_has_the_block_of_a_host_whose_runs_are_alike, 0),
        TEST(a_bad_file_changes_nothing, ONCE_A_DEVICE),
        TEST(work_that_was_dropped_at_deactivate_is_done_later, false),
        TEST(a_host_without_a_worker_gets_the_mask, false),
        TEST(junk_is_left_alone, false),
        TEST(messages_of_an_empty_block_are_answered_in_the_next, false),
        TEST(a_state_has_the_paths_of_the_session, false),
        TEST(the_host_hears_of_the_mask_of_side_b, false),
        TEST(a_preset_changes_side_a_and_a_session_both, false),
    };
    return check_main("lv2", tests, sizeof tests / sizeof *tests);
}
