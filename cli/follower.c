#include "cli/follower.h"

#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "cli/ui.h"

#define WORDS_BYTES 512 /* of its stderr */

int limpet_follower_lifeline(void)
{
	/* This limpet was started through /proc/self/exe, and would be shown as "exe". */
	prctl(PR_SET_NAME, "limpet");
	/* No process that this limpet starts may hold its permit. */
	fcntl(LIMPET_FOLLOWER_LIFELINE_FD, F_SETFD, FD_CLOEXEC);
	fcntl(LIMPET_FOLLOWER_PERMIT_FD, F_SETFD, FD_CLOEXEC);
	return LIMPET_FOLLOWER_LIFELINE_FD;
}

/* ------------------------------------------------------------------ start */

/* Not by fork: no other process may have what limpet holds of the captured process, not even for a
 * moment. */
static int spawn(char **argv, const int *fds, pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	int error;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setpgroup(&attributes, 0);
	posix_spawnattr_setsigmask(&attributes, &none);
	error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	for (int i = 0; i < 4 && !error; i++)
		error = posix_spawn_file_actions_adddup2(&actions, fds[i], STDOUT_FILENO + i);
	if (!error)
		error = posix_spawn(ret, "/proc/self/exe", &actions, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return -error;
}

/* Moves a descriptor above the numbers that spawn assigns. */
static int move_up(int fd)
{
	LIMPET_CLOSE int low = fd;
	int moved;

	if (low < 0)
		return low;
	moved = fcntl(low, F_DUPFD_CLOEXEC, LIMPET_FOLLOWER_FREE_FD);
	return moved < 0 ? limpet_errno() : moved;
}

static int memory_file(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	return fd < 0 ? limpet_errno() : move_up(fd);
}

static int start(struct limpet_follower *follower, const struct limpet_capture_options *options,
		 int permit)
{
	struct limpet_capture_words words;
	int lifeline[2] = {-1, -1}, error = pipe2(lifeline, O_CLOEXEC) < 0 ? limpet_errno() : 0;
	LIMPET_CLOSE int read_end = move_up(lifeline[0]);
	const int fds[] = {memory_file("limpet out"), memory_file("limpet err"), read_end, permit};

	follower->out = fds[0];
	follower->err = fds[1];
	follower->lifeline = lifeline[1];
	for (size_t i = 0; i < LIMPET_COUNT_OF(fds) && !error; i++)
		if (fds[i] < 0)
			error = fds[i];
	if (error)
		return error;
	limpet_capture_options_write(options, &follower->fork, follower->trace, &words);
	error = words.failed ? -ENOMEM : spawn(words.list, fds, &follower->limpet);
	limpet_capture_words_done(&words);
	return error;
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int limpet_follower_start(const struct limpet_capture_options *options,
			  const struct limpet_fork *fork, char *trace, int permit,
			  struct limpet_follower *ret)
{
	struct limpet_follower follower = {.fork = *fork, .trace = trace};
	LIMPET_CLOSE int moved = move_up(permit);
	int error = start(&follower, options, moved);

	if (error) {
		close_one(&follower.out);
		close_one(&follower.err);
		close_one(&follower.lifeline);
		free(trace);
		return error;
	}
	*ret = follower;
	return 0;
}

/* ------------------------------------------------------------------ end */

void limpet_follower_release(struct limpet_follower *follower)
{
	close_one(&follower->lifeline);
}

static void read_words(int fd, char *ret, size_t bytes)
{
	ssize_t got = pread(fd, ret, bytes - 1, 0);

	ret[got > 0 ? got : 0] = '\0';
}

bool limpet_follower_has_ended(struct limpet_follower *follower)
{
	char text[PATH_MAX];
	int status;

	if (waitpid(follower->limpet, &status, WNOHANG) != follower->limpet)
		return false;
	follower->limpet = 0;
	follower->status = WIFEXITED(status) ? WEXITSTATUS(status) : LIMPET_EXIT_FAILED;
	/* It prints the path at its end; a limpet that was killed has left the trace that it had
	 * begun. */
	read_words(follower->out, text, sizeof(text));
	if (!*text && (!WIFSIGNALED(status) || access(follower->trace, F_OK) < 0)) {
		free(follower->trace);
		follower->trace = NULL;
		read_words(follower->err, text, WORDS_BYTES);
		text[strcspn(text, "\n")] = '\0';
		follower->words = strdup(text);
	}
	close_one(&follower->lifeline);
	close_one(&follower->out);
	close_one(&follower->err);
	return true;
}

bool limpet_follower_came_late(const struct limpet_follower *follower)
{
	return !follower->trace && !limpet_fork_runs_on(&follower->fork);
}

bool limpet_follower_is_well(const struct limpet_follower *follower)
{
	return follower->trace && follower->status != LIMPET_EXIT_DORMANT &&
	       follower->status != LIMPET_EXIT_INCOMPLETE;
}

void limpet_follower_print(const struct limpet_follower *follower)
{
	const char *words = follower->words && *follower->words ? follower->words : "it failed";

	if (!follower->trace) {
		if (!strncmp(words, "limpet: ", 8))
			words += 8;
		limpet_ui_warn("child %d was not captured: %s", follower->fork.pid, words);
	} else if (follower->status == LIMPET_EXIT_DORMANT) {
		limpet_ui_warn("child %d: %s; the agent stays in it, switched off: `limpet stop "
			       "%d` tries again",
			       follower->fork.pid, follower->trace, follower->fork.pid);
	} else if (follower->status == LIMPET_EXIT_INCOMPLETE) {
		limpet_ui_warn("child %d: %s, which is not complete", follower->fork.pid,
			       follower->trace);
	} else {
		limpet_ui_note("child %d: %s", follower->fork.pid, follower->trace);
	}
}

void limpet_follower_done(struct limpet_follower *follower)
{
	limpet_follower_release(follower);
	free(follower->trace);
	free(follower->words);
}
