/* Steps: what limpet does in a process, one after the other. One watcher is told of them: --debug
 * prints them, and a test ends limpet at each.
 *
 * Called by the thread that traces, and not by handlers of signals. Without a watcher they cost a
 * comparison. */
#ifndef LIMPET_INJECTOR_PTRACE_STEP_H
#define LIMPET_INJECTOR_PTRACE_STEP_H

#include <stdbool.h>
#include <sys/types.h>

enum limpet_step_kind {
	/* These change something: if limpet dies at one, or at a call of ptrace(2), the next
	 * limpet has to know what to do. */
	LIMPET_STEP_PTRACE, /* detail: the request */
	LIMPET_STEP_WRITE_WAY_HOME,
	LIMPET_STEP_WRITE_END,
	LIMPET_STEP_OWN_TABLE,
	LIMPET_STEP_WRITE_CALLS,
	LIMPET_STEP_OPEN_FILE,
	LIMPET_STEP_WRITE_IMAGE,
	LIMPET_STEP_WRITE_BOOT,
	LIMPET_STEP_WRITE_AREA,
	LIMPET_STEP_WRITE_JUMP,
	LIMPET_STEP_WRITE_CODE_BACK,
	LIMPET_STEP_WRITE_SLOT,
	LIMPET_STEP_WRITE_SLOT_BACK,
	LIMPET_STEP_LAST_CHANGE = LIMPET_STEP_WRITE_SLOT_BACK,
	/* These consist of others, or only look. */
	LIMPET_STEP_WAIT,     /* for a thread to stop */
	LIMPET_STEP_CALL,     /* a system call by the hijacked thread; detail: its number */
	LIMPET_STEP_RUN,      /* the hijacked thread runs the agent's code */
	LIMPET_STEP_STOP_ALL, /* until all threads stand */
	LIMPET_STEP_SEARCH,   /* for hook pointers */
	LIMPET_STEP_PROVE,    /* that no thread is in the agent */
};

struct limpet_step {
	enum limpet_step_kind kind;
	pid_t tid; /* 0: of no thread */
	long detail;
};

struct limpet_step_watcher {
	void (*begin)(const struct limpet_step *step);
	/* The last that began and has not ended. `error`: 0 or -errno. */
	void (*end)(const struct limpet_step *step, int error);
	/* What was found, or decided: one line. */
	void (*note)(pid_t tid, const char *words);
	/* Whether any thread is held, from here on. From a handler of signals, too. */
	void (*holds)(bool held);
};
/* Members may be NULL. NULL: nobody watches. Valid as long as it watches. There is one for the
 * process, as there is one standard error. */
void limpet_step_watch(const struct limpet_step_watcher *watcher);
bool limpet_step_is_watched(void);

struct limpet_step limpet_step_begin(enum limpet_step_kind kind, pid_t tid, long detail);
/* Returns `error`, and leaves errno alone. */
int limpet_step_end(const struct limpet_step *step, int error);
__attribute__((format(printf, 2, 3))) void limpet_step_note(pid_t tid, const char *format, ...);
void limpet_step_held(bool held);

/* Such as "PTRACE_SEIZE", or "write a slot"; of LIMPET_STEP_CALL "call". */
const char *limpet_step_name(const struct limpet_step *step);

#endif
