/* haloconv - the program: finds the command and hands over. */
#include "commands.h"
#include "dsp/haloconv.h"
#include "message.h"
#include "host/live/nsm.h"
#include "host/files/part_file.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "haloconv - convolves audio with filters and impulse responses, on the CPU or a CUDA GPU\n"
    "\n"
    "  haloconv convolve INPUT MASK -o OUTPUT   a sound file through a mask\n"
    "  haloconv live MASK                       microphone to speakers\n"
    "  haloconv jack MASK                       a JACK client with one port a channel\n"
    "  haloconv batch MANIFEST -o FOLDER        many sound files through many masks\n"
    "  haloconv design KIND ... -o MASK         make a filter or a room\n"
    "  haloconv info MASK                       what a mask is, and the plan for it\n"
    "  haloconv check CONF                      everything that is wrong with a configuration\n"
    "  haloconv devices                         GPUs and audio devices\n"
    "  haloconv bench SUBJECT                   measures this machine: what blocks and files cost\n"
    "\n"
    "  haloconv COMMAND --help                  all options of a command, with an example\n"
    "  haloconv --version                       version, and what this build can do\n"
    "\n"
    "A mask is a sound file with one response a channel, or a text of coefficients (.txt, .csv: one frame a\n"
    "line, a column a channel). M mask channels on C input channels: M = 1, the same on every channel; M = C,\n"
    "channel by channel; C = 1, an output a mask channel; C = 2 and M = 4, true stereo (L>L L>R R>L R>R).\n"
    "Or a configuration (.conf), a matrix in the format of jconvolver and mcfx_convolver.\n"
    "\n"
    "Exit status: 0 done, 1 failed, 2 wrong usage, 128 + N stopped by signal N.\n";

static const char built_with[] = ""
#ifdef HC_WITH_CUDA
                                 " cuda"
#endif
#ifdef HC_WITH_FFTW
                                 " fftw"
#endif
#ifdef HC_WITH_SNDFILE
                                 " sndfile"
#endif
#ifdef HC_WITH_SOXR
                                 " soxr"
#endif
#ifdef HC_WITH_SAMPLERATE
                                 " samplerate"
#endif
#ifdef HC_WITH_PORTAUDIO
                                 " portaudio"
#endif
#ifdef HC_WITH_JACK
                                 " jack"
#endif
#ifdef HC_WITH_LO
                                 " osc"
#endif
    ;

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    bool few_streams;
} commands[] = {
    {"convolve", convolve_command, true},
    {"live", live_command, false},
    {"jack", jack_command, false},
    {"batch", batch_command, true},
    {"design", design_command, false},
    {"info", info_command, false},
    {"check", check_command, false},
    {"devices", devices_command, false},
    {"bench", bench_command, false},
};

/* A process opens as many connections to a GPU as CUDA finds here when it starts, 8 unless it is told. A file's copies
 * and kernels run beside one another with one, and then CUDA starts and ends sooner: an hour of stereo took 0.44 s on
 * an H200, and 0.66 with 8. Live, a mask that is made would be in front of the audio. */
static void ask_for_one_connection(void)
{
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 0); /* the user's own wish stays */
}

/* A closed or full standard output is an error as any other. */
static int flushed(int status)
{
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == 0)
        return message_error("standard output: cannot be written; free some space or send it elsewhere");
    return status;
}

/* A closed standard stream would be given to the next file that is opened, and messages written into that: the ends of
 * /dev/null that fail on use stand in. */
static void keep_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) return;
}

int main(int argc, char **argv)
{
    keep_standard_streams();
    part_file_watch_signals();
    if (argc < 2 && nsm_is_wanted()) /* a session manager gives no arguments */
        return flushed(jack_command(1, (char *[]){"jack", NULL}));
    if (argc < 2) {
        fputs(help, stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        fputs(help, stdout);
        return flushed(0);
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("haloconv %s\nbuilt with:%s\n", HC_VERSION, built_with);
        return flushed(0);
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(argv[1], commands[i].name) != 0) continue;
        if (commands[i].few_streams) ask_for_one_connection();
        return flushed(commands[i].run(argc - 1, argv + 1));
    }
    return message_usage("", "%s: is not a command", argv[1]);
}
