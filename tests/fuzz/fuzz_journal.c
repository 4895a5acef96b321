/* Any bytes as the journal of an earlier batch. Each whole line counts, and so does a line that is added behind them. */
#include "fuzz.h"

#include "host/batch/journal.h"

#include <stdlib.h>
#include <string.h>

static void open_again(struct journal *journal)
{
    char why[1024] = "";
    must(journal_open(journal, ".", NULL, true, why, sizeof why));
    for (size_t i = 1; i < journal->n_done; i++) must(journal->done[i - 1] <= journal->done[i]);
}

/* Looks for the whole lines of 16 hexadecimal digits, a blank and a name. */
static void lines_look(const struct journal *journal, const uint8_t *data, size_t size)
{
    size_t n_whole = 0;
    for (const uint8_t *line = data, *end; (end = memchr(line, '\n', size - (size_t)(line - data))); line = end + 1) {
        char digits[17] = "";
        n_whole++;
        if (end - line < 17 || line[16] != ' ') continue;
        memcpy(digits, line, 16);
        if (strspn(digits, "0123456789abcdef") == 16) must(journal_has(journal, strtoull(digits, NULL, 16)));
    }
    must(journal->n_done <= n_whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t added = 0xfedcba9876543210u;
    struct journal journal;
    char why[1024] = "";
    file_put("haloconv-batch.journal", data, size);
    open_again(&journal);
    if (size > 0) lines_look(&journal, data, size);
    must(journal_add(&journal, added, "out.wav", why, sizeof why));
    journal_close(&journal);
    open_again(&journal);
    must(journal_has(&journal, added));
    journal_close(&journal);
    return 0;
}
