/* The journal of a batch: its lines reach the disk, a failure to synchronise is an error, and a file system without
 * locks keeps nobody from working. */
#include "check.h"
#include "host/batch/journal.h"
#include "host/message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

static int sync_errno, lock_errno, n_syncs;

/* These stand in for libc's: the journal is linked with them. */
int fdatasync(int fd)
{
    n_syncs++;
    errno = sync_errno;
    return sync_errno ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int flock(int fd, int operation)
{
    errno = lock_errno;
    return lock_errno ? -1 : (int)syscall(SYS_flock, fd, operation);
}

static char folder[] = "/tmp/journal_test.XXXXXX";
static char why[MESSAGE_CAP];
static const struct journal_entry done = {.hash = 1, .bytes = 100, .figures = "{}"};

static void begin(struct journal *journal)
{
    strcpy(strrchr(folder, '.'), ".XXXXXX");
    check(mkdtemp(folder), "%s: %s", folder, strerror(errno));
    const struct journal_location place = {.folder = folder, .n_shards = 1};
    check(journal_open(journal, &place, false, false, why, sizeof why), "%s", why);
    n_syncs = 0;
}

static void end(void)
{
    char path[sizeof folder + 32];
    snprintf(path, sizeof path, "%s/haloconv-batch.journal", folder);
    unlink(path);
    rmdir(folder);
    sync_errno = lock_errno = 0;
}

static void lines_are_synchronised_once_a_second_and_at_the_end(const char *backend)
{
    struct journal journal;
    begin(&journal);
    journal.synced += 1e6; /* not for long */
    check(journal_add(&journal, done, "a.wav", why, sizeof why) && n_syncs == 0, "%d: %s", n_syncs, why);
    journal.synced -= 2e6;
    for (int i = 0; i < 2; i++) {
        check(journal_add(&journal, done, "b.wav", why, sizeof why) && n_syncs == 1, "%d: %s", n_syncs, why);
        journal.synced += 1e6;
    }
    check(journal_close(&journal, why, sizeof why) && n_syncs == 2, "%d: %s", n_syncs, why);
    end();
}

static void a_failure_to_synchronise_is_an_error(const char *backend)
{
    static const struct {
        int error;
        bool good;
    } cases[] = {{EIO, false}, {ENOSPC, false}, {EINVAL, true}}; /* EINVAL: the journal is a device */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct journal journal;
        begin(&journal);
        sync_errno = cases[i].error;
        journal.synced -= 1e6;
        bool added = journal_add(&journal, done, "a.wav", why, sizeof why);
        bool closed = journal_close(&journal, why, sizeof why);
        check(added == cases[i].good && closed == cases[i].good, "errno %d: add %d, close %d", sync_errno, added,
              closed);
        end();
    }
}

static void without_locks_of_the_file_system_it_opens(const char *backend)
{
    static const int errors[] = {ENOLCK, ENOSYS, EOPNOTSUPP};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct journal journal;
        lock_errno = errors[i];
        begin(&journal);
        check(journal_close(&journal, why, sizeof why), "%s", why);
        end();
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(lines_are_synchronised_once_a_second_and_at_the_end, false),
        TEST(a_failure_to_synchronise_is_an_error, false),
        TEST(without_locks_of_the_file_system_it_opens, false),
    };
    return check_main("journal", tests, sizeof tests / sizeof *tests);
}
