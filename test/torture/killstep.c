/* killstep [--repeat N] [--stride N] PID: attaches to a process and detaches, and is killed by
 * SIGKILL at a step (ptrace call, remote call or write): at every one, or every Nth, N times each.
 * After every kill what is left is cleaned up as the next attach would, and the target must be as
 * before: alive, untraced, its descriptors the same, nothing of ours mapped. Says each step that
 * fails that, and in the end the figures, as JSON. Ends with 1 if any step failed. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "injector/proc/proc.h"
#include "injector/ptrace/step.h"
#include "injector/ptrace/tracer.h"
#include "injector/session/session.h"
#include "test/unit/target_of.h"

#define TIMEOUT_NS 600000000000u

enum { DONE = 0, CANNOT_ATTACH = 3, CANNOT_DETACH = 4 };

/* Shared with the child that is killed. */
static struct {
	unsigned long last_step, step;
	char name[64];
	int removed; /* by the clean-up */
	char words[256];
} * shared;

static pid_t target;
static enum limpet_method load;

static void count_step(const struct limpet_step *step)
{
	if (step->kind > LIMPET_STEP_LAST_CHANGE)
		return;
	snprintf(shared->name, sizeof(shared->name), "%s", limpet_step_name(step));
	if (++shared->step == shared->last_step)
		kill(getpid(), SIGKILL);
}

static int enter_and_leave(void)
{
	static const struct limpet_step_watcher watcher = {.begin = count_step};
	const struct limpet_capture_config options = {
		.agent_memory_bytes = 64u << 20, .attach_timeout_ns = TIMEOUT_NS, .load = load};
	const struct timespec hold = {0, 1000000};
	struct limpet_tracer *tracer;
	struct limpet_target process;
	struct limpet_session *session;
	struct limpet_err err = {0};
	int error;

	limpet_step_watch(&watcher);
	error = limpet_tracer_new(&tracer);
	if (!error)
		error = limpet_target_open(target, &process, &err);
	if (!error)
		error = limpet_session_prepare(tracer, &process, &options, NULL, &session, &err);
	if (!error)
		error = limpet_session_attach(session, NULL, &err);
	if (error) {
		snprintf(shared->words, sizeof(shared->words), "attach: %.200s (%d)", err.message,
			 error);
		return CANNOT_ATTACH;
	}
	nanosleep(&hold, NULL);
	error = limpet_session_detach(session, &err);
	limpet_session_free(session);
	limpet_target_close(&process);
	if (error) {
		snprintf(shared->words, sizeof(shared->words), "detach: %.200s (%d)", err.message,
			 error);
		return CANNOT_DETACH;
	}
	return DONE;
}

static int clean_up(void)
{
	struct limpet_target process;
	struct limpet_err err = {0};
	struct limpet_tracer *tracer;

	shared->removed = limpet_target_open(target, &process, &err);
	if (!shared->removed)
		shared->removed = limpet_tracer_new(&tracer);
	if (!shared->removed)
		shared->removed = limpet_session_cleanup(tracer, &process, TIMEOUT_NS, false, &err);
	limpet_target_close(&process);
	if (shared->removed < 0)
		snprintf(shared->words, sizeof(shared->words), "clean-up: %.200s (%d)", err.message,
			 shared->removed);
	return shared->removed < 0;
}

/* In a process of its own, which a kill or a crash ends alone. Answers as waitpid. */
static int run(int (*what)(void))
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(what());
	if (child < 0 || waitpid(child, &status, 0) != child) {
		perror("killstep");
		exit(2);
	}
	return status;
}

static bool is_traced(void)
{
	pid_t *tids;
	int count = limpet_proc_tasks(target, &tids);
	bool traced = false;

	for (int i = 0; i < count && !traced; i++) {
		struct limpet_proc_status status;

		traced = limpet_proc_status_read(tids[i], &status) == 0 && status.tracer;
	}
	if (count >= 0)
		free(tids);
	return traced;
}

static bool is_mapped(void)
{
	struct limpet_maps maps;
	bool found = false;

	if (limpet_proc_maps_read(target, &maps) < 0)
		return true;
	for (size_t i = 0; i < maps.count && !found; i++)
		found = strstr(maps.list[i].path, "memfd:limpet") != NULL;
	limpet_proc_maps_done(&maps);
	return found;
}

/* As it is when nothing of the program's own comes or goes. */
static int stable_fds(int **ret_fds)
{
	const struct timespec pause = {0, 20000000};
	int *before = NULL, *now = NULL;
	int before_count = limpet_proc_fds(target_of(target), &before), count = -1;

	for (int i = 0; i < 50; i++) {
		nanosleep(&pause, NULL);
		count = limpet_proc_fds(target_of(target), &now);
		if (count < 0 ||
		    (count == before_count && !memcmp(now, before, (size_t)count * sizeof(*now))))
			break;
		free(before);
		before = now;
		before_count = count;
		now = NULL;
	}
	free(before);
	*ret_fds = now;
	return count;
}

static void list_fds(const char *when, const int *fds, int count)
{
	fprintf(stderr, "%s:", when);
	for (int i = 0; i < count; i++) {
		char name[64], path[128];
		ssize_t bytes;

		snprintf(name, sizeof(name), "/proc/%d/fd/%d", target, fds[i]);
		bytes = readlink(name, path, sizeof(path) - 1);
		path[bytes < 0 ? 0 : bytes] = '\0';
		fprintf(stderr, " %d %s;", fds[i], path);
	}
	fprintf(stderr, "\n");
}

static const char *what_is_wrong(const int *fds, int fd_count)
{
	struct limpet_proc_status status;
	int *now = NULL, count;
	const char *wrong = NULL;

	if (limpet_proc_status_read(target, &status) < 0 || status.state == 'Z')
		return "the target died";
	if (is_traced())
		return "a thread is traced";
	if (is_mapped())
		return "something of ours is mapped";
	count = limpet_proc_fds(target_of(target), &now);
	if (count != fd_count || memcmp(now, fds, (size_t)count * sizeof(*now)) != 0) {
		wrong = "its descriptors are not the same";
		list_fds("before", fds, fd_count);
		list_fds("now", now, count);
	}
	free(now);
	return wrong;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"repeat", required_argument, NULL, 'r'},
						{"stride", required_argument, NULL, 's'},
						{"load", required_argument, NULL, 'l'},
						{NULL, 0, NULL, 0}};
	unsigned long repeat = 1, stride = 1, steps, kills = 0, bad = 0, repaired = 0;
	int option, status, fd_count;
	int *fds;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0)
		if (option == 'l')
			load = strcmp(optarg, "map") ? LIMPET_METHOD_DLOPEN : LIMPET_METHOD_OUTSIDE;
		else
			*(option == 'r' ? &repeat : &stride) = strtoul(optarg, NULL, 10);
	target = optind + 1 == argc ? (pid_t)strtol(argv[optind], NULL, 10) : 0;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (target <= 0 || !repeat || !stride || shared == MAP_FAILED) {
		fprintf(stderr,
			"usage: killstep [--repeat N] [--stride N] [--load dlopen|map] PID\n");
		return 2;
	}
	fd_count = stable_fds(&fds);
	status = run(enter_and_leave);
	if (fd_count < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != DONE) {
		fprintf(stderr, "killstep: %s\n", shared->words);
		return 2;
	}
	steps = shared->step;
	for (unsigned long i = 0; i < steps * repeat; i += stride) {
		const char *wrong = NULL;

		shared->last_step = i % steps + 1;
		shared->step = 0;
		shared->words[0] = '\0';
		status = run(enter_and_leave);
		kills += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
		/* That many steps do not come in every run: then it was an ordinary one. */
		if (!WIFSIGNALED(status) && (!WIFEXITED(status) || WEXITSTATUS(status) != DONE))
			wrong = shared->words;
		else if (run(clean_up))
			wrong = shared->words;
		if (!wrong)
			wrong = what_is_wrong(fds, fd_count);
		repaired += shared->removed > 0;
		if (!wrong)
			continue;
		bad++;
		fprintf(stderr, "killed at step %lu of %lu (%s): %s\n", shared->last_step, steps,
			shared->name, wrong);
		if (kill(target, 0) < 0)
			break;
	}
	printf("{\"steps\":%lu,\"kills\":%lu,\"repaired\":%lu,\"bad\":%lu}\n", steps, kills,
	       repaired, bad);
	free(fds);
	return bad != 0;
}
