#include "console.h"

#include "host/message.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_quiet, is_terminal;
static char status[512]; /* as shown now; under lock */

void console_open(bool quiet)
{
    is_quiet = quiet;
    is_terminal = !quiet && isatty(STDERR_FILENO);
}

bool console_is_terminal(void)
{
    return is_terminal;
}

static void say(const char *prefix, const char *format, va_list values)
{
    char text[MESSAGE_CAP];
    vsnprintf(text, sizeof text, format, values);
    message_clean(text);
    pthread_mutex_lock(&lock);
    fprintf(stderr, "%s%s%s\n%s", status[0] ? "\r\033[K" : "", prefix, text, status);
    pthread_mutex_unlock(&lock);
}

void console_say(const char *format, ...)
{
    if (is_quiet) return;
    va_list values;
    va_start(values, format);
    say("", format, values);
    va_end(values);
}

void console_error(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    say("haloconv: ", format, values);
    va_end(values);
}

void console_status(const char *text)
{
    if (!is_terminal) return;
    struct winsize size = {.ws_col = 80};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) size.ws_col = 80;
    pthread_mutex_lock(&lock);
    int width = size.ws_col - 1 < (int)sizeof status ? size.ws_col - 1 : (int)sizeof status - 1;
    if (status[0] || *text) fputs("\r\033[K", stderr);
    snprintf(status, sizeof status, "%.*s", width, text);
    fputs(status, stderr);
    pthread_mutex_unlock(&lock);
}
