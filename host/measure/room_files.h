/* room_files - the files of haloconv room besides the sounds: a configuration that plays the filter, and a preset. */
#ifndef ROOM_FILES_H
#define ROOM_FILES_H

#include <stdbool.h>
#include <stddef.h>

enum { ROOM_MAX_POSITIONS = 32 };

/* Is the folder free of files that a run writes? It may be absent. false: why names such a file. */
bool room_folder_check(const char *path, char *why, size_t cap);

/* Makes the first of the folders room, room-2, ... that holds no file of a run, and writes its path to path[path_cap].
 * false: why has the reason. */
bool room_folder_number(char *path, size_t path_cap, char *why, size_t cap);

/* Writes a configuration with n inputs and n outputs to path. Input i goes through channel i of the filter, a file in
 * the same folder, to output i. Output i connects to JACK's port ports[i]. Other programs connect to the inputs. */
bool room_configuration_write(const char *path, const char *filter, int n, const char *const *ports, char *why,
                              size_t cap);

struct room_preset {
    const char *name;
    bool is_jack;
    const char *mask;   /* the absolute path of the configuration, or of the filter for PortAudio */
    const char *server; /* name of JACK's server; NULL: the default */
    const char *device; /* PortAudio's output */
};

/* Writes to name[cap] the first of room, room-2, ... that is not a preset in the user's folder. */
void room_preset_number(char *name, size_t cap);

/* May a preset of this name be written? A preset that the user wrote is not replaced. Writes its path to
 * path[path_cap]. false: why has the reason. */
bool room_preset_check(const char *name, char *path, size_t path_cap, char *why, size_t cap);

/* Writes the preset to the user's folder of presets, and its path to path[path_cap]. false: why has the reason. */
bool room_preset_write(const struct room_preset *preset, char *path, size_t path_cap, char *why, size_t cap);

#endif
