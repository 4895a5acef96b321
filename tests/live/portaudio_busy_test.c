/* A sound card that another program holds: the error, and the wait for it. fake_portaudio is the card. */
#include "fake_portaudio.h"
#include "host/commands.h"
#include "live_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char mask[] = "/tmp/hc_busy_XXXXXX.txt";

static void open_card(int busy)
{
    if (live_portaudio.missing) check_skip(live_portaudio.missing);
    live_portaudio.close(); /* of a test that failed */
    fake_portaudio_start(LIVE_RATE);
    fake_portaudio_refuse(busy);
}

/* Standard error of `haloconv live`, which must fail. */
static const char *error_of_live(void)
{
    static char text[2000];
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);
    check(file && saved >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0, "no file for the error");
    int status = live_command(2, (char *[]){"live", mask, NULL});
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    check(status == 1, "status %d, and it said: %s", status, text);
    return text;
}

static void a_busy_device_names_how_to_free_it(const char *backend)
{
    open_card(1);
    const char *said = error_of_live(), *wants[] = {"is busy; ", "fuser -v /dev/snd/*", "pasuspender -- haloconv live"};
    for (int i = 0; i < 3; i++) check(strstr(said, wants[i]), "want '%s' in: %s", wants[i], said);
    check(strchr(said, '\n') == said + strlen(said) - 1, "want one line: %s", said);
}

static void reconnect_waits_for_a_busy_device(const char *backend)
{
    open_card(2);
    live_portaudio.open(&(struct live_setup){.mask = mask, .more = {"--reconnect"}});
    live_portaudio.close();
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_busy_device_names_how_to_free_it, false),
        TEST(reconnect_waits_for_a_busy_device, false),
    };
    setenv("HALOCONV_COSTS", "builtin", 1);
    int fd = mkstemps(mask, 4);
    if (fd < 0 || write(fd, "1 1\n", 4) != 4) return 1;
    close(fd);
    int failed = check_main("portaudio_busy", tests, sizeof tests / sizeof *tests);
    remove(mask);
    return failed;
}
