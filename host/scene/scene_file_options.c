#include "scene_file_options.h"

#include "host/message.h"

#include <string.h>

const char *scene_file_options_given(const struct scene_file_settings *s)
{
    if (s->path_options.step != MOVING_STEP) return "step";
    if (s->holds) return "hold";
    if (s->path_options.mix) return s->path_options.mix > 0 ? "mix" : "nearest";
    if (s->path_options.reference_m > 0) return "distance-gain";
    if (s->bank.grid_deg != 0) return "grid";
    return s->bank.normalise ? "normalise-bank" : NULL;
}

bool scene_file_options_check(const struct scene_file_settings *s, char *why, size_t cap)
{
    return !s->path || !path_is_random(s->path) || path_random_check(s->path, why, cap);
}

bool scene_file_path_read(struct path *path, const char *text, const struct scene_file_settings *s, int rate, int n_sources,
                      bool *mixes, char *why, size_t cap)
{
    *path = (struct path){0};
    if (!path_is_random(text) && !path_read(path, text, rate, n_sources, why, cap)) return false;
    *mixes = s->path_options.mix >= 0 && path->kind != PATH_ENTRIES;
    return true;
}

bool scene_file_path_finish(struct path *path, const char *text, uint64_t seed, const struct scene_file_settings *s,
                        const hc_bank_data *bank, int rate, int n_sources, int64_t n_frames, char *why, size_t cap)
{
    if (path_is_random(text) && n_frames < 0)
        return message_write(why, cap, "%s: a random path needs an input of known length; give a file", text);
    bool good = path_is_random(text) ? path_random(path, text, seed, rate, n_frames + bank->n_taps, n_sources, why, cap)
                                     : path_has_entries(path, text, bank->n_entries, why, cap);
    path->holds = s->holds;
    return good;
}

bool scene_file_bank_load(hc_bank_data *data, const char *path, int rate, const struct scene_file_bank_options *options,
                      bool mixes, char *why, size_t cap)
{
    hc_bank_options load = {
        .size = sizeof load, .grid_deg = options->grid_deg, .normalise = options->normalise, .mix = mixes};
    *data = (hc_bank_data){.size = sizeof *data};
    return hc_bank_load(path, options->keeps_rate ? 0 : rate, &load, data, why, cap) == HC_OK;
}

void scene_file_bank_print(const hc_bank_data *data, const char *path)
{
    for (const char *note = data->notes ? data->notes : ""; *note;) {
        int n = (int)strcspn(note, "\n");
        if (n > 0) message_note("%s: %.*s", path, n, note);
        note += n + (note[n] == '\n');
    }
    message_note("%s: %d entr%s, %d output%s, %d tap%s, largest gain %s", path, data->n_entries,
                 data->n_entries == 1 ? "y" : "ies", data->n_out, message_s(data->n_out), data->n_taps,
                 message_s(data->n_taps), message_gain((double)data->gain_db, 1).text);
}
