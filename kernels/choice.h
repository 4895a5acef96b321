/* choice - which kernel of the ladder is the fastest for a shape, by what `haloconv bench kernels` measured
 * (choice_table.h). Pure: no device, no state; the shapes between the measured ones are interpolated. */
#ifndef HALOCONV_CHOICE_H
#define HALOCONV_CHOICE_H

#ifdef __cplusplus
extern "C" {
#endif

enum sharing { SHARED, OWN, BANK };  /* who has which mask and input: ladder.h                                    */

enum choice { FEW, REGISTER, TENSOR, OVERLAP_SAVE, CHOICES };
enum {                               /* sets of choices, a bit each                                               */
    CHOICE_FIR = 1 << FEW | 1 << REGISTER,              /* what fir_launch has                                    */
    CHOICE_120_DB = CHOICE_FIR | 1 << OVERLAP_SAVE,     /* within -120 dB of the peak                             */
    CHOICE_ANY = CHOICE_120_DB | 1 << TENSOR            /* -110 dB                                                */
};
extern const char *const choice_rung[CHOICES];          /* the rungs' names                                       */
extern const char *const choice_gpu;                    /* on what it was measured                                */

/* The fastest of a set (which must not be empty) for n_out outputs of n_frames frames. [rt] */
enum choice ladder_choose(int n_taps, long n_frames, int n_out, enum sharing sharing, unsigned among);

/* The nanoseconds to expect of each; 0: never tried, or so slow at a shape nearby that it was not measured. */
void choice_expected_ns(double ns[CHOICES], int n_taps, long n_frames, int n_out, enum sharing sharing);

/* Shapes that were measured beside the table and are not in it, to prove it by. The i-th, or NULL. */
struct choice_probe {
    int n_taps;
    long n_frames;
    int n_out;
    enum sharing sharing;
    int ns[CHOICES]; /* 0: not measured */
};
const struct choice_probe *choice_probe_at(int i);

#ifdef __cplusplus
}
#endif
#endif
