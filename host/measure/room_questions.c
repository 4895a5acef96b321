#include "room_questions.h"

#include "host/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool room_ask(struct room_questions *q, const char *question, const char *preset, char *answer, size_t cap)
{
    char line[1024];
    snprintf(answer, cap, "%s", preset);
    if (q->yes) return true;
    message_always("%s [%s]", question, preset);
    q->has_ended = q->has_ended || !fgets(line, sizeof line, stdin);
    if (q->has_ended) {
        message_error("room: standard input has no answer to '%s'; answer on a terminal, or give --yes", question);
        return false;
    }
    line[strcspn(line, "\r\n")] = 0;
    if (*line) snprintf(answer, cap, "%s", line);
    return true;
}

bool room_ask_yes(struct room_questions *q, const char *question, bool preset, bool *answer)
{
    char text[64];
    while (room_ask(q, question, preset ? "yes" : "no", text, sizeof text)) {
        *answer = text[0] == 'y' || text[0] == 'Y';
        if (*answer || text[0] == 'n' || text[0] == 'N') return true;
        message_always("please answer yes or no");
    }
    return false;
}

bool room_ask_number(struct room_questions *q, const char *question, int preset, int max, int *answer)
{
    char text[64], number[16];
    snprintf(number, sizeof number, "%d", preset);
    while (room_ask(q, question, number, text, sizeof text)) {
        char *end;
        long n = strtol(text, &end, 10);
        *answer = (int)n;
        if (end != text && !*end && n >= 1 && n <= max) return true;
        message_always("please answer a number from 1 to %d", max);
    }
    return false;
}
