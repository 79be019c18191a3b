/* The control socket of a running capture: through it any terminal can ask for the status, set a
 * mark, or stop the capture.
 *
 * Made for the collector's own loop: one descriptor to poll, no blocking calls, one thread. A
 * client that does not read its replies is dropped. Only root and the same user get replies. The
 * client's side is control_client.h. */
#ifndef LIMPET_COLLECTOR_CONTROL_CONTROL_H
#define LIMPET_COLLECTOR_CONTROL_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/mark_name.h"

enum limpet_control_state {
	LIMPET_CONTROL_UNKNOWN = 0, /* the collector does not answer */
	LIMPET_CONTROL_ATTACHING,
	LIMPET_CONTROL_CAPTURING,
	LIMPET_CONTROL_DETACHING,
	LIMPET_CONTROL_SEALING,
	LIMPET_CONTROL_DORMANT,   /* no collector: an agent was left in the target */
	LIMPET_CONTROL_RECEIVING, /* no capture: `limpet collect`, whose trace is its directory */
	LIMPET_CONTROL_STATES
};
/* "attaching"...; NULL for UNKNOWN and anything out of range. Static text. */
const char *limpet_control_state_name(enum limpet_control_state state);

struct limpet_control_status {
	enum limpet_control_state state;
	const char *command; /* name of the target; NULL: unknown */
	const char *trace; /* path, may be relative to the directory at limpet_control_open(); NULL:
			      none */
	uint64_t elapsed_ns, duration_ns; /* duration 0: no limit */
	uint64_t events, dropped_events, live_bytes;
};

struct limpet_control_handlers {
	/* Fills in what is known now; *ret_status is zeroed before. Must not block. */
	void (*status)(void *context, struct limpet_control_status *ret_status);
	/* A client asked for the end of the capture; called once. Must not block: note it, and
	 * detach in the main loop. */
	void (*stop)(void *context);
	/* A client sets a mark here and now; `name` is a valid name. 0, or -errno as of
	 * limpet_control_mark(). */
	int (*mark)(void *context, const char *name, uint64_t *ret_time_ns);
	/* The marks that were set, by time. Borrowed until the next call. */
	size_t (*marks)(void *context, const struct limpet_mark **ret_list);
};

struct limpet_control;

/* Opens the socket of the capture of `pid`, by which it is named. -EEXIST: already captured (the
 * message says by whom). Any other error means that this capture could not be stopped from another
 * terminal. `handlers` must outlive the control; its calls come from limpet_control_dispatch() and
 * limpet_control_announce(). */
int limpet_control_open(pid_t pid, const struct limpet_control_handlers *handlers, void *context,
			struct limpet_control **ret_control,
			struct limpet_err *err) LIMPET_MUST_CHECK;

/* For poll() or epoll: readable when limpet_control_dispatch() has something to do. */
int limpet_control_fd(const struct limpet_control *control);
/* Does what is due, at most a few dozen system calls, and returns. */
void limpet_control_dispatch(struct limpet_control *control);

/* The state has changed (attaching -> capturing -> detaching -> sealing): tells waiting clients. */
void limpet_control_announce(struct limpet_control *control);

/* The capture is over and its trace is final: removes the socket, tells all connected clients the
 * exit status and the trace's path, and closes. Call before the process exits. */
void limpet_control_finish(struct limpet_control *control, enum limpet_exit exit_status);

/* Removes the socket, if limpet_control_finish() has not; waiting clients learn that the capture
 * ended without a result. NULL is fine. */
void limpet_control_free(struct limpet_control *control);

#endif
