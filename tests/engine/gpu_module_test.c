/* The GPU module in a process with raised privileges, and in a child of fork(). The module is a fake (fake_gpu.c);
 * tests/host/test_gpu_module.py tests where the program looks for it. */
#include "check.h"
#include "dsp/backends/backends.h"
#include "dsp/backends/gpu_module.h"
#include "haloconv.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *build_folder(void)
{
    const char *build = getenv("BUILD");
    return build && *build ? build : "build";
}

static void only_root_and_the_owner_of_the_library_are_trusted(const char *unused)
{
    static const struct {
        uid_t owner;
        mode_t mode;
        bool trusted;
    } files[] = {{0, 0100644, true},    {0, 0100755, true},    {1000, 0100644, true}, {1001, 0100644, false},
                 {0, 0100664, false},   {0, 0100646, false},   {0, 040755, true},     {0, 041777, false},
                 {1000, 040775, false}, {1000, 040757, false}, {1001, 040700, false}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        check(gpu_module_is_trusted(files[i].owner, files[i].mode, 1000) == files[i].trusted, "owner %u, mode %o",
              (unsigned)files[i].owner, (unsigned)files[i].mode);
}

/* ---- fork() ------------------------------------------------------------------------------------------------------ */

static void plays_on_the_fake(void)
{
    hc_config c;
    hc_engine *e = NULL;
    hc_mask *mask = NULL;
    char why[400] = "";
    float tap = 1, x[64], y[64] = {0};
    const hc_route route = {0, 0, &tap, 1, 1, 0};
    hc_config_init(&c);
    c.backend = "cuda";
    c.n_in = c.n_out = 1;
    c.max_taps = 1;
    c.wait_us = HC_WAIT_FOREVER;
    check(hc_open(&c, &e, why, sizeof why) == HC_OK, "%s", why);
    check(hc_mask_make(e, &route, sizeof route, 1, &mask, why, sizeof why) == HC_OK && hc_mask_swap(e, mask) == HC_OK,
          "%s", why);
    for (int i = 0; i < 64; i++) x[i] = (float)i;
    check(hc_process(e, &(const float *){x}, &(float *){y}, 64) == HC_OK && memcmp(x, y, sizeof x) == 0, "y[1] is %g",
          (double)y[1]);
    hc_close(e);
}

static void a_child_plays_on_the_module_that_its_parent_loaded(const char *unused)
{
    char module[PATH_MAX];
    int status = 0;
    snprintf(module, sizeof module, "%s/tests/module/libhaloconv_cuda.so", build_folder());
    setenv("HALOCONV_CUDA", module, 1);
    plays_on_the_fake();
    unsetenv("HALOCONV_CUDA"); /* the child does not look for it again */
    fflush(NULL);
    pid_t child = fork();
    check(child >= 0, "no child");
    if (child == 0) {
        plays_on_the_fake();
        _exit(0);
    }
    check(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
          "the child ended with %#x", status);
}

/* ---- raised privileges ------------------------------------------------------------------------------------------- */

/* Started anew as a set-user-ID program: the exit status is 42 if its privileges are not raised, 0 if it loads the module,
 * and 1 if not, with the reason on standard output. */
static int load(void)
{
    char why[1024] = "";
    if (!getauxval(AT_SECURE)) return 42;
    bool loads = gpu_module_load(REASON(why, sizeof why)) != NULL;
    puts(why);
    return !loads;
}

/* Copies this program and the fake into a folder of user 65534, changes them by `command`, and runs the program. */
static int status_after(const char *command, char *said, size_t cap)
{
    char folder[] = "/tmp/haloconv-module-XXXXXX", all[PATH_MAX + 1024], reply[256];
    check(mkdtemp(folder), "no folder");
    snprintf(all, sizeof all,
             "cd %s && cp /proc/%ld/exe program && chown 65534:65534 . program && chmod 4755 program && chmod 755 . && "
             "%s && HALOCONV_CUDA=/nonexistent ./program load",
             folder, (long)getpid(), command);
    FILE *run = popen(all, "r");
    check(run, "no shell");
    size_t n = fread(said, 1, cap - 1, run);
    said[n] = '\0';
    int status = pclose(run);
    snprintf(reply, sizeof reply, "rm -rf %s", folder);
    check(system(reply) == 0 && WIFEXITED(status), "the shell ended with %#x", status);
    return WEXITSTATUS(status);
}

static void with_raised_privileges_only_a_safe_module_is_loaded(const char *unused)
{
#if SANITIZED
    check_skip("a sanitizer does not work with another user's rights");
#endif
    char fake[PATH_MAX], command[PATH_MAX + 128], said[2048];
    static const struct {
        const char *change;
        int status;
    } cases[] = {{"chown 65534 libhaloconv_cuda.so", 0},
                 {"chown 0 libhaloconv_cuda.so", 0},
                 {"chown 65533 libhaloconv_cuda.so", 1},
                 {"chmod 664 libhaloconv_cuda.so", 1},
                 {"chmod 757 .", 1},
                 {"chmod 775 .", 1}};
    if (geteuid() != 0) check_skip("only root can make a program of another user");
    check(snprintf(fake, sizeof fake, "%s/tests/module/libhaloconv_cuda.so", build_folder()) > 0 &&
              realpath(fake, command),
          "no fake module");
    snprintf(fake, sizeof fake, "%.*s", PATH_MAX - 1, command);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(command, sizeof command, "cp %s . && chmod 644 libhaloconv_cuda.so && %s", fake, cases[i].change);
        int status = status_after(command, said, sizeof said);
        if (status == 42) check_skip("set-user-ID has no effect here");
        check(status == cases[i].status && (status == 0 || strstr(said, "a user other than")), "%s: status %d, \"%s\"",
              cases[i].change, status, said);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(only_root_and_the_owner_of_the_library_are_trusted, false),
        TEST(with_raised_privileges_only_a_safe_module_is_loaded, false),
        TEST(a_child_plays_on_the_module_that_its_parent_loaded, false),
    };
    if (argc > 1 && strcmp(argv[1], "load") == 0) return load();
    return check_main("gpu_module", tests, sizeof tests / sizeof *tests);
}
