/* c_locale - numbers as text have a decimal point, whatever locale the host program has set. */
#ifndef HALOCONV_C_LOCALE_H
#define HALOCONV_C_LOCALE_H

#include <locale.h>

/* Gives the calling thread the C locale; returns the one to leave with. newlocale's C locale is a constant of the C
 * library: nothing is allocated or freed. */
static inline locale_t c_locale_enter(void)
{
    return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

static inline void c_locale_leave(locale_t was)
{
    uselocale(was);
}

#endif
