#include "room_files.h"

#include "host/files/part_file.h"
#include "host/live/preset.h"
#include "host/message.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char MARK[] = "# Made by haloconv room.";

bool room_folder_make(const char *path, char *why, size_t cap)
{
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = part + 1; *slash; slash++) {
        if (*slash != '/') continue;
        *slash = 0;
        mkdir(part, 0777); /* the last one tells */
        *slash = '/';
    }
    if (mkdir(part, 0777) == 0 || errno == EEXIST) return true;
    return message_write(why, cap, "%s: %s; give a folder that can be made", path, strerror(errno));
}

static bool write_text(const char *path, const char *text, char *why, size_t cap)
{
    struct part_file file = {.fd = -1};
    size_t n = strlen(text);
    if (!part_file_open(&file, path, why, cap)) return false;
    bool good = write(file.fd, text, n) == (ssize_t)n ||
                message_write(why, cap, "%s: cannot be written; is the disk full?", path);
    good = good && part_file_commit(&file, path, why, cap);
    part_file_abandon(&file);
    return good;
}

/* JACK's names may have blanks and quotes. */
static void print_quoted(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) fprintf(file, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    fputc('"', file);
}

/* The text of a configuration; the caller frees it. */
static char *configuration(const char *filter, int n, const char *const *ports)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    if (!file) return NULL;
    fprintf(file, "%s\n/convolver/new %d %d 256 1048576\n", MARK, n, n);
    for (int i = 1; i <= n; i++) fprintf(file, "/input/name %d in-%d\n", i, i);
    for (int i = 1; i <= n; i++) {
        fprintf(file, "/output/name %d out-%d ", i, i);
        print_quoted(file, ports[i - 1]);
        fputc('\n', file);
    }
    for (int i = 1; i <= n; i++) fprintf(file, "/impulse/read %d %d 1 0 0 0 %d %s\n", i, i, i, filter);
    if (fclose(file) == 0) return text;
    free(text);
    return NULL;
}

bool room_configuration_write(const char *path, const char *filter, int n, const char *const *ports, char *why,
                              size_t cap)
{
    char *text = configuration(filter, n, ports);
    bool good = text ? write_text(path, text, why, cap) : message_write(why, cap, "%s: no memory; free some", path);
    free(text);
    return good;
}

/* May the file be replaced: is it absent, or one of ours? */
static bool is_ours(const char *path)
{
    char line[sizeof MARK] = "";
    FILE *file = fopen(path, "re");
    if (!file) return access(path, F_OK) != 0;
    bool ours = fgets(line, sizeof line, file) && strcmp(line, MARK) == 0;
    fclose(file);
    return ours;
}

bool room_preset_check(const char *name, char *path, size_t path_cap, char *why, size_t cap)
{
    if (!*name || strchr(name, '/'))
        return message_write(why, cap, "--preset '%s': is no name of a file; give one without a slash", name);
    snprintf(path, path_cap, "%s/%s.conf", preset_folder(0), name);
    return is_ours(path) ||
           message_write(why, cap, "%s: you wrote this preset, and it stays; give another --preset", path);
}

bool room_preset_write(const struct room_preset *p, char *path, size_t path_cap, char *why, size_t cap)
{
    char *text = NULL;
    if (!room_preset_check(p->name, path, path_cap, why, cap) || !room_folder_make(preset_folder(0), why, cap))
        return false;
    int n = p->is_jack ? asprintf(&text, "%s\ncommand = jack\nmask = \"%s\"\n%s%s%sreconnect = yes\n", MARK, p->mask,
                                  p->server ? "server = " : "", p->server ? p->server : "", p->server ? "\n" : "")
                       : asprintf(&text,
                                  "%s\ncommand = live\nmask = \"%s\"\noutput = \"%s\"\n"
                                  "# input = the device that other programs play to, such as a loopback\n",
                                  MARK, p->mask, p->device);
    bool good = n >= 0 ? write_text(path, text, why, cap) : message_write(why, cap, "%s: no memory; free some", path);
    free(text);
    return good;
}
