/* brutefir_network - connects the filters of BruteFIR by the names in their statements, and makes the outputs. */
#include "brutefir.h"

#include <string.h>

/* ---- names -------------------------------------------------------------------------------------- */

static int brutefir_count_of(const struct brutefir *b, int io, bool is_filter)
{
    return is_filter ? b->n_filters : b->n_channels[io];
}

static const char *brutefir_name_of(const struct brutefir *b, int io, bool is_filter, int i)
{
    return is_filter ? b->filters[i].name : b->channels[io][i].name;
}

/* Refuses two structures of one kind with the same name. */
static void check_names(struct brutefir *b, int io, bool is_filter, const char *what)
{
    for (int i = 0; i < brutefir_count_of(b, io, is_filter); i++)
        for (int k = 0; k < i; k++) {
            const char *name = brutefir_name_of(b, io, is_filter, i), *other = brutefir_name_of(b, io, is_filter, k);
            if (!name || !other || strcmp(name, other) != 0) continue;
            IMPORT_REFUSE(b->import, is_filter ? b->filters[i].line : 0, what,
                          "the name \"%.40s\" occurs twice; rename one", name);
            return;
        }
}

static const char *const end_names[2][2] = {{"from_inputs", "to_outputs"}, {"from_filters", "to_filters"}};

/* Finds the indices of the names in a list. Names that do not exist or occur twice are removed, with an error. */
static void ends_find(struct brutefir *b, struct brutefir_ends *ends, int io, bool is_filter)
{
    bool seen[BRUTEFIR_MAX] = {false};
    int n = brutefir_count_of(b, io, is_filter), kept = 0;
    for (int e = 0; e < ends->n; e++) {
        struct brutefir_end *end = &ends->list[e];
        if (end->name) end->index = 0;
        for (; end->name && end->index < n; end->index++) {
            const char *name = brutefir_name_of(b, io, is_filter, end->index);
            if (name && strcmp(name, end->name) == 0) break;
        }
        bool exists = end->index >= 0 && end->index < n;
        const char *what = is_filter ? "filter" : io ? "output" : "input", *field = end_names[is_filter][io];
        if (!exists && end->name)
            IMPORT_REFUSE(b->import, end->line, field, "%s \"%.40s\" does not exist; correct the name", what,
                          end->name);
        else if (!exists)
            IMPORT_REFUSE(b->import, end->line, field, "the %s of this number does not exist; give 0 to %d", what,
                          n - 1);
        else if (seen[end->index])
            IMPORT_REFUSE(b->import, end->line, field, "names %s %d twice; remove one of them", what, end->index);
        if (!exists || seen[end->index]) continue;
        seen[end->index] = true;
        ends->list[kept++] = *end;
    }
    ends->n = kept;
}

static bool has_end(const struct brutefir_ends *ends, int index)
{
    for (int e = 0; e < ends->n; e++)
        if (ends->list[e].index == index) return true;
    return false;
}

/* Checks that both filters of a connection name it, as BruteFIR requires. */
static void check_connections(struct brutefir *b, int n, int io)
{
    const struct brutefir_ends *ends = &b->filters[n].filters[io];
    for (int e = 0; e < ends->n; e++) {
        const struct brutefir_filter *other = &b->filters[ends->list[e].index];
        if (!has_end(&other->filters[!io], n))
            IMPORT_REFUSE(b->import, ends->list[e].line, end_names[1][io],
                          "filter \"%.40s\" (line %d) does not name this filter in its %s; add it there",
                          other->name ? other->name : "", other->line, end_names[1][!io]);
    }
}

static void coeff_find(struct brutefir *b, struct brutefir_filter *filter)
{
    int i = 0;
    if (!filter->coeff_name) {
        if (filter->coeff < b->n_coeffs) return;
        IMPORT_REFUSE(b->import, filter->coeff_line, "coeff", "coeff %d is not defined; give 0 to %d", filter->coeff,
                      b->n_coeffs - 1);
        filter->coeff = -1;
        return;
    }
    while (i < b->n_coeffs && (!b->coeffs[i].name || strcmp(b->coeffs[i].name, filter->coeff_name) != 0)) i++;
    filter->coeff = i < b->n_coeffs ? i : -1;
    if (i == b->n_coeffs)
        IMPORT_REFUSE(b->import, filter->coeff_line, "coeff", "coeff \"%.40s\" is not defined; correct the name",
                      filter->coeff_name);
}

/* ---- signals ------------------------------------------------------------------------------------ */

/* Makes the taps of a coeff in a filter. A delay cuts as many blocks off the coefficients' end. NULL: no memory. */
static const struct filter *filter_of_coeff(struct brutefir *b, struct brutefir_coeff *coeff, int delay)
{
    struct network *net = &b->import->network;
    if (delay == 0 && coeff->made) return coeff->made;
    int blocks = b->n_blocks - delay;
    const char *cut_by = delay ? "filter_length and the delay of the filter; raise filter_length"
                               : "filter_length; raise filter_length, or give blocks";
    if (coeff->blocks && coeff->blocks <= blocks) {
        blocks = coeff->blocks;
        cut_by = NULL;
    }
    struct raw_samples raw = {
        .format = coeff->format, .skip = coeff->skip, .max = blocks * b->block_frames, .cut_by = cut_by};
    struct excerpt excerpt = {.line = coeff->line, .command = "coeff", .gain = 1};
    excerpt.sound = configuration_raw_file(net->c, coeff->file, &raw);
    const struct filter *made = filter_of_file(net, &excerpt);
    if (delay == 0) coeff->made = made;
    return made;
}

static const struct signal *through_coeff(struct brutefir *b, const struct brutefir_filter *filter,
                                          const struct signal *signal)
{
    struct network *net = &b->import->network;
    struct brutefir_coeff *coeff = filter->coeff >= 0 ? &b->coeffs[filter->coeff] : NULL;
    if (filter->delay)
        signal = signal_delay(net, signal, network_seconds(net, (double)filter->delay * b->block_frames));
    if (coeff && coeff->file && coeff->format)
        signal = signal_filter(net, signal, filter_of_coeff(b, coeff, filter->delay));
    return coeff && coeff->gain != 1 ? signal_gain(net, signal, coeff->gain) : signal;
}

static const struct signal *brutefir_input_of(struct brutefir *b, const struct brutefir_end *end)
{
    struct network *net = &b->import->network;
    const struct brutefir_channel *channel = &b->channels[BRUTEFIR_IN][end->index];
    if (channel->is_muted) return NULL;
    const struct signal *signal = signal_input(net, channel->device_channel);
    if (end->gain != 1) signal = signal_gain(net, signal, end->gain);
    return channel->delay ? signal_delay(net, signal, network_seconds(net, channel->delay)) : signal;
}

/* Makes the output of a filter, after the outputs of the filters before it. */
static const struct signal *output_of(struct brutefir *b, struct brutefir_filter *filter)
{
    struct network *net = &b->import->network;
    if (filter->state == FILTER_OPEN)
        IMPORT_REFUSE(b->import, filter->line, "filter",
                      "\"%.40s\" is in a loop of filters; remove one of its connections",
                      filter->name ? filter->name : "");
    if (filter->state != FILTER_NEW) return filter->signal;
    filter->state = FILTER_OPEN;
    const struct signal *sum = NULL;
    for (int e = 0; e < filter->channels[BRUTEFIR_IN].n; e++)
        sum = signal_add(net, sum, brutefir_input_of(b, &filter->channels[BRUTEFIR_IN].list[e]));
    for (int e = 0; e < filter->filters[BRUTEFIR_IN].n; e++) {
        const struct brutefir_end *end = &filter->filters[BRUTEFIR_IN].list[e];
        sum = signal_add(net, sum, signal_gain(net, output_of(b, &b->filters[end->index]), end->gain));
    }
    filter->signal = through_coeff(b, filter, sum);
    filter->state = FILTER_DONE;
    return filter->signal;
}

static void connect_outputs(struct brutefir *b, struct brutefir_filter *filter)
{
    struct network *net = &b->import->network;
    const struct signal *signal = output_of(b, filter);
    for (int e = 0; e < filter->channels[BRUTEFIR_OUT].n; e++) {
        const struct brutefir_end *end = &filter->channels[BRUTEFIR_OUT].list[e];
        const struct brutefir_channel *channel = &b->channels[BRUTEFIR_OUT][end->index];
        int out = channel->device_channel;
        if (channel->is_muted) continue;
        const struct signal *part = end->gain != 1 ? signal_gain(net, signal, end->gain) : signal;
        if (channel->delay) part = signal_delay(net, part, network_seconds(net, channel->delay));
        network_output(net, out, signal_add(net, net->outputs[out], part));
    }
}

void brutefir_network(struct brutefir *b)
{
    check_names(b, BRUTEFIR_IN, false, "input");
    check_names(b, BRUTEFIR_OUT, false, "output");
    check_names(b, 0, true, "filter");
    for (int n = 0; n < b->n_coeffs; n++)
        if (b->coeffs[n].blocks > b->n_blocks)
            IMPORT_REFUSE(b->import, b->coeffs[n].line, "coeff", "has %d blocks, but filter_length has %d; give fewer",
                          b->coeffs[n].blocks, b->n_blocks);
    for (int n = 0; n < b->n_filters; n++) {
        struct brutefir_filter *filter = &b->filters[n];
        for (int io = BRUTEFIR_IN; io <= BRUTEFIR_OUT; io++) {
            ends_find(b, &filter->channels[io], io, false);
            ends_find(b, &filter->filters[io], io, true);
        }
        coeff_find(b, filter);
        if (filter->delay > b->n_blocks - 1) {
            IMPORT_REFUSE(b->import, filter->line, "filter", "has a delay of %d of the %d blocks; give at most %d",
                          filter->delay, b->n_blocks, b->n_blocks - 1);
            filter->delay = 0;
        }
    }
    for (int n = 0; n < b->n_filters; n++) {
        check_connections(b, n, BRUTEFIR_IN);
        check_connections(b, n, BRUTEFIR_OUT);
    }
    for (int n = 0; n < b->n_filters && !b->import->c->arena->is_short; n++) connect_outputs(b, &b->filters[n]);
}
