/* An output is whole or refused: releases of libsndfile that break a format, a full temporary folder, files that were
 * cut. Files under way: with and without a name, of programs that run and of programs that were killed. */
#include "check.h"
#include "host/files/read_back.h"
#include "host/files/sound_format.h"
#include "host/files/sound_out.h"
#include "host/message.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the place of libsndfile's own: the release that the code under test sees. */
static const char *release = "libsndfile-1.2.3";
const char *sf_version_string(void)
{
    return release;
}

/* In the place of the C library's: without /proc, files under way have names. */
static bool no_proc;
int access(const char *name, int mode)
{
    if (!no_proc || strncmp(name, "/proc/", 6) != 0) return faccessat(AT_FDCWD, name, mode, 0);
    errno = ENOENT;
    return -1;
}

/* In the place of the C library's: the answer of the disk, and whether the file had its name when it was asked. */
static int disk_error, n_synced;
static char there_when_synced[64];
static void file_read_text(char text[64]);
int fdatasync(int fd)
{
    n_synced++;
    file_read_text(there_when_synced);
    errno = disk_error;
    return disk_error ? -1 : 0;
}

enum { RATE = 48000, ALAC_PACKET = 4096 };
static const int ALAC = SF_FORMAT_CAF | SF_FORMAT_ALAC_16;
static char folder[] = "/tmp/output_test.XXXXXX", path[64], why[MESSAGE_CAP];

static bool write_noise(struct sound_out *out, int format, int n_channels, int64_t n_frames)
{
    struct random r = random_seeded(7);
    int n = (int)n_frames * n_channels;
    float *x = noise(&r, n);
    if (sound_format_kind(format) != SAMPLE_FLOAT)
        for (int i = 0; i < n; i++) x[i] *= 0x1p30f;
    short *s16 = must_alloc((size_t)n, sizeof *s16);
    for (int i = 0; i < n; i++) s16[i] = (short)(x[i] * 0x1p-16f);
    bool good = sound_out_open(out, -1, path, format, RATE, n_channels, n_frames, NULL, why, sizeof why);
    check(good, "%s", why);
    check(out->kind == SAMPLE_S16 || out->kind == SAMPLE_FLOAT, "kind %d", out->kind);
    good = sound_out_write(out, out->kind == SAMPLE_S16 ? (void *)s16 : x, n_frames, why, sizeof why);
    free(s16);
    free(x);
    return good;
}

static void releases_that_break_alac_refuse_it(const char *backend)
{
    static const struct {
        const char *release;
        bool broken;
    } cases[] = {{"libsndfile-1.0.26", true}, {"libsndfile-1.1.0beta2", true},
                 {"libsndfile-1.2.0", true},  {"libsndfile-1.2.2", true},
                 {"libsndfile-1.2.3", false}, {"libsndfile-1.3.0", false},
                 {"libsndfile-2.0.0", false}, {"libsndfile", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        release = cases[i].release;
        int asked = sound_format_choose(ALAC, "y.caf", SF_FORMAT_WAV | SF_FORMAT_PCM_16, RATE, 2, why, sizeof why);
        check(asked == (cases[i].broken ? 0 : ALAC), "%s gave %x", release, asked);
        check(asked || (strstr(why, "issue 973") && strstr(why, "caf:pcm24 or flac")), "%s: %s", release, why);
        int kept = sound_format_choose(0, "y.caf", ALAC, RATE, 2, why, sizeof why);
        check(kept == (cases[i].broken ? SF_FORMAT_CAF | SF_FORMAT_PCM_16 : ALAC), "%s gave %x", release, kept);
    }
    release = cases[4].release;
}

/* ALAC's encoder keeps its packets in a temporary file and does not look whether they fit. One packet: its encoder
 * writes beyond its own memory if another one follows a failure. */
static void a_full_temporary_folder_is_an_error(const char *backend)
{
    struct rlimit limit, tight = {.rlim_cur = 4096};
    struct sound_out out;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    tight.rlim_max = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &tight);
    bool wrote = write_noise(&out, ALAC, 1, ALAC_PACKET);
    setrlimit(RLIMIT_FSIZE, &limit);
    bool good = wrote && sound_out_commit(&out, why, sizeof why);
    if (!wrote) sound_out_abandon(&out);
    check(!good && strstr(why, "TMPDIR"), "wrote %d, committed %d: %s", wrote, good, why);
    check(access(path, F_OK) != 0, "%s is there", path);
    check(write_noise(&out, ALAC, 1, ALAC_PACKET) && sound_out_commit(&out, why, sizeof why), "%s", why);
    unlink(path);
}

static void a_file_that_was_cut_is_not_whole(const char *backend)
{
    static const int formats[] = {SF_FORMAT_FLAC | SF_FORMAT_PCM_16,   SF_FORMAT_OGG | SF_FORMAT_VORBIS,
                                  SF_FORMAT_OGG | SF_FORMAT_OPUS,      SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III,
                                  SF_FORMAT_WAV | SF_FORMAT_IMA_ADPCM, SF_FORMAT_CAF | SF_FORMAT_ALAC_16,
                                  SF_FORMAT_RAW | SF_FORMAT_GSM610,    SF_FORMAT_AIFF | SF_FORMAT_DWVW_16,
                                  SF_FORMAT_RAW | SF_FORMAT_VOX_ADPCM};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        struct sound_out out;
        SF_INFO info = {.frames = RATE, .samplerate = RATE, .channels = 1, .format = formats[i]};
        char name[64];
        sf_count_t found = 0;
        sound_format_name(formats[i], name, sizeof name);
        if (!sf_format_check(&info)) continue; /* a libsndfile without the codec */
        check(write_noise(&out, formats[i], 1, RATE) && sound_out_commit(&out, why, sizeof why), "%s: %s", name, why);
        int fd = open(path, O_RDWR | O_CLOEXEC);
        struct stat status;
        check(fd >= 0 && fstat(fd, &status) == 0, "%s", path);
        check(read_back_is_whole(fd, &info, &found), "%s: %lld frames found", name, (long long)found);
        check(ftruncate(fd, status.st_size * 3 / 4) == 0, "%s", path);
        check(!read_back_is_whole(fd, &info, &found), "%s, cut: %lld frames found", name, (long long)found);
        close(fd);
        unlink(path);
    }
}

static int files_there(void)
{
    int n = 0;
    DIR *entries = opendir(folder);
    check(entries, "%s", folder);
    while (readdir(entries)) n++;
    closedir(entries);
    return n - 2;
}

static void put(struct part_file *part, const char *text)
{
    check(part_file_open(part, path, why, sizeof why), "%s", why);
    check(write(part->fd, text, strlen(text)) == (ssize_t)strlen(text), "write");
}

static void file_read_text(char text[64])
{
    memset(text, 0, 64);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, text, 63) < 0) strcpy(text, "(cannot be read)");
    if (fd >= 0) close(fd);
}

static void path_has(const char *text)
{
    char found[64];
    file_read_text(found);
    check(strcmp(found, text) == 0, "found '%s', want '%s'", found, text);
}

static void content_is_on_the_disk_before_it_has_its_name(const char *backend)
{
    struct part_file part;
    put(&part, "old");
    check(part_file_commit(&part, path, why, sizeof why), "%s", why);
    put(&part, "new");
    n_synced = 0;
    check(part_file_commit(&part, path, why, sizeof why), "%s", why);
    check(n_synced == 1 && strcmp(there_when_synced, "old") == 0, "synced %d times, then with '%s'", n_synced,
          there_when_synced);
    path_has("new");
    put(&part, "lost");
    disk_error = EIO;
    bool good = part_file_commit(&part, path, why, sizeof why);
    disk_error = 0;
    check(!good && strstr(why, "Input/output error"), "committed %d: %s", good, why);
    path_has("new");
    unlink(path);
    check(files_there() == 0, "%d files", files_there());
}

/* The same promises without and with names: two programs write one output, a third is killed. */
static void programs_leave_each_other_alone_and_clean_up(const char *backend)
{
    for (int named = 0; named < 2; named++) {
        struct part_file first, second, third, killed;
        struct stat status;
        no_proc = named;
        put(&first, "first");
        put(&second, "second");
        if (named) check(files_there() == 2, "%d files are under way", files_there());
        pid_t child = fork();
        if (child == 0) {
            put(&killed, "killed");
            raise(SIGKILL);
        }
        waitpid(child, NULL, 0);
        bool left = files_there() > (named ? 2 : 0);
        check(!named || left, "the killed program's file had no name");
        check(part_file_commit(&first, path, why, sizeof why), "%s", why);
        path_has("first");
        put(&third, "third"); /* removes the file of `killed`, and not that of `second` */
        check(files_there() == 1 + 2 * named, "named %d: %d files", named, files_there());
        check(part_file_commit(&second, path, why, sizeof why), "%s", why);
        path_has("second");
        chmod(path, 0604); /* the next one keeps it */
        part_file_abandon(&third);
        check(files_there() == 1, "named %d: %d files", named, files_there());
        put(&third, "3");
        check(part_file_commit(&third, path, why, sizeof why), "%s", why);
        path_has("3");
        check(stat(path, &status) == 0 && (status.st_mode & 0777) == 0604, "mode %o", status.st_mode);
        unlink(path);
        check(files_there() == 0, "named %d: %d files", named, files_there());
    }
    no_proc = false;
}

/* A batch on a GPU has 32 outputs for each worker. A signal removes those that have names. */
static void any_number_of_outputs_is_under_way(const char *backend)
{
    enum { N = 600 };
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_max < N + 100) check_skip("the limit of open files is below 700");
    no_proc = true;
    int ends[2];
    check(pipe(ends) == 0, "pipe");
    pid_t child = fork();
    if (child == 0) {
        static struct part_file parts[N];
        int n = 0;
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
        part_file_watch_signals();
        for (bool good = true; good && n < N; n += good) {
            snprintf(path, sizeof path, "%s/%d", folder, n);
            good = part_file_open(&parts[n], path, why, sizeof why);
        }
        if (write(ends[1], &n, sizeof n) == sizeof n && write(ends[1], why, sizeof why) > 0 && files_there() == n)
            raise(SIGTERM);
        _exit(1);
    }
    int n = 0, status;
    check(read(ends[0], &n, sizeof n) == sizeof n && read(ends[0], why, sizeof why) > 0, "read");
    waitpid(child, &status, 0);
    close(ends[0]);
    close(ends[1]);
    no_proc = false;
    check(n == N, "%d outputs, then: %s", n, why);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGTERM, "status %x", (unsigned)status);
    check(files_there() == 0, "%d files are left", files_there());
}

int main(void)
{
    static const struct test tests[] = {
        TEST(releases_that_break_alac_refuse_it, false),
        TEST(a_full_temporary_folder_is_an_error, false),
        TEST(a_file_that_was_cut_is_not_whole, false),
        TEST(content_is_on_the_disk_before_it_has_its_name, false),
        TEST(programs_leave_each_other_alone_and_clean_up, false),
        TEST(any_number_of_outputs_is_under_way, false),
    };
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/y", folder);
    int status = check_main("output", tests, sizeof tests / sizeof *tests);
    unlink(path);
    rmdir(folder);
    return status;
}
