/* haloconv - the program: finds the command and runs it. */
#include "dsp/haloconv.h"
#include "host/commands.h"
#include "host/files/part_file.h"
#include "host/json_print.h"
#include "host/live/nsm.h"
#include "host/message.h"
#include "host/option.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The optional dependencies of this build, as the Makefile reports them: "1", or the macro's own name, and the name. */
#define TEXT(macro) #macro
#define PART(macro, name) TEXT(macro), name
static const char *const parts[] = {PART(HC_WITH_SNDFILE, "sndfile"),
                                    PART(HC_WITH_SOXR, "soxr"),
                                    PART(HC_WITH_YAML, "yaml"),
                                    PART(HC_WITH_MYSOFA, "mysofa"),
                                    PART(HC_WITH_HDF5, "hdf5"),
                                    PART(HC_WITH_SAMPLERATE, "samplerate"),
                                    PART(HC_WITH_JANSSON, "jansson"),
                                    PART(HC_WITH_ARCHIVE, "archive"),
                                    PART(HC_WITH_CAIRO, "cairo"),
                                    PART(HC_WITH_PORTAUDIO, "portaudio"),
                                    PART(HC_WITH_JACK, "jack"),
                                    PART(HC_WITH_PIPEWIRE, "pipewire"),
                                    PART(HC_WITH_ALSA, "alsa"),
                                    PART(HC_WITH_LO, "osc"),
                                    PART(HC_WITH_WEBSOCKETS, "websockets"),
                                    PART(HC_WITH_LV2, "lv2"),
                                    PART(HC_WITH_CLAP, "clap"),
                                    PART(HC_WITH_VST3, "vst3")};

static const struct command {
    const char *name, *usage, *text;
    int (*run)(int argc, char **argv);
    bool one_connection;
} commands[] = {
    {"convolve", "INPUT MASK -o OUTPUT", "a sound file through a mask", convolve_command, true},
    {"batch", "MANIFEST -o FOLDER", "many sound files through many masks", batch_command, true},
    {"live", "MASK...", "microphone to speakers", live_command, false},
    {"jack", "MASK...", "a JACK client with one port a channel", jack_command, false},
    {"pipewire", "MASK...", "a PipeWire node with one port a channel", pipewire_command, false},
    {"run", "PRESET", "jack, pipewire or live, as a file of options says", run_command, false},
    {"presets", "", "the presets, and their folders", presets_command, false},
    {"devices", "", "GPUs and audio devices", devices_command, false},
    {"room", "", "measure and correct loudspeakers, step by step", room_command, false},
    {"measure", "-o MASK", "impulse responses of a room, by sweeps", measure_command, false},
    {"design correct", "FILE... -o MASK", "a filter that corrects measured loudspeakers", design_correct_command,
     false},
    {"design target", "CURVE -o MASK", "a filter with the gain of a curve", design_target_command, false},
    {"design invert", "MASK -o MASK", "the inverse of a mask", design_invert_command, false},
    {"design minphase", "MASK -o MASK", "a mask with minimum phase", design_minphase_command, false},
    {"design crossover", "--cutoff HZ -o MASK", "the filters of a crossover, and their configuration",
     design_crossover_command, false},
    {"design", "KIND -o MASK", "a low-pass, high-pass, ... or a synthetic room", design_command, false},
    {"mask", "OPERATION MASK... -o MASK", "convolve, trim, fade, align, ... masks", mask_command, false},
    {"masks", "", "the masks that ship, by name", masks_command, false},
    {"info", "MASK...", "the figures of a mask, and the plan for it; plots", info_command, false},
    {"check", "CONF", "every error of a configuration", check_command, false},
    {"import", "FILE -o CONF", "the configuration of another program as one of jconvolver", import_command, false},
    {"bench engine", "", "how long each block of an engine takes, paced by the clock", bench_engine_command, false},
    {"bench capacity", "", "the largest matrix and the most channels without a miss", bench_capacity_command, false},
    {"bench costs", "", "what convolution costs here; kept for every later plan", bench_costs_command, false},
    {"bench scene", "", "steered sources, paced by the clock", bench_scene_command,
     false},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *file, bool only_bench)
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
          "  haloconv help COMMAND                    all options of a command, with examples; or COMMAND --help\n"
          "  haloconv --version                       version, and what this build can do\n",
          file);
    if (only_bench) return;
    fputs("\n"
          "A mask is a sound file with one response a channel, or a text of coefficients (.txt, .csv: one frame a\n"
          "line, a column a channel). M mask channels on C input channels: M = 1, the same on every channel; M = C,\n"
          "channel by channel; C = 1, an output a mask channel; C = 2 and M = 4, true stereo (L>L L>R R>L R>R).\n"
          "Or a configuration (.conf), a matrix in the format of jconvolver and mcfx_convolver, or a file of another\n"
          "program: `man haloconv` lists those that are read, and `haloconv import` converts them. hall-%r.wav stands\n"
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
    printf("haloconv %s\nbuilt with:", HC_VERSION);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i += 2)
        if (strcmp(parts[i], "1") == 0) printf(" %s", parts[i + 1]);
    putchar('\n');
}

/* Prints the synopsis of the man page, for the Makefile. */
static void print_man(void)
{
    for (int i = 0; i < N_COMMANDS; i++) {
        printf("%s\\fBhaloconv %s\\fR \\fI", i > 0 ? ".br\n" : "", commands[i].name);
        option_print_roff(commands[i].usage);
        printf("%s[OPTIONS]\\fR\n", *commands[i].usage ? " " : "");
    }
    printf(".br\n\\fBhaloconv\\fR {\\fB\\-\\-help\\fR|\\fB\\-\\-version\\fR}\n");
}

/* Prints every option of every command, for the completion of shells: host/haloconv.bash.in. */
static int print_completion(void)
{
    int status = 0;
    for (int i = 0; i < N_COMMANDS && status == 0; i++)
        status = commands[i].run(2, (char *[]){(char *)commands[i].name, "--_completion", NULL});
    return status;
}

/* Runs a command of two words, such as "bench engine". Returns -1 if no command has these two words. */
static int run_two_words(int argc, char **argv)
{
    size_t first = strlen(argv[1]);
    for (int i = 0; argc > 2 && i < N_COMMANDS; i++) {
        const char *name = commands[i].name;
        if (strncmp(name, argv[1], first) == 0 && name[first] == ' ' && strcmp(name + first + 1, argv[2]) == 0)
            return flushed(commands[i].run(argc - 2, argv + 2));
    }
    return -1;
}

/* Prints the error for "bench" without the name of a bench. */
static int bench(int argc, char **argv)
{
    if (argc > 2 && is_help(argv[2])) {
        print_help(stdout, true);
        return flushed(0);
    }
    if (argc > 2 && strcmp(argv[2], "kernels") == 0) /* a command up to version 0.1 */
        return message_error("bench kernels: the kernel ladder is a separate program; build it with `make ladder` in "
                             "the source tree and run build/haloconv-ladder");
    return message_usage("bench", "needs engine, capacity, costs or scene%s%s", argc > 2 ? ", and got " : "",
                         argc > 2 ? argv[2] : "");
}

int main(int argc, char **argv)
{
    keep_standard_streams();
    part_file_watch_signals();
    json_start();
    if (argc < 2 && nsm_is_wanted()) /* a session manager starts the program without arguments */
        return flushed(jack_command(1, (char *[]){"jack", NULL}));
    if (argc < 2) {
        print_help(stderr, false);
        return EXIT_USAGE;
    }
    if (argc > 2 && strcmp(argv[1], "help") == 0) { /* "help mask trim" is "mask trim --help" */
        memmove(argv + 1, argv + 2, (size_t)(argc - 2) * sizeof *argv);
        argv[argc - 1] = (char *)"--help";
    }
    if (is_help(argv[1]) || strcmp(argv[1], "help") == 0) {
        print_help(stdout, false);
        return flushed(0);
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        print_version();
        return flushed(0);
    }
    if (strcmp(argv[1], "--_man") == 0) {
        print_man();
        return flushed(0);
    }
    if (strcmp(argv[1], "--_completion") == 0) return flushed(print_completion());
    int status = run_two_words(argc, argv);
    if (status >= 0) return status;
    if (strcmp(argv[1], "bench") == 0) return bench(argc, argv);
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0) {
            if (commands[i].one_connection) ask_for_one_connection();
            return flushed(commands[i].run(argc - 1, argv + 1));
        }
    return message_usage("", "%s: is not a command", argv[1]);
}
