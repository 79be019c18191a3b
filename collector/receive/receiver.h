/* `limpet collect`: receives streamed traces at a socket, and writes each into a file of its own.
 *
 * One thread and one loop: each stream that has something gets a turn of at most
 * LIMPET_RECEIVER_TURN_BYTES, so that none starves the others, and has one block in memory at most.
 * A block is written when it is whole and checked: a file has whole blocks only. It answers
 * `limpet status` and `limpet stop`, under this process's number. Never prints. */
#ifndef LIMPET_COLLECTOR_RECEIVE_RECEIVER_H
#define LIMPET_COLLECTOR_RECEIVE_RECEIVER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

#define LIMPET_RECEIVER_TURN_BYTES (256u << 10)
/* At once. More have to wait for one that ends. */
#define LIMPET_RECEIVER_STREAMS_MAX 1000u
/* Of all streams together, in blocks that are not whole yet: then the stream that has most of it is
 * ended. */
#define LIMPET_RECEIVER_MEMORY_BYTES (512ull << 20)

struct limpet_receiver_ended {
	const char *name; /* of its file; NULL: there is none */
	uint64_t bytes;
	const char *why; /* it was ended by this side, in words; NULL: by the sender */
	bool whole;      /* with an END */
	pid_t pid;       /* who sent it: as of its connection */
	uid_t uid;
};

struct limpet_receiver_options {
	const char *socket, *directory;
	uint64_t keep_bytes; /* of the traces in the directory */
	const volatile sig_atomic_t *interrupted;
	const sigset_t *wait_mask;
	/* From the loop. */
	void (*listening)(void *context);
	void (*began)(void *context, const char *name);
	void (*ended)(void *context, const struct limpet_receiver_ended *ended);
	void (*refused)(void *context, pid_t pid, uid_t uid);
	void (*removed)(void *context, const char *name);
	void *context;
};

/* Until it is interrupted, or asked to stop: then it takes what has arrived, and ends all streams.
 * 0, or -errno with a message. */
int limpet_receiver_run(const struct limpet_receiver_options *options,
			struct limpet_err *err) LIMPET_MUST_CHECK;

#endif
