/* team - threads that share out numbered pieces of work. Who does which piece is chance; what a piece does must not
 * depend on it, and then the result is the same for any number of threads. Not for the audio thread: it locks. */
#ifndef HALOCONV_TEAM_H
#define HALOCONV_TEAM_H

struct team;

/* n_threads: the caller of team_run counts as one; 0 = as many as this process may use processors. Fewer than asked for
 * when the system gives no more. NULL: no memory. */
struct team *team_open(int n_threads);
void team_close(struct team *team);
int team_size(const struct team *team);

/* Do piece(data, i, thread) for i in [0, n), thread in [0, team_size), and return when all are done. Callers take
 * turns. */
void team_run(struct team *team, void (*piece)(void *data, int i, int thread), void *data, int n);

#endif
