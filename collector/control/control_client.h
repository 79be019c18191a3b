/* Finds running captures, reads their status, sets marks in them, stops them.
 *
 * A peer is hostile until its credentials show that it is root, this user or the owner of the
 * directory; its replies are checked in any case. Every function except limpet_control_stop_wait()
 * has a time limit. Any thread. */
#ifndef LIMPET_COLLECTOR_CONTROL_CONTROL_CLIENT_H
#define LIMPET_COLLECTOR_CONTROL_CONTROL_CLIENT_H

#include <limits.h>

#include "collector/control/control.h"

struct limpet_control_capture {
	pid_t pid;
	pid_t collector_pid; /* 0: unknown */
	uid_t owner;         /* of the directory that contains the socket */
	/* UNKNOWN: it exists, but does not reply, or not to this user; then nothing below is known.
	 * DORMANT: the same, and there is no collector. */
	enum limpet_control_state state;
	uint64_t elapsed_ns, duration_ns;
	uint64_t events, dropped_events, live_bytes;
	char command[256];
	char trace[PATH_MAX]; /* "": none yet */
};

/* Lists all visible captures, by pid, and removes sockets of captures that died. *ret_list is
 * malloc'ed; returns their number. */
int limpet_control_list(struct limpet_control_capture **ret_list) LIMPET_MUST_CHECK;

/* A capture is found by its process's number, by which its socket is named, and which somebody
 * typed: whose it is now does not matter.
 *
 * Finds the capture of `pid`; -ENOENT: none is visible. */
int limpet_control_find(pid_t pid, struct limpet_control_capture *ret_capture) LIMPET_MUST_CHECK;

/* Sets a mark in the trace of the capture of `pid`, at its time now: events before this call are
 * before the mark, and those after its return after it. The mark is in the file then. Errors, with
 * a message: those of limpet_control_stop_begin(), -EINVAL (not a name of a mark), -EEXIST (there
 * is such a mark), -E2BIG (too many), -EBUSY (it does not capture yet, or no longer), or that of
 * the trace. */
int limpet_control_mark(pid_t pid, const char *name, uint64_t *ret_time_ns,
			struct limpet_err *err) LIMPET_MUST_CHECK;

/* Lists the marks of the capture of `pid`, by time. *ret_list is malloc'ed; returns their number.
 * -ECONNRESET: it has ended, or is of a version that does not tell them; the errors of
 * limpet_control_stop_begin(), without a message. */
int limpet_control_marks(pid_t pid, struct limpet_mark **ret_list) LIMPET_MUST_CHECK;

struct limpet_control_stop;

/* Asks for the end of a capture. Errors, with a message: -ENOENT (not captured), -EACCES (another
 * user's), -EPROTO (another version, or not limpet)... */
int limpet_control_stop_begin(pid_t pid, struct limpet_control_stop **ret_stop,
			      struct limpet_err *err) LIMPET_MUST_CHECK;

struct limpet_control_result {
	enum limpet_exit exit_status;
	char trace[PATH_MAX]; /* "": none was written */
};
struct limpet_control_watcher {
	/* The capture reported its state. May be NULL. */
	void (*state)(void *context, const struct limpet_control_capture *capture);
	/* No reply came for ten seconds: the capture may be stopped or stuck. May be NULL. */
	void (*silent)(void *context, pid_t collector_pid);
};
/* Waits for the end, however long sealing takes. -ECONNRESET, with a message: the collector
 * died. */
int limpet_control_stop_wait(struct limpet_control_stop *stop,
			     const struct limpet_control_watcher *watcher, void *context,
			     struct limpet_control_result *ret_result,
			     struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_control_stop_free(struct limpet_control_stop *stop);

/* ------------------------------------------------------------------ for control.c */

/* Connects to the socket of `pid` in an open directory; never blocks. Returns a descriptor;
 * -ECONNREFUSED: a leftover file without a listener; -ENOENT: no such file; -EAGAIN: there is a
 * listener, but its backlog is full. */
int limpet_control_connect(int dir_fd, pid_t pid) LIMPET_MUST_CHECK;

/* True if `name` is that of a control socket (PID.sock); the target's pid then goes to *ret_pid. */
bool limpet_control_parse_name(const char *name, pid_t *ret_pid);

#endif
