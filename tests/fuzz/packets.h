/* packets - a socket that plays the other end of OSC. */
#ifndef PACKETS_H
#define PACKETS_H

#include <netinet/in.h>
#include <stddef.h>

/* A new socket on the loopback interface, and its address. */
int packets_open(struct sockaddr_in *ours);

/* Sends a packet, and waits until fd_there has it. Packets that arrived here are dropped. */
void packets_send(int fd, int fd_there, const void *bytes, size_t n);

/* Encodes a message of strings in packet[cap]; returns its bytes. texts ends with NULL. */
size_t packet_make(char *packet, size_t cap, const char *path, const char *const *texts);

#endif
