/* sofa_units - the units of a SOFA file's variables, as AES69 and the programs that write such files spell them. */
#ifndef HALOCONV_SOFA_UNITS_H
#define HALOCONV_SOFA_UNITS_H

enum sofa_quantity { SOFA_ANGLE, SOFA_LENGTH, SOFA_FREQUENCY, SOFA_TIME, SOFA_FRAMES };

struct sofa_unit {
    const char *name;
    enum sofa_quantity quantity;
    double scale; /* factor that converts a value to degrees, metres, hertz, seconds or frames */
};

/* Reads the attribute Units, up to three names separated by commas. Returns their number; -1: a name is unknown, or
 * more than three. */
int sofa_units_read(const char *text, const struct sofa_unit *units[3]);

#endif
