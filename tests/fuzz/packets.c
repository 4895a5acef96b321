#include "packets.h"

#include "fuzz.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

enum { PATIENCE_MS = 60000 };

int packets_open(struct sockaddr_in *ours)
{
    socklen_t size = sizeof *ours;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    *ours = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    must(fd >= 0 && bind(fd, (struct sockaddr *)ours, size) == 0);
    must(getsockname(fd, (struct sockaddr *)ours, &size) == 0);
    return fd;
}

void packets_send(int fd, int fd_there, const void *bytes, size_t n)
{
    struct sockaddr_in there;
    socklen_t size = sizeof there;
    char dropped[16];
    while (recv(fd, dropped, sizeof dropped, MSG_DONTWAIT) >= 0) continue;
    must(getsockname(fd_there, (struct sockaddr *)&there, &size) == 0);
    must(sendto(fd, bytes, n, 0, (struct sockaddr *)&there, size) == (ssize_t)n);
    must(poll(&(struct pollfd){.fd = fd_there, .events = POLLIN}, 1, PATIENCE_MS) == 1);
}

/* Appends a text, its 0, and zeros up to a multiple of 4 bytes. */
static void text_add(char *packet, size_t cap, size_t *used, const char *text)
{
    size_t n = strlen(text), padded = (n / 4 + 1) * 4;
    must(*used + padded <= cap);
    memset(packet + *used, 0, padded);
    memcpy(packet + *used, text, n);
    *used += padded;
}

size_t packet_make(char *packet, size_t cap, const char *path, const char *const *texts)
{
    char tags[16] = ",";
    size_t used = 0;
    for (int i = 0; texts[i]; i++) strcat(tags, "s");
    text_add(packet, cap, &used, path);
    text_add(packet, cap, &used, tags);
    for (int i = 0; texts[i]; i++) text_add(packet, cap, &used, texts[i]);
    return used;
}
