/* Any bytes as a packet of the session manager, before it has opened a session, and in an open session. The state that
 * a session saves is read as the same. */
#include "fuzz.h"
#include "packets.h"

#include "host/live/remotes/nsm.h"
#include "host/live/remotes/osc.h"
#include "host/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int manager;
static struct nsm *session;
static const struct option_names list = {(char *[]){"hall.wav"}, 1};
static struct option_names masks;
static struct session_state state = {.wet = 0.5f, .dry = 0.1f, .gain = 1, .bypass = true};
static const uint8_t *joining; /* what the manager says to a client that joins; NULL: nothing */
static size_t n_joining;

/* The manager speaks before it is asked, so that nsm_join never waits. */
struct osc *__real_osc_open_to(const char *url, char *why, size_t cap);
struct osc *__wrap_osc_open_to(const char *url, char *why, size_t cap);
struct osc *__wrap_osc_open_to(const char *url, char *why, size_t cap)
{
    char packet[256];
    size_t n = packet_make(packet, sizeof packet, "/nsm/client/open",
                           (const char *const[]){"session", "a session", "a client", NULL});
    struct osc *osc = __real_osc_open_to(url, why, cap);
    must(osc);
    if (joining) packets_send(manager, osc_fd(osc), joining, n_joining);
    packets_send(manager, osc_fd(osc), packet, n);
    return osc;
}

void target_begin(void)
{
    struct sockaddr_in ours;
    struct session_state fresh = {.wet = 1, .gain = 1};
    char url[64], why[MESSAGE_CAP];
    manager = packets_open(&ours);
    snprintf(url, sizeof url, "osc.udp://127.0.0.1:%d/", ntohs(ours.sin_port));
    setenv("NSM_URL", url, 1);
    session = nsm_join(why, sizeof why);
    must(session && strcmp(nsm_client_name(session), "a client") == 0);
    must(nsm_load(session, &fresh, &masks, why, sizeof why) && masks.n == 0 &&
         strcmp(fresh.mask, "session/through.txt") == 0);
    strcpy(state.mask, fresh.mask);
    nsm_opened(session, &state, NULL);
    message_set_quiet(true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[MESSAGE_CAP] = "";
    joining = data;
    n_joining = size;
    struct nsm *joined = nsm_join(why, sizeof why);
    must(joined || *why);
    if (joined) must(strlen(nsm_client_name(joined)) < 256);
    nsm_leave(joined);

    unlink("session/session.json");
    packets_send(manager, nsm_fd(session), data, size);
    nsm_tend(session, &state, &list, 0);
    if (access("session/session.json", F_OK) == 0) {
        struct session_state saved = {0};
        must(nsm_load(session, &saved, &masks, why, sizeof why) && session_state_same(&saved, &state) && masks.n == 1 &&
             strstr(masks.list[0], "/hall.wav"));
        option_names_free(&masks);
    }
    return 0;
}
