/* What the parts of the sleeper share: sleeper.c talks to the test, the others know the calls. */
#ifndef LIMPET_TEST_TARGETS_SLEEPER_H
#define LIMPET_TEST_TARGETS_SLEEPER_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* One system call, made by number where the C library would take a newer one. `prepare` runs in the
 * common parent, `prepare_sleeper` and `sleep` in the sleeping thread, `release` in the waker. A
 * call that ended as it should answers 5; one that answers -1 with EINTR is made again, and
 * counted. */
struct sleeper_kind {
	const char *name;
	long number; /* the system call by which it sleeps */
	void (*prepare)(void);
	int (*sleep)(void);
	void (*release)(void); /* NULL: time ends it, after sleeper_ms */
	void (*prepare_sleeper)(void);
};

extern const struct sleeper_kind sleeper_io_kinds[], sleeper_time_kinds[], sleeper_ipc_kinds[];

/* For calls that are ended before: as good as for ever, but with a limit. */
#define AN_HOUR_S 3600

/* Shared by the two processes. */
struct sleeper_shared {
	_Atomic int result; /* of the call; SLEEPER_NONE before it ended */
	_Atomic int error;
	_Atomic int interruptions;
	_Atomic uint64_t slept_ns;
	_Atomic uint64_t slept_ticks_ns; /* the same in ticks */
	_Atomic uint64_t ended_ns;       /* when, by `clock` */
	uint64_t due_ns;                 /* of an absolute time, by `clock`; 0: it is relative */
	clockid_t clock;
	struct timespec limit;     /* to which the kernel writes back what is left */
	_Atomic uint64_t delay_ns; /* in which it waited for a processor meanwhile */
	_Atomic int tid;
	_Atomic uint32_t word;
	_Atomic bool go_on;
	pthread_mutex_t mutex;
	pthread_cond_t condition;
	sem_t semaphore;
};
enum { SLEEPER_NONE = INT32_MIN };
extern struct sleeper_shared *sleeper_shared;
extern pid_t sleeper_pid;
extern unsigned sleeper_ms;
extern int sleeper_ends[2];    /* pipe: 0 is the sleeper's */
extern int sleeper_sockets[2]; /* pair: 0 is the sleeper's */
extern char sleeper_data[1 << 16];

void sleeper_must(bool good, const char *what);
/* Not on this machine: the reason is told to the test, and this is no failure. */
void sleeper_impossible(const char *why) __attribute__((noreturn));
void sleeper_make_pipe(void);
void sleeper_make_sockets(void);
void sleeper_send_hello(void);
void sleeper_signal(void);
void sleeper_catch_signal(void);
void sleeper_block_signal(void);
struct timespec sleeper_time(void);           /* sleeper_ms */
struct timespec sleeper_due(clockid_t clock); /* after sleeper_ms */
void sleeper_ipc_clean_up(void);
void sleeper_io_clean_up(void);

#endif
