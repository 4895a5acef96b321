#ifndef HALOCONV_MASKS_H
#define HALOCONV_MASKS_H
#include "haloconv.h"
#endif
