/* Bounds of a panel's uploads, and the names under which its page is reached. test_panel.py has the rest. */
#include "check.h"
#include "host/message.h"
#include "host/panel/panel_address.h"
#include "host/panel/panel_server.h"
#include "host/panel/panel_upload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_UPLOADS = 100 };

static char why[MESSAGE_CAP];
static struct panel_folder folder;
static struct panel_upload uploads[MAX_UPLOADS];

/* Begins uploads until one is refused: its status. Nothing has come of them yet. */
static int begin_uploads(bool is_limited_in_rate, int64_t bytes, int *n)
{
    char name[32];
    int status = 0;
    for (*n = 0; !status && *n < MAX_UPLOADS; *n += !status) {
        snprintf(name, sizeof name, "%d.wav", *n);
        if (!is_limited_in_rate) folder.begins.credit = 1;
        status = panel_upload_begin(&folder, &uploads[*n], name, bytes, why, sizeof why);
    }
    return status;
}

static void uploads_are_bounded_in_total_and_in_rate(const char *backend)
{
    char path[] = "/tmp/hc_panel_XXXXXX";
    int n, status;
    check(mkdtemp(path) && panel_folder_open(&folder, path, true, why, sizeof why), "%s", why);
    status = begin_uploads(true, 1, &n);
    check(status == 429 && n == PANEL_UPLOADS, "%d uploads at once, then %d %s", n, status, why);
    folder.begins.since_s -= PANEL_UPLOAD_S; /* so much later */
    status = panel_upload_begin(&folder, &uploads[n], "later.wav", 1, why, sizeof why);
    check(status == 0, "an upload after %d s: %d %s", PANEL_UPLOAD_S, status, why);
    for (int i = 0; i <= n; i++) panel_upload_end(&folder, &uploads[i]);

    status = begin_uploads(false, PANEL_MAX_BODY, &n);
    check(status == 507 && folder.bytes <= PANEL_UPLOAD_ALL, "%d uploads of %lld bytes, then %d %s", n,
          (long long)folder.bytes, status, why);
    if (n > 0) {
        panel_upload_end(&folder, &uploads[0]);
        status = panel_upload_begin(&folder, &uploads[0], "again.wav", PANEL_MAX_BODY, why, sizeof why);
        check(status == 0, "the room of an upload that has ended is not free: %d %s", status, why);
    }
    for (int i = 0; i < n; i++) panel_upload_end(&folder, &uploads[i]);
    check(folder.bytes == 0, "%lld bytes are counted", (long long)folder.bytes);
    panel_folder_close(&folder);
}

static void a_page_is_reached_by_names_that_cannot_be_rebound(const char *backend)
{
    static const struct {
        const char *where, *machine, *host;
        bool is_allowed;
    } cases[] = {{"0.0.0.0:80", "studio", "studio", true},
                 {"0.0.0.0:80", "studio", "Studio.local", true},
                 {"0.0.0.0:80", "studio", "10.0.0.7", true},
                 {"0.0.0.0:80", "studio", "localhost", true},
                 {"0.0.0.0:80", "studio", "studio2", false},
                 {"0.0.0.0:80", "studio", "studio2.local", false},
                 {"0.0.0.0:80", "studio", "studio.local.evil.example", false},
                 {"0.0.0.0:80", "studio", "studio.evil.example", false},
                 {"0.0.0.0:80", "studio", "evil.example", false},
                 {"0.0.0.0:80", "studio", "stu", false},
                 {"0.0.0.0:80", "Studio.example.org", "studio", true},
                 {"0.0.0.0:80", "Studio.example.org", "studio.local", true},
                 {"0.0.0.0:80", "Studio.example.org", "studio.example.org", true},
                 {"0.0.0.0:80", "Studio.example.org", "studio.evil.example", false},
                 {"0.0.0.0:80", "", ".local", false},
                 {"80", "studio", "localhost", true},
                 {"80", "studio", "127.0.0.1", true},
                 {"80", "studio", "studio", false},
                 {"80", "studio", "studio.local", false},
                 {"80", "studio", "10.0.0.7", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct panel_address address;
        check(panel_address_read(&address, cases[i].where, why, sizeof why), "%s", why);
        strcpy(address.machine, cases[i].machine);
        bool is_allowed = panel_address_allows(&address, cases[i].host, "");
        check(is_allowed == cases[i].is_allowed, "--panel %s on \"%s\", Host: %s", cases[i].where, cases[i].machine,
              cases[i].host);
    }
}

int main(void)
{
    static const struct test tests[] = {TEST(uploads_are_bounded_in_total_and_in_rate, false),
                                        TEST(a_page_is_reached_by_names_that_cannot_be_rebound, false)};
    return check_main("panel", tests, sizeof tests / sizeof *tests);
}
