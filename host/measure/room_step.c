#include "room_step.h"

#include "host/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void room_step_add(struct room_step *s, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    if (s->n < ROOM_MAX_WORDS && vasprintf(&s->word[s->n], format, values) >= 0)
        s->n++;
    else
        s->is_short = true;
    va_end(values);
}

void room_step_option(struct room_step *s, const char *option, const char *value)
{
    if (!value || !*value) return;
    room_step_add(s, "%s", option);
    room_step_add(s, "%s", value);
}

int room_step_run(struct room_step *s, const char *prefix, int (*command)(int argc, char **argv))
{
    char line[MESSAGE_CAP];
    size_t at = (size_t)snprintf(line, sizeof line, "haloconv%s%s", *prefix ? " " : "", prefix);
    for (int i = 0; i < s->n && at < sizeof line; i++)
        at += (size_t)snprintf(line + at, sizeof line - at, strchr(s->word[i], ' ') ? " '%s'" : " %s", s->word[i]);
    message_note("> %s", line);
    s->word[s->n] = NULL;
    struct room_step owned = *s; /* the command may change the order */
    int status = s->is_short ? message_error("room: no memory; free some memory") : command(s->n, s->word);
    for (int i = 0; i < owned.n; i++) free(owned.word[i]);
    return status;
}
