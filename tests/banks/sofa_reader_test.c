/* sofa_reader_test - libmysofa and HDF5 give the same attributes, shapes and values of a file. */
#include "check.h"
#include "dsp/banks/sofa_reader.h"
#include "haloconv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char kemar[] = "/usr/share/libmysofa/MIT_KEMAR_normal_pinna.sofa"; /* Debian's libmysofa1 */

static void open_or_skip(int code, const char *why)
{
    if (code == HC_EUNSUPPORTED) check_skip(why);
    check(code == HC_OK, "%s", why);
}

static void both_readers_agree(const char *backend)
{
    static const char *const texts[] = {"Conventions", "SOFAConventions", "DataType", "Title", "none"};
    static const char *const variables[] = {"Data.IR",          "Data.Delay",   "Data.SamplingRate", "SourcePosition",
                                            "ListenerPosition", "ListenerView", "ListenerUp",        "EmitterPosition",
                                            "ReceiverPosition", "none"};
    struct sofa_reader mysofa, hdf5;
    char why[500] = "";
    if (access(kemar, R_OK) != 0) check_skip("no file of libmysofa");
    open_or_skip(sofa_mysofa_open(&mysofa, kemar, REASON(why, sizeof why)), why);
    open_or_skip(sofa_hdf5_open(&hdf5, kemar, REASON(why, sizeof why)), why);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char a[SOFA_TEXT], b[SOFA_TEXT];
        mysofa.text(mysofa.file, texts[i], a);
        hdf5.text(hdf5.file, texts[i], b);
        check(strcmp(a, b) == 0, "%s: \"%s\" and \"%s\"", texts[i], a, b);
    }
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        struct sofa_variable a, b;
        bool in_a = mysofa.look(mysofa.file, variables[i], &a), in_b = hdf5.look(hdf5.file, variables[i], &b);
        check(in_a == in_b, "%s: %d and %d", variables[i], in_a, in_b);
        if (!in_a) continue;
        check(a.n == b.n && strcmp(a.type, b.type) == 0 && strcmp(a.units, b.units) == 0, "%s: %zu and %zu, %s and %s",
              variables[i], a.n, b.n, a.type, b.type);
        if (a.n_dims) check(memcmp(a.dim, b.dim, sizeof a.dim) == 0 && a.n_dims == b.n_dims, "%s", variables[i]);
        float *x = must_alloc(a.n, sizeof *x), *y = must_alloc(a.n, sizeof *y);
        check(mysofa.read(mysofa.file, variables[i], a.n, x) && hdf5.read(hdf5.file, variables[i], a.n, y), "%s",
              variables[i]);
        for (size_t k = 0; k < a.n; k++)
            check(x[k] == y[k], "%s: value %zu: %.9g and %.9g", variables[i], k, (double)x[k], (double)y[k]);
        free(x);
        free(y);
    }
    mysofa.close(mysofa.file);
    hdf5.close(hdf5.file);
}

int main(void)
{
    static const struct test tests[] = {TEST(both_readers_agree, false)};
    return check_main("sofa_reader_test", tests, 1);
}
