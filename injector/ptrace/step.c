#include "injector/ptrace/step.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ptrace.h>

static const struct limpet_step_watcher *watching;

void limpet_step_watch(const struct limpet_step_watcher *watcher)
{
	watching = watcher;
}

bool limpet_step_is_watched(void)
{
	return watching;
}

struct limpet_step limpet_step_begin(enum limpet_step_kind kind, pid_t tid, long detail)
{
	const struct limpet_step step = {kind, tid, detail};

	if (watching && watching->begin)
		watching->begin(&step);
	return step;
}

int limpet_step_end(const struct limpet_step *step, int error)
{
	const int kept = errno;

	if (watching && watching->end)
		watching->end(step, error);
	errno = kept;
	return error;
}

void limpet_step_note(pid_t tid, const char *format, ...)
{
	const int kept = errno;
	char words[256];
	va_list args;

	if (!watching || !watching->note)
		return;
	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	watching->note(tid, words);
	errno = kept;
}

void limpet_step_held(bool held)
{
	if (watching && watching->holds)
		watching->holds(held);
}

static const char *name_of_request(long request)
{
	switch (request) {
	case PTRACE_SEIZE:
		return "PTRACE_SEIZE";
	case PTRACE_INTERRUPT:
		return "PTRACE_INTERRUPT";
	case PTRACE_CONT:
		return "PTRACE_CONT";
	case PTRACE_SYSCALL:
		return "PTRACE_SYSCALL";
	case PTRACE_DETACH:
		return "PTRACE_DETACH";
	case PTRACE_GETREGSET:
		return "PTRACE_GETREGSET";
	case PTRACE_SETREGSET:
		return "PTRACE_SETREGSET";
	case PTRACE_GETSIGMASK:
		return "PTRACE_GETSIGMASK";
	case PTRACE_SETSIGMASK:
		return "PTRACE_SETSIGMASK";
	case PTRACE_SETOPTIONS:
		return "PTRACE_SETOPTIONS";
	case PTRACE_GETEVENTMSG:
		return "PTRACE_GETEVENTMSG";
	case PTRACE_PEEKDATA:
		return "PTRACE_PEEKDATA";
	default:
		return "ptrace";
	}
}

const char *limpet_step_name(const struct limpet_step *step)
{
	static const char *const names[] = {
		[LIMPET_STEP_WRITE_WAY_HOME] = "write the frame by which it resumes",
		[LIMPET_STEP_WRITE_END] = "write the frame by which it ends",
		[LIMPET_STEP_OWN_TABLE] = "give it a descriptor table of its own",
		[LIMPET_STEP_WRITE_CALLS] = "write the calls that it makes",
		[LIMPET_STEP_OPEN_FILE] = "open the file that it made",
		[LIMPET_STEP_WRITE_IMAGE] = "write the agent",
		[LIMPET_STEP_WRITE_BOOT] = "write the agent's arguments",
		[LIMPET_STEP_WRITE_AREA] = "write a hook area",
		[LIMPET_STEP_WRITE_JUMP] = "write a jump",
		[LIMPET_STEP_WRITE_CODE_BACK] = "write code back",
		[LIMPET_STEP_WRITE_SLOT] = "write a slot",
		[LIMPET_STEP_WRITE_SLOT_BACK] = "write a slot back",
		[LIMPET_STEP_WAIT] = "wait for its stop",
		[LIMPET_STEP_CALL] = "call",
		[LIMPET_STEP_RUN] = "run the agent",
		[LIMPET_STEP_STOP_ALL] = "stop all threads",
		[LIMPET_STEP_SEARCH] = "search for hook pointers",
		[LIMPET_STEP_PROVE] = "prove that no thread is in the agent",
	};

	return step->kind == LIMPET_STEP_PTRACE ? name_of_request(step->detail) : names[step->kind];
}
