/* state - a plugin's state as a text, the same for every standard:
 *
 *   haloconv plugin 1
 *   variant stereo
 *   shipped hall.wav        side A: a mask of the folder of masks, or: mask /home/me/church.wav
 *   shipped_b room.wav      side B, or: mask_b /home/me/chapel.wav; without such a line it is empty
 *   dry -90
 *   wet 0                   every control that users set, by its symbol
 *   end
 *
 * A path has control characters and \ as \x and two hexadecimal digits. Any version is read: a later version may add
 * lines, which this one ignores, and keeps the meaning of these. A control without a line gets its initial value, and a
 * value outside the range the nearest one. A text that is cut, or has a line of this form with another kind of value,
 * is refused.
 */
#include "core.h"
#include "dsp/base/c_locale.h"
#include "dsp/base/number.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parsed {
    double values[N_CONTROLS];
    char masks[N_SIDES][CORE_PATH_BYTES];
};

static const char *const mask_keys[2][N_SIDES] = {{"mask", "mask_b"}, {"shipped", "shipped_b"}}; /* [is_shipped] */

/* ---- write -------------------------------------------------------------------------------------- */

static size_t write_path(char *text, const char *path)
{
    size_t n = 0;
    for (const unsigned char *at = (const unsigned char *)path; *at; at++)
        n += iscntrl(*at) || *at == '\\' ? (size_t)sprintf(text + n, "\\x%02x", *at) : (text[n] = (char)*at, (size_t)1);
    return n;
}

static size_t write_mask(struct core *core, int side, char *text)
{
    const char *folder = core_folder(core);
    char path[CORE_PATH_BYTES];
    core_get_side_mask(core, side, path);
    if (!path[0]) return 0;
    size_t length = strlen(folder);
    bool is_shipped = strncmp(path, folder, length) == 0 && path[length] && !strchr(path + length, '/');
    size_t n = (size_t)sprintf(text, "%s ", mask_keys[is_shipped][side]);
    n += write_path(text + n, path + (is_shipped ? length : 0));
    return n + (size_t)sprintf(text + n, "\n");
}

size_t core_save(struct core *core, char text[CORE_STATE_BYTES])
{
    const struct variant *variant = core_variant(core);
    locale_t was = c_locale_enter();
    size_t n = (size_t)sprintf(text, "haloconv plugin 1\nvariant %s\n", variant->symbol);
    for (int side = 0; side < N_SIDES; side++) n += write_mask(core, side, text + n);
    for (int i = 0; i < N_CONTROLS; i++)
        if (variant_has_setting(variant, i))
            n += (size_t)sprintf(text + n, "%s %.9g\n", controls[i].symbol, (double)core_get(core, i));
    n += (size_t)sprintf(text + n, "end\n");
    c_locale_leave(was);
    return n;
}

/* ---- read --------------------------------------------------------------------------------------- */

/* Returns the byte of x and two hexadecimal digits; 0: the text has another form. */
static char hexadecimal(const char *text)
{
    char digits[4];
    snprintf(digits, sizeof digits, "%s", text);
    bool is_byte = digits[0] == 'x' && isxdigit((unsigned char)digits[1]) && isxdigit((unsigned char)digits[2]);
    return (char)(is_byte ? strtol(digits + 1, NULL, 16) : 0);
}

/* false: the path is empty or too long, or has another escape. */
static bool read_path(const char *text, char *path, size_t cap)
{
    size_t n = 0;
    for (; *text && n + 1 < cap; n++) {
        bool is_escape = *text == '\\';
        path[n] = *text;
        if (is_escape) path[n] = hexadecimal(text + 1);
        if (!path[n]) return false;
        text += is_escape ? 4 : 1;
    }
    path[n] = '\0';
    return n > 0 && !*text;
}

/* false: the value is not a path, or not the name of a mask that ships. */
static bool state_read_mask(struct core *core, bool is_shipped, const char *value, char path[CORE_PATH_BYTES])
{
    char name[256];
    if (!is_shipped) return read_path(value, path, CORE_PATH_BYTES);
    if (!read_path(value, name, sizeof name) || strchr(name, '/') || strcmp(name, "..") == 0) return false;
    core_shipped_path(core, name, path);
    return true;
}

/* Reads a line that begins with a key. false: the value is wrong. */
static bool state_read_line(struct core *core, const char *key, const char *value, struct parsed *to)
{
    int control = control_find(key);
    if (control < N_CONTROLS && variant_has_setting(core_variant(core), control))
        return number_is(value, -INFINITY, INFINITY, &to->values[control]);
    for (int i = 0; i < 2 * N_SIDES; i++)
        if (strcmp(key, mask_keys[i / N_SIDES][i % N_SIDES]) == 0)
            return state_read_mask(core, i / N_SIDES, value, to->masks[i % N_SIDES]);
    if (strcmp(key, "variant") == 0) {
        int v = 0;
        while (v < N_VARIANTS && strcmp(variants[v].symbol, value) != 0) v++;
        return v < N_VARIANTS && variants[v].n_sources == core_variant(core)->n_sources;
    }
    return true;
}

/* text ends with 0; its lines are cut apart. */
static bool state_read_lines(struct core *core, char *text, struct parsed *to, char *why, size_t cap)
{
    double version;
    static const char head[] = "haloconv plugin ", *const wrong = "the state of the plugin is cut or damaged";
    char *line = text, *rest = strchr(text, '\n');
    for (int number = 1; rest; line = rest, rest = strchr(rest, '\n'), number++) {
        *rest++ = '\0';
        if (number == 1) {
            if (strncmp(line, head, sizeof head - 1) != 0 || !number_is(line + sizeof head - 1, 1, 1e9, &version))
                break;
            continue;
        }
        if (strcmp(line, "end") == 0) return !*rest || (snprintf(why, cap, "%s after its end", wrong), false);
        char *value = strchr(line, ' ');
        if (value) *value++ = '\0';
        if (!state_read_line(core, line, value ? value : "", to))
            return snprintf(why, cap, "%s in line %d, or of another kind of plugin; the settings stay", wrong, number),
                   false;
    }
    return snprintf(why, cap, "%s; the settings stay", wrong), false;
}

bool core_restore(struct core *core, const char *text, size_t length, char *why, size_t cap)
{
    if (length >= CORE_STATE_BYTES || memchr(text, 0, length))
        return snprintf(why, cap, "the state of the plugin is too long, or not a text; the settings stay"), false;
    struct parsed *parsed = malloc(sizeof *parsed);
    char *copy = strndup(text, length);
    bool is_read = parsed && copy;
    if (!is_read) snprintf(why, cap, "no memory; close other plugins or programs");
    if (is_read) {
        for (int i = 0; i < N_CONTROLS; i++) parsed->values[i] = (double)controls[i].initial;
        core_shipped_path(core, NULL, parsed->masks[SIDE_A]);
        parsed->masks[SIDE_B][0] = '\0';
        is_read = state_read_lines(core, copy, parsed, why, cap);
    }
    if (is_read) {
        for (int i = 0; i < N_CONTROLS; i++)
            if (i != A_B && variant_has_setting(core_variant(core), i)) core_set(core, i, parsed->values[i]);
        core_restore_masks(core, parsed->values[A_B] > 0.5, parsed->masks[SIDE_A], parsed->masks[SIDE_B]);
    }
    free(copy);
    free(parsed);
    return is_read;
}
