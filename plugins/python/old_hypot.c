/* old_hypot - hypot for a wheel, from glibc before 2.35, with the error handling of SVID (matherr). A wheel then needs
 * only glibc 2.34. The linker's --wrap=hypot sends the calls of library and program to wheel_hypot. */
#include <math.h>

#if defined __GLIBC__ && defined __x86_64__
__asm__(".symver old_hypot, hypot@GLIBC_2.2.5");
double old_hypot(double x, double y);
#elif defined __GLIBC__ && defined __aarch64__
__asm__(".symver old_hypot, hypot@GLIBC_2.17");
double old_hypot(double x, double y);
#else
double old_hypot(double x, double y) __asm__("__real_hypot");
#endif
double wheel_hypot(double x, double y) __asm__("__wrap_hypot");

double wheel_hypot(double x, double y)
{
    return old_hypot(x, y);
}
