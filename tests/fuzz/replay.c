/* replay - runs the files of tests/corpus/NAME through the target NAME, in the place of libFuzzer. With arguments: those
 * files. One line of the result, as tests/run counts it. */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_BYTES = 1 << 20 };

static const char *target;
static char current[PATH_MAX];

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void say_failed(void)
{
    dprintf(STDOUT_FILENO, "FAIL -    fuzz/%s: %s\n    again: %s %s\n", target, current, program_invocation_name,
            current);
}

static void take_signal(int signal)
{
    (void)signal;
    say_failed();
    _exit(1);
}

/* A sanitizer reports a bad access itself, and calls say_failed behind its report. */
static void catch_failures(void)
{
    static const int bad_access[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    signal(SIGABRT, take_signal);
    signal(SIGTERM, take_signal); /* tests/run has waited for too long */
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(say_failed);
    else
        for (size_t i = 0; i < sizeof bad_access / sizeof *bad_access; i++) signal(bad_access[i], take_signal);
}

static int replay(const char *path)
{
    static uint8_t bytes[MAX_BYTES];
    snprintf(current, sizeof current, "%s", path);
    FILE *file = fopen(path, "rbe");
    must(file);
    size_t n = fread(bytes, 1, sizeof bytes, file);
    must(n < sizeof bytes && !ferror(file));
    fclose(file);
    uint8_t *exact = malloc(n); /* a sanitizer notices a read behind its end */
    must(exact || n == 0);
    memcpy(exact, bytes, n);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    return 1;
}

static int replay_folder(const char *where)
{
    struct dirent **found;
    int n = scandir(where, &found, NULL, alphasort), n_files = 0;
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%.3000s/%s", where, found[i]->d_name);
        if (found[i]->d_name[0] != '.') n_files += replay(path);
        free(found[i]);
    }
    if (n >= 0) free(found);
    return n_files;
}

int main(int argc, char **argv)
{
    char **paths = calloc((size_t)argc + 1, sizeof *paths); /* absolute: the target changes to a folder of its own */
    must(paths);
    char folder[64];
    target = strchr(program_invocation_short_name, '_') + 1; /* of fuzz_NAME */
    snprintf(folder, sizeof folder, "tests/corpus/%.40s", target);
    catch_failures();
    paths[0] = realpath(folder, NULL);
    for (int i = 1; i < argc; i++) must(paths[i] = realpath(argv[i], NULL));
    LLVMFuzzerInitialize(&argc, &argv);
    int n = argc == 1 && paths[0] ? replay_folder(paths[0]) : 0;
    for (int i = 1; i < argc; i++) n += replay(paths[i]);
    for (int i = 0; i < argc; i++) free(paths[i]);
    free(paths);
    printf(n ? "ok   -    fuzz/%s  %d files\n" : "FAIL -    fuzz/%s: %d files in its folder of tests/corpus\n", target,
           n);
    return n == 0;
}
