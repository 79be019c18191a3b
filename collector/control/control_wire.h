/* The protocol between `limpet stop`, `status` or `mark` and a running capture.
 *
 * SOCK_SEQPACKET: a message arrives whole or not at all. Both ends run on the same machine, perhaps
 * from different builds: integers are in native byte order, and a request of another version is
 * answered by the version number alone. Everything received is checked; no length is taken from a
 * message. */
#ifndef LIMPET_COLLECTOR_CONTROL_CONTROL_WIRE_H
#define LIMPET_COLLECTOR_CONTROL_CONTROL_WIRE_H

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "common/mark_name.h"

#define LIMPET_CONTROL_MAGIC 0x4c54434cu /* "LCTL" */
#define LIMPET_CONTROL_VERSION 1u

enum limpet_control_message_type {
	LIMPET_CONTROL_STATUS = 1, /* request: answered by one STATUS */
	LIMPET_CONTROL_STOP,   /* request: answered by STATUS at once and at each change of state,
				  then RESULT */
	LIMPET_CONTROL_RESULT, /* the capture is over: exit status, trace as it was left */
	LIMPET_CONTROL_VERSION_IS, /* answer to another version: only the head is valid */
	LIMPET_CONTROL_MARK, /* a request and an answer of its own: sets a mark. A capture that does
				not know it closes the connection */
	LIMPET_CONTROL_MARKS /* the same: a part of the list of marks */
};

struct limpet_control_request {
	uint32_t magic;
	uint16_t version;
	uint16_t type;
};

struct limpet_control_mark_request {
	struct limpet_control_request head;
	char name[LIMPET_MARK_NAME_ROOM]; /* terminated */
};

struct limpet_control_mark_reply {
	uint32_t magic;
	uint16_t version;
	uint16_t type;
	int32_t result; /* 0 or -errno, see limpet_control_mark() */
	int32_t target_pid;
	uint64_t time_ns; /* of the mark, since the capture's start */
};

struct limpet_control_marks_request {
	struct limpet_control_request head;
	uint32_t first; /* index of the first mark of the answer */
};

#define LIMPET_CONTROL_MARKS_AT_ONCE 50u
struct limpet_control_marks_reply {
	uint32_t magic;
	uint16_t version;
	uint16_t type;
	int32_t target_pid;
	uint32_t total; /* marks in all; the answer has as many of those from `first` on as fit */
	struct limpet_mark marks[LIMPET_CONTROL_MARKS_AT_ONCE]; /* names are terminated */
};

struct limpet_control_reply {
	uint32_t magic;
	uint16_t version;
	uint16_t type;
	uint32_t state;      /* enum limpet_control_state */
	int32_t exit_status; /* of a RESULT: enum limpet_exit */
	int32_t target_pid, collector_pid;
	uint64_t elapsed_ns, duration_ns;
	uint64_t events, dropped_events, live_bytes;
	char command[256];    /* terminated */
	char trace[PATH_MAX]; /* terminated, absolute; "" while there is none */
};

#define LIMPET_CONTROL_NAME_BYTES 24

static inline void limpet_control_format_name(char ret[LIMPET_CONTROL_NAME_BYTES], pid_t pid)
{
	snprintf(ret, LIMPET_CONTROL_NAME_BYTES, "%d.sock", pid);
}

/* Through the directory's descriptor: the directory that was checked is the one that is used, and
 * its path may be longer than sun_path. */
static inline void limpet_control_format_address(struct sockaddr_un *ret, int dir_fd, pid_t pid)
{
	char name[LIMPET_CONTROL_NAME_BYTES];

	limpet_control_format_name(name, pid);
	ret->sun_family = AF_UNIX;
	snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s", dir_fd, name);
}

#endif
