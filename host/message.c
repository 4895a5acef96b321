#include "message.h"

#include "dsp/base/error.h"
#include "stopwatch.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define ERASE_LINE "\r\033[K"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char status[512]; /* the status line as the terminal shows it; under lock */
static atomic_bool is_quiet;
static message_listener *listener; /* under lock */
static void *listener_data;

const char *message_s(int64_t n)
{
    return n == 1 ? "" : "s";
}

static double message_rounded(double value, int decimals)
{
    double scale = pow(10, decimals);
    return rint(value * scale) / scale + 0.0; /* -0 + 0 is 0 */
}

struct message_db message_db(double db, int decimals, const char *unit)
{
    struct message_db m = {"silence"};
    if (db > -INFINITY)
        snprintf(m.text, sizeof m.text, "%.*f%s%s", decimals, message_rounded(db, decimals), *unit ? " " : "", unit);
    return m;
}

struct message_db message_signed(double value, int decimals, const char *unit)
{
    struct message_db m;
    snprintf(m.text, sizeof m.text, "%+.*f %s", decimals, message_rounded(value, decimals), unit);
    return m;
}

struct message_db message_gain(double db, int decimals)
{
    return db > -INFINITY ? message_signed(db, decimals, "dB") : (struct message_db){"none"};
}

void message_clean(char *text)
{
    for (char *dot = text; (dot = strstr(dot, ".; ")); dot++)
        memmove(dot, dot + 1, strlen(dot)); /* libsndfile's reasons */
    text_clean(text);
}

static bool is_journal; /* standard error is the journal of systemd; look_for_journal sets it */

/* JOURNAL_STREAM names the journal's socket by device and inode. Another standard error, as in a pipe, has others. */
static void look_for_journal(void)
{
    struct stat error;
    uintmax_t device, inode;
    const char *stream = getenv("JOURNAL_STREAM");
    is_journal = stream && sscanf(stream, "%" SCNuMAX ":%" SCNuMAX, &device, &inode) == 2 &&
                 fstat(STDERR_FILENO, &error) == 0 && error.st_dev == device && error.st_ino == inode;
}

/* Starts a line for the journal with its priority (sd-daemon(3)); without the program's name, which the journal adds. */
static void print_line(bool is_error, const char *prefix, const char *format, va_list values, const char *suffix)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char text[MESSAGE_CAP];
    pthread_once(&once, look_for_journal);
    if (is_journal) prefix = is_error ? "<3>" : "<6>";
    vsnprintf(text, sizeof text, format, values);
    message_clean(text);
    pthread_mutex_lock(&lock);
    /* One write: lines of other processes do not mix with it. */
    fprintf(stderr, "%s%s%s%s\n%s", status[0] ? ERASE_LINE : "", prefix, text, suffix, status);
    if (listener) listener(listener_data, is_error, text);
    pthread_mutex_unlock(&lock);
}

/* Prints the arguments behind `format` of the function that uses it. */
#define PRINT(is_error, prefix, suffix)                                                                                \
    va_list values;                                                                                                    \
    va_start(values, format);                                                                                          \
    print_line(is_error, prefix, format, values, suffix);                                                              \
    va_end(values)

int message_error(const char *format, ...)
{
    PRINT(true, "haloconv: ", "");
    return EXIT_FAILED;
}

int message_usage(const char *command, const char *format, ...)
{
    char suffix[64];
    snprintf(suffix, sizeof suffix, "; see `haloconv %s%s--help`", command, *command ? " " : "");
    PRINT(true, "haloconv: ", suffix);
    return EXIT_USAGE;
}

int message_note(const char *format, ...)
{
    if (atomic_load(&is_quiet)) return 0;
    PRINT(false, "", "");
    return 0;
}

int message_always(const char *format, ...)
{
    PRINT(false, "", "");
    return 0;
}

int message_detail(const char *format, ...)
{
    PRINT(true, "", "");
    return 0;
}

void message_listen(message_listener *next, void *data)
{
    pthread_mutex_lock(&lock);
    listener = next;
    listener_data = data;
    pthread_mutex_unlock(&lock);
}

/* ---- limits ------------------------------------------------------------------------------------ */

static const double PERIOD_S = 10;

bool message_limit_allows(struct message_limit *limit)
{
    pthread_mutex_lock(&lock);
    if (limit->n == 0) limit->period_end = stopwatch_now() + PERIOD_S;
    bool allows = limit->n++ < limit->max;
    pthread_mutex_unlock(&lock);
    return allows;
}

void message_limit_tend(struct message_limit *limit, bool now)
{
    pthread_mutex_lock(&lock);
    bool is_over = now || stopwatch_now() >= limit->period_end;
    uint64_t left_out = is_over && limit->n > limit->max ? limit->n - limit->max : 0;
    if (is_over) limit->n = 0;
    pthread_mutex_unlock(&lock);
    if (left_out)
        message_note("%llu more line%s about %s", (unsigned long long)left_out, message_s((int64_t)left_out),
                     limit->topic);
}

/* ---- the status line --------------------------------------------------------------------------- */

void message_set_quiet(bool quiet)
{
    atomic_store(&is_quiet, quiet);
}

bool message_is_quiet(void)
{
    return atomic_load(&is_quiet);
}

int message_columns(void)
{
    struct winsize size;
    if (atomic_load(&is_quiet) || !isatty(STDERR_FILENO)) return 0;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void message_status(const char *format, ...)
{
    size_t columns = (size_t)message_columns();
    if (columns == 0) return;
    char text[sizeof status];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text < columns ? sizeof text : columns, format, values);
    va_end(values);
    message_clean(text); /* a mask's file name is in it */
    pthread_mutex_lock(&lock);
    if (status[0] || text[0]) fprintf(stderr, ERASE_LINE "%s", text);
    strcpy(status, text);
    pthread_mutex_unlock(&lock);
}

int message_write(char *why, size_t cap, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(why, cap, format, values);
    va_end(values);
    return 0;
}
