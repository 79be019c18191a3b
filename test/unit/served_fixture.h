/* A file system that a program serves (FUSE), and that need not answer: the files of one directory,
 * read-only. */
#ifndef LIMPET_TEST_SERVED_FIXTURE_H
#define LIMPET_TEST_SERVED_FIXTURE_H

#include <linux/fuse.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SERVED_CALLS 64

/* Shared with the server. */
struct served {
	/* Those that nobody answers: 1 << FUSE_OPEN... */
	volatile uint64_t silent;
	/* And to whom: those with this in their environment. "": to all. */
	char marker[256];
	/* Calls that came. */
	volatile uint32_t came[SERVED_CALLS];
	pid_t server;
};

/* A mount namespace of this process's own: what is mounted goes with it. And one of users, which it
 * takes without root's rights. 0 or -errno. */
int served_unshare(bool users);
/* Shared with children. */
struct served *served_new(void);
void served_free(struct served *served);
/* Mounts what is in `directory` at `point`; the server is a child. 0 or -errno. */
int served_begin(struct served *served, const char *directory, const char *point);
void served_end(struct served *served);

#endif
