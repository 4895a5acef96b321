/* splitmix64 - makes a pseudo-random number from a seed (Steele, Lea and Flood 2014): neighbouring seeds give unlike
 * numbers. */
#ifndef SPLITMIX64_H
#define SPLITMIX64_H

#include <stdint.h>

#define SPLITMIX64_STEP 0x9e3779b97f4a7c15u /* difference of two consecutive seeds of a sequence */

static inline uint64_t splitmix64(uint64_t seed)
{
    uint64_t z = seed + SPLITMIX64_STEP;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

#endif
