#include "moving_options.h"

#include "host/message.h"

const char *moving_options_given(const struct moving_settings *s)
{
    if (s->path_options.step != MOVING_STEP) return "step";
    if (s->holds) return "hold";
    if (s->path_options.mix) return s->path_options.mix > 0 ? "mix" : "nearest";
    if (s->path_options.reference_m > 0) return "distance-gain";
    if (s->bank.grid_deg != 0) return "grid";
    return s->bank.normalise ? "normalise-bank" : NULL;
}

bool moving_options_check(const struct moving_settings *s, char *why, size_t cap)
{
    return !s->path || !path_is_random(s->path) || path_random_check(s->path, why, cap);
}

bool moving_path_read(struct path *path, const char *text, const struct moving_settings *s, int rate, int n_sources,
                      bool *mixes, char *why, size_t cap)
{
    *path = (struct path){0};
    if (!path_is_random(text) && !path_read(path, text, rate, n_sources, why, cap)) return false;
    *mixes = s->path_options.mix >= 0 && path->kind != PATH_ENTRIES;
    return true;
}

bool moving_path_finish(struct path *path, const char *text, uint64_t seed, const struct moving_settings *s,
                        const hc_bank_data *bank, int rate, int n_sources, int64_t n_frames, char *why, size_t cap)
{
    if (path_is_random(text) && n_frames < 0)
        return message_write(why, cap, "%s: a random path needs an input of known length; give a file", text);
    bool good = path_is_random(text) ? path_random(path, text, seed, rate, n_frames + bank->n_taps, n_sources, why, cap)
                                     : path_has_entries(path, text, bank->n_entries, why, cap);
    path->holds = s->holds;
    return good;
}
