#include "moving_bank.h"

#include "host/message.h"

#include <string.h>

bool moving_bank_load(hc_bank_data *data, const char *path, int rate, const struct moving_bank_options *options,
                      bool mixes, char *why, size_t cap)
{
    hc_bank_options load = {
        .size = sizeof load, .grid_deg = options->grid_deg, .normalise = options->normalise, .mix = mixes};
    *data = (hc_bank_data){.size = sizeof *data};
    return hc_bank_load(path, options->keeps_rate ? 0 : rate, &load, data, why, cap) == HC_OK;
}

void moving_bank_print(const hc_bank_data *data, const char *path)
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
