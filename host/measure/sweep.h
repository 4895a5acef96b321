/* sweep - the signal of a measurement: exponential sine sweeps (Farina 2000), on one output after the other.
 *
 *   output 1   | lead | sweep  silence | sweep  silence |
 *   output 2                                            | lead | sweep  silence | sweep  silence |
 *              |<------------- a take ----------------->|      |<-- a section ->|
 *
 * The phase is that of the synchronised sweep of Novak, Lotton and Simon (2015), 2 pi f1 L e^(t / L): the n-th harmonic
 * of the sweep is the sweep itself, L ln(n) seconds earlier. The sweep runs from half of from_hz, where it fades in for
 * one period, to 1.1 to_hz, and fades out above to_hz. All times are seconds, so that a player and a recorder with
 * different rates agree on the signal.
 */
#ifndef SWEEP_H
#define SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sweep {
    int n_outputs, averages;     /* averages: sections of each output              */
    double from_hz, to_hz;       /* the response is flat between them              */
    double length_s, silence_s;  /* length of a sweep, and of the silence after it */
    double level;                /* amplitude; 1 is full scale                     */
};

enum { SWEEP_MAX_OUTPUTS = 64 };

/* Sets to_hz for a rate if it is 0, and checks that the sweep can be played or recorded at that rate. false: why has
 * the reason. */
bool sweep_complete(struct sweep *sweep, int rate, char *why, size_t cap);

double sweep_lead_s(void);                                   /* silence before a take, to measure its noise     */
double sweep_take_s(const struct sweep *sweep);
double sweep_section_s(const struct sweep *sweep);
double sweep_start_s(const struct sweep *sweep, int section); /* the start of a section in its take             */
double sweep_growth_s(const struct sweep *sweep);            /* L: seconds in which the frequency grows e times */

/* Returns the sweep at t seconds from its start; 0 before and behind it. */
double sweep_value(const struct sweep *sweep, double t);

/* Fills play[n] with frames first ... first + n - 1 of a take. */
void sweep_fill(const struct sweep *sweep, int rate, int64_t first, float *play, int n);

/* Write the sweep as a line of text for the comment of its sound file, and read it back. false: the text has another
 * form. */
void sweep_describe(const struct sweep *sweep, char *text, size_t cap);
bool sweep_parse(const char *text, struct sweep *sweep);

#endif
