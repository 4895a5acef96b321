#include "import.h"
static bool is_equalizer_apo(const char *text, size_t bytes)
{
    (void)text;
    (void)bytes;
    return false;
}
static void read_equalizer_apo(struct import *i)
{
    (void)i;
}
const struct import_format format_equalizer_apo = {"Equalizer APO", ".txt", is_equalizer_apo, read_equalizer_apo, true};
