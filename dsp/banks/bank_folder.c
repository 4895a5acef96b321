/* bank_folder - reads a bank from a folder of sound files; a file's name has the position:
 * azi_30_ele_-15_dist_1.5.wav. */
#include "bank_sounds.h"
#include "dsp/base/error.h"
#include "dsp/base/number.h"
#include "dsp/masks/mask_file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Finds the number behind one of the words in a name: azi_30, az30, azimuth=30. */
static bool number_in_name(const char *name, const char *const *words, double *value)
{
    for (const char *at = name; *at; at++) {
        size_t length = 0;
        if (!isalpha((unsigned char)*at) || (at > name && isalpha((unsigned char)at[-1]))) continue;
        while (isalpha((unsigned char)at[length])) length++;
        for (int i = 0; words[i]; i++) {
            char number[32];
            if (strlen(words[i]) != length || strncasecmp(at, words[i], length) != 0) continue;
            const char *from = at + length + (at[length] == '_' || at[length] == '=');
            size_t sign = *from == '-' || *from == '+', n = sign;
            n += strspn(from + n, "0123456789");
            if (n > sign && from[n] == '.') n += 1 + strspn(from + n + 1, "0123456789");
            if (n == sign || n >= sizeof number) continue;
            memcpy(number, from, n);
            number[n] = 0;
            return number_is(number, -INFINITY, INFINITY, value);
        }
    }
    return false;
}

/* Finds the position in a name such as azi_30_ele_-15_dist_1.5.wav. */
static bool position_in_name(const char *name, double position[3])
{
    static const char *const azimuth[] = {"azi", "az", "azimuth", NULL},
                             *const elevation[] = {"ele", "el", "elev", "elevation", NULL},
                             *const distance[] = {"dist", "dis", "distance", NULL};
    double az, el = 0, r = 1;
    if (!number_in_name(name, azimuth, &az)) return false;
    number_in_name(name, elevation, &el);
    number_in_name(name, distance, &r);
    if (!(fabs(az) <= 3600 && fabs(el) <= 90 && r >= 0 && r <= BANK_MAX_DISTANCE)) return false;
    position_from_angles(az, el, r, position);
    return true;
}

static bool is_sound(const char *name)
{
    static const char *const endings[] = {".wav", ".flac", ".aif", ".aiff", ".aifc", ".w64", ".rf64",
                                          ".caf", ".au",   ".snd", ".ogg",  ".opus", ".mp3"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (mask_file_has_extension(name, endings[i])) return true;
    return false;
}

static int filter_sounds(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && is_sound(entry->d_name);
}

static int in_order(const struct dirent **a, const struct dirent **b) /* "2.wav" is before "10.wav" */
{
    return strverscmp((*a)->d_name, (*b)->d_name);
}

static int names_add(struct dirent **names, int n, struct bank_sounds *sounds, bool *has_positions, const char *path,
                     struct reason *why)
{
    int error = HC_OK, length = (int)strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    for (int i = 0; i < n && !error; i++) {
        double position[3] = {0};
        bool has = position_in_name(names[i]->d_name, position);
        if (i == 0) *has_positions = has;
        if (has != *has_positions)
            error =
                fail(HC_EINVAL, why,
                     "%s: the name of %.100s has %s position such as azi_30_ele_-15, but that of %.100s has %s; name "
                     "all files in the same way",
                     path, names[i]->d_name, has ? "a" : "no", names[0]->d_name, has ? "none" : "one");
        else
            error = bank_sounds_add(sounds, path, length, names[i]->d_name, position, path, why);
    }
    return error;
}

int folder_bank_read(struct bank *bank, const char *path, int rate, struct reason *why)
{
    struct dirent **names = NULL;
    struct bank_sounds sounds = {0};
    bool has_positions = false;
    int n = scandir(path, &names, filter_sounds, in_order);
    if (n < 0)
        return fail(errno == ENOMEM ? HC_ENOMEM : HC_EFILE, why, "%s: %s; check the path and its permissions", path,
                    strerror(errno));
    int error = n > 0 ? names_add(names, n, &sounds, &has_positions, path, why)
                      : fail(HC_EINVAL, why, "%s: has no sound files; give a folder with .wav, .flac, .aif, ...", path);
    for (int i = 0; i < n; i++) free(names[i]);
    free(names);
    bank_note(bank, "folder of sound files%s", has_positions ? "" : " without positions");
    if (!error) error = bank_sounds_read(&sounds, has_positions, bank, path, rate, why);
    bank_sounds_free(&sounds);
    return error;
}
