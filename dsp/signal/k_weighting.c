#include "k_weighting.h"

#include <math.h>

/* BS.1770 lists coefficients for 48 kHz. The bilinear transform makes them from two analogue filters: a shelf of
 * +4 dB, and a high-pass at 38 Hz, whose numerator is not scaled. */
void k_weighting(int rate, struct biquad filters[2])
{
    const double shelf_hz = 1681.974450955533, gain_db = 3.999843853973347, shelf_q = 0.7071752369554196;
    const double low_hz = 38.13547087602444, low_q = 0.5003270373238773, hz = rate > 4000 ? rate : 4000;
    double k = tan(M_PI * shelf_hz / hz), vh = pow(10, gain_db / 20), vb = pow(vh, 0.4996667741545416);
    double a0 = 1 + k / shelf_q + k * k;
    filters[0] = (struct biquad){.b0 = (vh + vb * k / shelf_q + k * k) / a0,
                                 .b1 = 2 * (k * k - vh) / a0,
                                 .b2 = (vh - vb * k / shelf_q + k * k) / a0,
                                 .a1 = 2 * (k * k - 1) / a0,
                                 .a2 = (1 - k / shelf_q + k * k) / a0};
    k = tan(M_PI * low_hz / hz);
    a0 = 1 + k / low_q + k * k;
    filters[1] =
        (struct biquad){.b0 = 1, .b1 = -2, .b2 = 1, .a1 = 2 * (k * k - 1) / a0, .a2 = (1 - k / low_q + k * k) / a0};
}
