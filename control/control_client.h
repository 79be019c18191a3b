/* Finding running captures, asking how they are, stopping them.
 *
 * What answers on a socket is hostile until it has proved to be root, ourselves or the owner of the
 * directory; its answers are checked all the same. Every function has a time limit but
 * limpet_control_stop_wait(). Any thread. */
#ifndef LIMPET_CONTROL_CONTROL_CLIENT_H
#define LIMPET_CONTROL_CONTROL_CLIENT_H

#include <limits.h>

#include "control/control.h"

struct limpet_control_capture {
	pid_t pid;
	pid_t collector_pid; /* 0: unknown */
	uid_t owner;         /* whose directory the socket is in */
	/* UNKNOWN: there, but it does not answer, or not to us; then nothing below is known.
	 * DORMANT: likewise, and there is no collector. */
	enum limpet_control_state state;
	uint64_t elapsed_ns, duration_ns;
	uint64_t events, dropped_events, live_bytes;
	char command[256];
	char trace[PATH_MAX]; /* "": none yet */
};

/* All captures that we can see, by pid; sockets of captures that died are removed on the way.
 * *ret_list is malloc'ed; answers their number. */
int limpet_control_list(struct limpet_control_capture **ret_list) LIMPET_MUST_CHECK;

/* The capture of `pid`; -ENOENT: there is none that we can see. */
int limpet_control_find(pid_t pid, struct limpet_control_capture *ret_capture) LIMPET_MUST_CHECK;

struct limpet_control_stop;

/* Asks for the end of a capture. Errors, with words: -ENOENT (not captured), -EACCES (another
 * user's), -EPROTO (another version, or no limpet)... */
int limpet_control_stop_begin(pid_t pid, struct limpet_control_stop **ret_stop,
			      struct limpet_err *err) LIMPET_MUST_CHECK;

struct limpet_control_result {
	enum limpet_exit exit_status;
	char trace[PATH_MAX]; /* "": none was written */
};
struct limpet_control_watcher {
	/* The capture said where it is. May be NULL. */
	void (*state)(void *context, const struct limpet_control_capture *capture);
	/* Nothing was heard for ten seconds after asking: it may be stopped or stuck. May be NULL.
	 */
	void (*silent)(void *context, pid_t collector_pid);
};
/* Waits for the end, however long sealing takes. -ECONNRESET, with words: the collector died. */
int limpet_control_stop_wait(struct limpet_control_stop *stop,
			     const struct limpet_control_watcher *watcher, void *context,
			     struct limpet_control_result *ret_result,
			     struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_control_stop_free(struct limpet_control_stop *stop);

/* ------------------------------------------------------------------ for control.c */

/* Connects to the socket of `pid` in an open directory; never blocks. Answers a descriptor;
 * -ECONNREFUSED: nobody listens, the file was left behind; -ENOENT: no such file; -EAGAIN: somebody
 * listens, but too many are waiting already. */
int limpet_control_connect(int dir_fd, pid_t pid) LIMPET_MUST_CHECK;

/* True if `name` is that of a control socket (PID.sock); the target's pid then goes to *ret_pid. */
bool limpet_control_parse_name(const char *name, pid_t *ret_pid);

#endif
