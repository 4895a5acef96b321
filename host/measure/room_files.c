#include "room_files.h"

#include "host/files/text_out.h"
#include "host/line_reader.h"
#include "host/live/session/preset.h"
#include "host/message.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char MARK[] = "# Made by haloconv room.";

/* Returns the name of file i that a run writes; NULL: i is behind the last. */
static const char *file_of_run(int i, char *name, size_t cap)
{
    static const char *const others[] = {"filter.wav", "room.conf", "flat.wav", "verified.wav", "room.svg"};
    const int n = ROOM_MAX_POSITIONS + (int)(sizeof others / sizeof *others);
    if (i < ROOM_MAX_POSITIONS)
        snprintf(name, cap, "measured-%d.wav", i + 1);
    else if (i < n)
        snprintf(name, cap, "%s", others[i - ROOM_MAX_POSITIONS]);
    return i < n ? name : NULL;
}

bool room_folder_check(const char *path, char *why, size_t cap)
{
    char name[64], file[PATH_MAX];
    for (int i = 0; file_of_run(i, name, sizeof name); i++) {
        snprintf(file, sizeof file, "%s/%s", path, name);
        if (access(file, F_OK) == 0)
            return message_write(why, cap, "%s: is a file of an earlier run, which is not replaced; give another -o",
                                 file);
    }
    return true;
}

bool room_folder_number(char *path, size_t path_cap, char *why, size_t cap)
{
    struct stat status;
    snprintf(path, path_cap, "room");
    for (int n = 2; stat(path, &status) == 0 && !(S_ISDIR(status.st_mode) && room_folder_check(path, why, cap)); n++)
        snprintf(path, path_cap, "room-%d", n);
    return text_out_folder(path, why, cap);
}

/* Prints a name of JACK, which may have blanks and quotes. */
static void print_port_name(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) fprintf(file, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    fputc('"', file);
}

struct room_configuration {
    const char *filter;
    int n;
    const char *const *ports;
};

static void print_configuration(FILE *file, const void *data)
{
    const struct room_configuration *c = data;
    fprintf(file, "%s\n/convolver/new %d %d 256 1048576\n", MARK, c->n, c->n);
    for (int i = 1; i <= c->n; i++) fprintf(file, "/input/name %d in-%d\n", i, i);
    for (int i = 1; i <= c->n; i++) {
        fprintf(file, "/output/name %d out-%d ", i, i);
        print_port_name(file, c->ports[i - 1]);
        fputc('\n', file);
    }
    for (int i = 1; i <= c->n; i++) fprintf(file, "/impulse/read %d %d 1 0 0 0 %d %s\n", i, i, i, c->filter);
}

bool room_configuration_write(const char *path, const char *filter, int n, const char *const *ports, char *why,
                              size_t cap)
{
    return text_out(path, print_configuration, &(struct room_configuration){filter, n, ports}, why, cap);
}

/* May the file be replaced: is it absent, or written by haloconv room? */
static bool is_ours(const char *path)
{
    char line[sizeof MARK] = "";
    const char *reason;
    FILE *file = text_in_open(path, &reason);
    if (!file) return access(path, F_OK) != 0;
    bool ours = fgets(line, sizeof line, file) && strcmp(line, MARK) == 0;
    fclose(file);
    return ours;
}

static const char *preset_path(const char *name, char *path, size_t cap)
{
    snprintf(path, cap, "%s/%s.conf", preset_folder(0), name);
    return path;
}

void room_preset_number(char *name, size_t cap)
{
    char path[PATH_MAX];
    snprintf(name, cap, "room");
    for (int n = 2; access(preset_path(name, path, sizeof path), F_OK) == 0; n++) snprintf(name, cap, "room-%d", n);
}

bool room_preset_check(const char *name, char *path, size_t path_cap, char *why, size_t cap)
{
    if (!*name || strchr(name, '/'))
        return message_write(why, cap, "--preset '%s': is not a name of a file; give one without a slash", name);
    preset_path(name, path, path_cap);
    return is_ours(path) || message_write(why, cap,
                                          "%s: haloconv room did not write this preset, and does not replace it; give "
                                          "another --preset",
                                          path);
}

static void room_preset_print(FILE *file, const void *data)
{
    const struct room_preset *p = data;
    fprintf(file, "%s\ncommand = %s\nmask = \"%s\"\n", MARK, p->is_jack ? "jack" : "live", p->mask);
    if (p->is_jack && p->server) fprintf(file, "server = %s\n", p->server);
    if (p->is_jack)
        fprintf(file, "reconnect = yes\n");
    else
        fprintf(file, "output = \"%s\"\n# input = the device that other programs play to, such as a loopback\n",
                p->device);
}

bool room_preset_write(const struct room_preset *p, char *path, size_t path_cap, char *why, size_t cap)
{
    return room_preset_check(p->name, path, path_cap, why, cap) && text_out_folder(preset_folder(0), why, cap) &&
           text_out(path, room_preset_print, p, why, cap);
}
