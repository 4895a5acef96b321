/* Any bytes as the journal of an earlier batch. Each whole line counts, and so does a line that is added behind them. */
#include "fuzz.h"

#include "host/batch/journal.h"

#include <stdlib.h>
#include <string.h>

#define ADDED_FIGURES "{\"peak\":0.5}"

static void open_again(struct journal *journal)
{
    char why[1024] = "";
    static const struct journal_location here = {.folder = ".", .n_shards = 1};
    must(journal_open(journal, &here, true, true, why, sizeof why));
    const struct journal_list *list = &journal->done;
    for (size_t i = 1; i < list->n; i++) must(list->entries[i - 1].output <= list->entries[i].output);
    for (size_t i = 0; i < list->n; i++) must(!list->entries[i].figures || !strpbrk(list->entries[i].figures, " \n"));
    for (size_t i = 1; i < list->n_failures; i++) must(list->failures[i - 1].row <= list->failures[i].row);
}

static void close_whole(struct journal *journal)
{
    char why[1024] = "";
    must(journal_close(journal, why, sizeof why));
}

/* Counts the whole lines of 16 hexadecimal digits, a blank and a name: those of earlier versions, without a size. */
static void lines_look(const struct journal *journal, const uint8_t *data, size_t size)
{
    size_t n_lines = 1, n_older = 0; /* the last line may have lost its end */
    for (const uint8_t *line = data, *end; (end = memchr(line, '\n', size - (size_t)(line - data))); line = end + 1) {
        char digits[17] = "";
        n_lines++;
        bool is_text = !memchr(line, 0, (size_t)(end - line)); /* else the line is damaged, and its row is not done */
        if (!is_text || end - line < 17 || line[16] != ' ') continue;
        memcpy(digits, line, 16);
        n_older += strspn(digits, "0123456789abcdef") == 16;
    }
    size_t n_found = 0;
    for (size_t i = 0; i < journal->done.n; i++) n_found += journal->done.entries[i].is_older;
    must(n_found >= n_older && n_found >= journal->done.n_older && journal->done.n <= n_lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct journal_entry added = {
        .hash = 0xfedcba9876543210u, .bytes = 4711, .states = {1, 0, UINT64_MAX}, .figures = ADDED_FIGURES};
    struct journal journal;
    char why[1024] = "";
    file_put("haloconv-batch.journal", data, size);
    open_again(&journal);
    if (size > 0) lines_look(&journal, data, size);
    must(journal_add(&journal, added, "out.wav", why, sizeof why));
    close_whole(&journal);
    open_again(&journal);
    const struct journal_entry *entry = journal_list_find(&journal.done, "out.wav");
    must(entry && entry->hash == added.hash && entry->bytes == added.bytes);
    must(memcmp(entry->states, added.states, sizeof added.states) == 0 && strcmp(entry->figures, ADDED_FIGURES) == 0);
    close_whole(&journal);
    return 0;
}
