#include "x_server.h"

#include <cairo.h>
#include <fcntl.h>
#include <fontconfig/fontconfig.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t server_start(int depth, char name[16])
{
    int ends[2];
    char number[12] = "", descriptor[16], screen[32];
    if (pipe(ends) != 0) return 0;
    const pid_t child = fork();
    if (child == 0) {
        (void)snprintf(descriptor, sizeof descriptor, "%d", ends[1]);
        (void)snprintf(screen, sizeof screen, "2400x1600x%d", depth);
        close(ends[0]);
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* after SIGKILL its socket and its lock would stay in /tmp */
        dup2(open("/dev/null", O_WRONLY), 2);
        execlp("Xvfb", "Xvfb", "-displayfd", descriptor, "-screen", "0", screen, "-nolisten", "tcp", "-noreset",
               (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t n = 0; /* it ends if nobody reads the end of the line */
    while (n + 1 < sizeof number && read(ends[0], &number[n], 1) == 1 && number[n] != '\n') n++;
    close(ends[0]);
    if (n == 0) {
        waitpid(child, NULL, 0);
        return 0;
    }
    (void)snprintf(name, 16, ":%.*s", (int)n, number);
    return child;
}

void server_end(pid_t server)
{
    kill(server, SIGTERM);
    waitpid(server, NULL, 0);
}

static void skipped(const char *backend)
{
    check_skip("no Xvfb; install the package xvfb");
}

int server_check_main(const char *name, const struct test *tests, int n, void (*prepare)(void))
{
    static const struct test no_server[] = {TEST(skipped, 0)};
    char display[16];
    const pid_t server = server_start(24, display);
    if (!server) return check_main(name, no_server, 1);
    setenv("DISPLAY", display, 1);
    if (prepare) prepare();
    const int result = check_main(name, tests, n);
    server_end(server);
    cairo_debug_reset_static_data(); /* fonts that Cairo and fontconfig keep are not leaks */
    FcFini();
    return result;
}

Window host_window(Display *display, int width, int height)
{
    check(display, "no display");
    const Window window =
        XCreateSimpleWindow(display, DefaultRootWindow(display), 0, 0, (unsigned)width, (unsigned)height, 0, 0, 0);
    XMapWindow(display, window);
    XSync(display, False);
    return window;
}
