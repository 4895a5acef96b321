#include "service.h"

#include "dsp/base/number.h"
#include "host/message.h"
#include "host/stopwatch.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static const double TEND_S = 0.25;
static const double HANG_S = 5; /* longest time without a block, if there is no watchdog */

static struct {
    int fd;            /* socket to systemd; below 0: none */
    double watchdog_s; /* longest time without WATCHDOG=1, then systemd restarts the service; 0: no limit */
    double next_tend, next_pet, last_block_s;
    uint64_t blocks; /* the session's count of blocks at last_block_s */
    bool is_open, is_ready, is_reloading;
    char status[512]; /* status that was sent last */
} service = {.fd = -1};

/* $NOTIFY_SOCKET is the path of a socket, or with @ an abstract name. */
static void open_once(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *name = getenv("NOTIFY_SOCKET"), *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    size_t n = name ? strlen(name) : 0;
    if (service.is_open) return;
    service.is_open = true;
    if (n == 0 || n >= sizeof address.sun_path || (*name != '/' && *name != '@')) return;
    memcpy(address.sun_path, name, n);
    if (*name == '@') address.sun_path[0] = 0;
    service.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (connect(service.fd, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) !=
        0) {
        message_note("systemd cannot be notified that the service is ready: nothing listens at %s", name);
        close(service.fd);
        service.fd = -1;
    }
    bool is_ours = !pid || strtoll(pid, NULL, 10) == getpid();
    double us = 0;
    if (usec && is_ours) number_read(usec, 0, INFINITY, &us);
    service.watchdog_s = 1e-6 * us;
}

__attribute__((format(printf, 1, 2))) static void service_notify(const char *format, ...)
{
    char text[1024];
    va_list values;
    if (service.fd < 0) return;
    va_start(values, format);
    int n = vsnprintf(text, sizeof text, format, values);
    va_end(values);
    (void)!send(service.fd, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1, MSG_NOSIGNAL);
}

/* Sends systemd a status, and returns whether it is new. The text has names of files: a line end in a name would begin
 * another message to systemd. */
__attribute__((format(printf, 1, 2))) static bool service_report(const char *format, ...)
{
    char text[sizeof service.status];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    message_clean(text);
    if (strcmp(text, service.status) == 0) return false;
    service_notify("STATUS=%s\n", text);
    snprintf(service.status, sizeof service.status, "%s", text);
    return true;
}

static void become_ready(void)
{
    if (!service.is_ready) service_notify("READY=1\n");
    service.is_ready = true;
}

static void pet(double now)
{
    if (service.watchdog_s <= 0 || now < service.next_pet) return;
    service_notify("WATCHDOG=1\n");
    service.next_pet = now + service.watchdog_s / 4;
}

void service_wait(const char *why)
{
    open_once();
    become_ready();
    service_report("waits: %s", why);
    pet(stopwatch_now());
}

static void report_session(const struct session_status *status, bool is_bypassed, const char *missing, bool is_idle,
                           bool hangs)
{
    static const char *const states[] = {[HC_LIVE_OK] = "",
                                         [HC_LIVE_STANDBY] = " on the CPU; the GPU is lost",
                                         [HC_LIVE_LOST] = "; the GPU is lost, and the input passes unchanged"};
    const char *slash = strrchr(status->mask, '/'), *mask = slash ? slash + 1 : status->mask;
    if (missing)
        service_report("waits for %s; %s", missing, mask);
    else if (is_idle)
        service_report("is idle; %s", mask);
    else if (!hangs)
        service_report("%s %s%s", is_bypassed ? "bypasses" : "plays", mask, states[status->stats.state]);
    else if (service_report("hangs: no block of audio comes; %s", mask))
        message_error("no block of audio comes from the server or device; restart that if no block follows");
}

void service_tend(struct session *session, const char *missing, bool is_idle)
{
    struct session_status status;
    double now = stopwatch_now();
    open_once();
    if (service.fd < 0 || now < service.next_tend) return;
    service.next_tend = now + TEND_S;
    session_get_status(session, &status);
    bool goes_on = missing || is_idle || status.stats.blocks != service.blocks;
    if (goes_on || service.last_block_s == 0) service.last_block_s = now;
    service.blocks = status.stats.blocks;
    if (goes_on) become_ready();
    if (goes_on) pet(now);
    if (service.is_reloading && (missing || is_idle || session_is_settled(session))) {
        service.is_reloading = false;
        service_notify("READY=1\n");
    }
    if (service.is_ready)
        report_session(&status, session_get(session, HC_BYPASS) != 0, missing, is_idle,
                       now - service.last_block_s > (service.watchdog_s > 0 ? service.watchdog_s / 2 : HANG_S));
}

/* Sends the time, which systemd compares with that of its own request. */
void service_reload(void)
{
    struct timespec now;
    open_once();
    clock_gettime(CLOCK_MONOTONIC, &now);
    service_notify("RELOADING=1\nMONOTONIC_USEC=%lld\n", now.tv_sec * 1000000LL + now.tv_nsec / 1000);
    service.is_reloading = true;
}

void service_stop(void)
{
    open_once();
    service_notify("STOPPING=1\n");
    service_report("stops");
}
