/* c_locale - makes numbers in text have a decimal point, in whatever locale the host program runs. */
#ifndef HALOCONV_C_LOCALE_H
#define HALOCONV_C_LOCALE_H

#include <locale.h>

/* Sets the C locale for the calling thread and returns the former locale, for c_locale_leave. newlocale returns a
 * constant of the C library here: nothing is allocated or freed. */
static inline locale_t c_locale_enter(void)
{
    return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

static inline void c_locale_leave(locale_t was)
{
    uselocale(was);
}

#endif
