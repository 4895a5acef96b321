/* haloconv - the program: finds the command and runs it. */
#include "dsp/haloconv.h"
#include "host/commands.h"
#include "host/files/part_file.h"
#include "host/json_print.h"
#include "host/live/devices/audio_device_choice.h"
#include "host/live/remotes/nsm.h"
#include "host/message.h"
#include "host/option.h"
#include "host/own_library.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The optional dependencies of this build, as a list in C of packaging/parts.mk: "sndfile,soxr". */
#define TEXT(...) #__VA_ARGS__
#define TEXT_OF(...) TEXT(__VA_ARGS__)

static const struct command {
    const char *name, *usage, *text;
    const char *page; /* its man page: "haloconv-" and this; "": haloconv(1) */
    int (*run)(int argc, char **argv);
    bool one_connection;
} commands[] = {
    {"convolve", "INPUT MASK -o OUTPUT", "a sound file through a mask", "convolve", convolve_command, true},
    {"batch", "MANIFEST -o FOLDER", "many sound files through many masks", "batch", batch_command, true},
    {"live", "MASK...", "microphone to speakers", "live", live_command, false},
    {"jack", "MASK...", "a JACK client with one port a channel", "jack", jack_command, false},
    {"pipewire", "MASK...", "a PipeWire node with one port a channel", "pipewire", pipewire_command, false},
    {"run", "PRESET", "jack, pipewire or live, as a file of options says", "run", run_command, false},
    {"presets", "", "the presets, and their folders", "run", presets_command, false},
    {"devices", "", "GPUs and audio devices", "", devices_command, false},
    {"room", "", "measure and correct loudspeakers, step by step", "room", room_command, false},
    {"measure", "-o MASK", "impulse responses of a room, by sweeps", "measure", measure_command, false},
    {"design correct", "FILE... -o MASK", "a filter that corrects measured loudspeakers", "design-correct",
     design_correct_command, false},
    {"design target", "CURVE -o MASK", "a filter with the gain of a curve", "design-target", design_target_command,
     false},
    {"design invert", "MASK -o MASK", "the inverse of a mask", "design-target", design_invert_command, false},
    {"design minphase", "MASK -o MASK", "a mask with minimum phase", "design-target", design_minphase_command, false},
    {"design crossover", "--cutoff HZ -o MASK", "the filters of a crossover, and their configuration", "design",
     design_crossover_command, false},
    {"design", "KIND -o MASK", "a low-pass, high-pass, ... or a synthetic room", "design", design_command, false},
    {"mask", "OPERATION MASK... -o MASK", "convolve, trim, fade, align, ... masks", "mask", mask_command, false},
    {"masks", "", "the masks that ship, by name", "", masks_command, false},
    {"info", "MASK...", "the figures of a mask, and the plan for it; plots", "info", info_command, false},
    {"check", "CONF", "every error of a configuration", "check", check_command, false},
    {"import", "FILE -o CONF", "the configuration of another program as one of jconvolver", "check", import_command,
     false},
    {"bench engine", "", "how long each block of an engine takes, paced by the clock", "bench", bench_engine_command,
     false},
    {"bench capacity", "", "the largest matrix and number of channels without a miss", "bench", bench_capacity_command,
     false},
    {"bench costs", "", "what convolution costs here; kept for every later plan", "bench", bench_costs_command, false},
    {"bench scene", "", "steered sources, paced by the clock", "bench", bench_scene_command, false},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void main_print_help(FILE *file, bool only_bench)
{
    if (!only_bench)
        fputs("haloconv - convolves audio with filters and impulse responses, on the CPU or a CUDA GPU\n\n", file);
    for (int i = 0; i < N_COMMANDS; i++) {
        char line[64];
        if (only_bench && strncmp(commands[i].name, "bench ", 6) != 0) continue;
        snprintf(line, sizeof line, "haloconv %s %s", commands[i].name, commands[i].usage);
        fprintf(file, "  %-45s %s\n", line, commands[i].text);
    }
    fputs("\n"
          "  haloconv COMMAND --help                  all options of a command, with examples\n"
          "  haloconv help COMMAND                    the man page of a command; in a pipe the same text as --help\n"
          "  haloconv --version                       version, and what this build can do\n",
          file);
    if (only_bench) return;
    fputs("\n"
          "A mask is a sound file with one response a channel, or a text of coefficients (.txt, .csv: one frame a\n"
          "line, a column a channel). M mask channels on C input channels: M = 1, the same on every channel; M = C,\n"
          "channel by channel; C = 1, an output a mask channel; C = 2 and M = 4, true stereo (L>L L>R R>L R>R).\n"
          "Or a configuration (.conf), a matrix in the format of jconvolver and mcfx_convolver, or a file of another\n"
          "program: `man haloconv-masks` lists those, and `haloconv import` converts them. hall-%r.wav stands\n"
          "for a mask for each rate: hall-44100.wav, hall-96000.wav; a missing one is resampled from another. `hall`\n"
          "is a mask that ships; `haloconv masks` lists them.\n"
          "\n"
          "Exit status: 0 done, 1 failed, 2 wrong usage, 128 + N stopped by signal N.\n",
          file);
}

/* A process opens CUDA_DEVICE_MAX_CONNECTIONS connections to a GPU when CUDA starts, 8 by default. With one, CUDA
 * starts and ends sooner, and the copies and kernels of a file still overlap: an hour of stereo took 0.44 s on an H200,
 * and 0.66 s with 8. A live session needs several: a mask that is being prepared would delay the audio. */
static void ask_for_one_connection(void)
{
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 0); /* the user's own value stays */
}

/* Has the reader of standard output closed its end of the pipe, as `head` does when it has read enough? */
static bool is_pipe_closed(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

/* Makes a closed or full standard output an error. Returns the exit status. If a pipe was closed, the process ends like
 * other programs: by SIGPIPE, without a message. */
static int flushed(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return status;
    if (is_pipe_closed()) {
        signal(SIGPIPE, SIG_DFL); /* part_file_watch_signals ignores it */
        raise(SIGPIPE);
    }
    int failed = message_error("standard output: cannot be written; free some space or send it elsewhere");
    return status ? status : failed;
}

/* If a standard stream is closed, the next file that is opened would get its number, and messages would be written into
 * that file. Therefore /dev/null, opened such that its use fails, gets the number. */
static void keep_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) return;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static void print_version(void)
{
    printf("haloconv %s\nbuilt with: ", HC_VERSION);
    for (const char *part = TEXT_OF(HC_PARTS); *part; part++) putchar(*part == ',' ? ' ' : *part);
    putchar('\n');
}

/* Prints the synopsis of a command's man page, for the Makefile; NULL: the list of all commands, with their pages. */
static void main_print_man(const char *page)
{
    const char *line_end = "";
    if (!page) printf(".PD 0\n");
    for (const struct command *command = commands; command < commands + N_COMMANDS; command++) {
        if (!page) {
            printf(".TP 18\n.B %s\n", command->name);
            option_print_roff(command->text);
            if (*command->page) {
                printf(": \\fB\\%%haloconv\\-");
                for (const char *at = command->page; *at; at++) printf("%s%c", *at == '-' ? "\\" : "", *at);
                printf("\\fR(1)");
            }
            putchar('\n');
        } else if (strcmp(page, command->page) == 0) {
            printf("%s\\fBhaloconv %s\\fR \\fI", line_end, command->name);
            option_print_roff(command->usage);
            printf("%s[OPTIONS]\\fR\n", *command->usage ? " " : "");
            line_end = ".br\n";
        }
    }
    if (!page) printf(".PD\n");
}

/* Prints every option of every command, for the completion of shells: host/haloconv.bash.in. */
static int main_print_completion(void)
{
    int status = 0;
    for (int i = 0; i < N_COMMANDS && status == 0; i++)
        status = commands[i].run(2, (char *[]){(char *)commands[i].name, "--_completion", NULL});
    return status;
}

/* Returns the command that the first two words, or the first word, name, with the number of these words; NULL: none. */
static const struct command *command_find(int argc, char **argv, int *n_words)
{
    char both[64];
    snprintf(both, sizeof both, "%s %s", argv[1], argc > 2 ? argv[2] : "");
    for (*n_words = 2; *n_words > 0; --*n_words)
        for (int i = 0; i < N_COMMANDS; i++)
            if (strcmp(*n_words == 2 ? both : argv[1], commands[i].name) == 0) return &commands[i];
    return NULL;
}

/* Runs man, as `git help` does, for the page haloconv-PAGE(1) that is beside the program or was installed with it.
 * Returns if standard output is no terminal, if there is no page, or if there is no man. */
static void man_page_show(const char *page)
{
    static const char *const folders[] = {"", "../share/man/man1/"};
    static const char *const endings[] = {"", ".gz", ".xz", ".zst", ".bz2"};
    char program[PATH_MAX], path[PATH_MAX + 80];
    if (!isatty(STDOUT_FILENO) || !own_folder(program, sizeof program)) return;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        for (size_t k = 0; k < sizeof endings / sizeof *endings; k++) {
            snprintf(path, sizeof path, "%s%shaloconv-%s.1%s", program, folders[i], page, endings[k]);
            if (access(path, R_OK) != 0) continue;
            signal(SIGPIPE, SIG_DFL); /* part_file_watch_signals ignores these two, and man would inherit that */
            signal(SIGXFSZ, SIG_DFL);
            execlp("man", "man", path, (char *)NULL);
        }
}

/* Prints the error for "bench" without the name of a bench. */
static int bench(int argc, char **argv)
{
    if (argc > 2 && is_help(argv[2])) {
        main_print_help(stdout, true);
        return flushed(0);
    }
    if (argc > 2 && strcmp(argv[2], "kernels") == 0) /* a command up to version 0.1 */
        return message_error("bench kernels: the kernel ladder is a separate program; build it with `make ladder` in "
                             "the source tree and run build/haloconv-ladder");
    return message_usage("bench", "needs engine, capacity, costs or scene%s%s", argc > 2 ? ", and got " : "",
                         argc > 2 ? argv[2] : "");
}

/* Warns of variables of our prefix that nothing reads, and of an unknown value of HALOCONV_SIMD. */
static void check_environment(void)
{
    static const char *const known[] = {"HALOCONV_CUDA", "HALOCONV_COSTS",     "HALOCONV_LIBRARY",
                                        "HALOCONV_LOG",  "HALOCONV_PARTITION", "HALOCONV_RESTART",
                                        "HALOCONV_SIMD", "HALOCONV_WITH_CUDA"};
    const char *simd = getenv("HALOCONV_SIMD");
    for (char **at = environ; *at; at++) {
        size_t length = strcspn(*at, "="), i = 0;
        if (strncmp(*at, "HALOCONV_", 9) != 0) continue;
        while (i < sizeof known / sizeof *known && (strlen(known[i]) != length || strncmp(*at, known[i], length) != 0))
            i++;
        if (i == sizeof known / sizeof *known)
            message_always("warning: nothing reads the variable %.*s; see ENVIRONMENT in haloconv(1)", (int)length,
                           *at);
    }
    if (simd && strcmp(simd, "baseline") != 0 && strcmp(simd, "avx2") != 0 && strcmp(simd, "avx512") != 0)
        message_always("warning: HALOCONV_SIMD: %.40s names no instruction set; write baseline or avx2", simd);
}

int main(int argc, char **argv)
{
    keep_standard_streams();
    part_file_watch_signals();
    json_start();
    if (argc < 2 && nsm_is_wanted()) /* a session manager starts the program without arguments */
        return flushed(jack_command(1, (char *[]){"jack", NULL}));
    if (argc < 2) {
        main_print_help(stderr, false);
        return EXIT_USAGE;
    }
    int n_words;
    if (argc > 2 && strcmp(argv[1], "help") == 0) { /* "help mask trim" is "mask trim --help", and the page of mask */
        memmove(argv + 1, argv + 2, (size_t)(argc - 2) * sizeof *argv);
        argv[argc - 1] = (char *)"--help";
        const struct command *of = command_find(argc - 1, argv, &n_words);
        man_page_show(of ? of->page : argv[1]);
    }
    if (is_help(argv[1]) || strcmp(argv[1], "help") == 0) {
        main_print_help(stdout, false);
        return flushed(0);
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        print_version();
        return flushed(0);
    }
    if (strcmp(argv[1], "--_man") == 0) {
        main_print_man(argc > 2 ? argv[2] : NULL);
        return flushed(0);
    }
    if (strcmp(argv[1], "--_devices") == 0) _exit(audio_devices_ask()); /* what the libraries do at exit may wait */
    if (strcmp(argv[1], "--_completion") == 0) return flushed(main_print_completion());
    const struct command *command = command_find(argc, argv, &n_words);
    if (!command && strcmp(argv[1], "bench") == 0) return bench(argc, argv);
    if (!command) return message_usage("", "%s: is not a command", argv[1]);
    check_environment();
    audio_devices_by_program();
    if (command->one_connection) ask_for_one_connection();
    return flushed(command->run(argc - n_words, argv + n_words));
}
