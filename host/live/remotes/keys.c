#include "keys.h"

#include "host/live/session/live_command.h"

#include <poll.h>
#include <termios.h>
#include <unistd.h>

static struct termios before; /* terminal settings at keys_open */
static bool is_open;

bool keys_command(int key, struct command *command)
{
    static const struct {
        int key;
        struct command command;
    } keys[] = {{'b', {.act = COMMAND_BYPASS_TOGGLE}},
                {'n', {.act = COMMAND_MASK_STEP, .number = 1}},
                {'p', {.act = COMMAND_MASK_STEP, .number = -1}},
                {'r', {.act = COMMAND_RELOAD}},
                {'a', {.act = COMMAND_COMPARE_SWITCH}},
                {'A', {.act = COMMAND_COMPARE_END}},
                {'c', {.act = COMMAND_RECENTRE}},
                {'S', {.act = COMMAND_PRESET_SAVE, .path = ""}},
                {'q', {.act = COMMAND_QUIT}},
                {'+', {.act = COMMAND_GAIN_STEP, .gain = &command_gains[0], .db = 1}},
                {'=', {.act = COMMAND_GAIN_STEP, .gain = &command_gains[0], .db = 1}}, /* + without Shift */
                {'-', {.act = COMMAND_GAIN_STEP, .gain = &command_gains[0], .db = -1}},
                {'W', {.act = COMMAND_GAIN_STEP, .gain = &command_gains[1], .db = 1}},
                {'w', {.act = COMMAND_GAIN_STEP, .gain = &command_gains[1], .db = -1}},
                {'D', {.act = COMMAND_GAIN_STEP, .gain = &command_gains[2], .db = 1}},
                {'d', {.act = COMMAND_GAIN_STEP, .gain = &command_gains[2], .db = -1}}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].key == key) {
            *command = keys[i].command;
            return true;
        }
    return false;
}

/* Is the process in the foreground? In the background, a read or a change of the terminal would stop the process. */
static bool in_foreground(void)
{
    return tcgetpgrp(STDIN_FILENO) == getpgrp();
}

bool keys_open(void)
{
    if (!isatty(STDIN_FILENO) || !in_foreground() || tcgetattr(STDIN_FILENO, &before) != 0) return false;
    struct termios single = before;
    single.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* Ctrl-C stays a signal */
    single.c_cc[VMIN] = 1;
    single.c_cc[VTIME] = 0;
    return is_open = tcsetattr(STDIN_FILENO, TCSANOW, &single) == 0;
}

void keys_close(void)
{
    if (is_open && in_foreground()) tcsetattr(STDIN_FILENO, TCSANOW, &before);
    is_open = false;
}

int keys_next(void)
{
    struct pollfd ready = {.fd = STDIN_FILENO, .events = POLLIN};
    unsigned char key;
    if (!is_open || !in_foreground() || poll(&ready, 1, 0) != 1) return 0;
    if (read(STDIN_FILENO, &key, 1) == 1) return key;
    is_open = false; /* the terminal was closed */
    return 0;
}
