#include "cli/followers.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cli/ui.h"
#include "injector/proc/descendants.h"
#include "injector/proc/proc.h"
#include "injector/remote/own_objects.h"

/* What a limpet that we start finds its descriptors under. */
enum { LEASH_FD = 3, SEAT_FD = 4, FIRST_FREE_FD = 10 };
#define NAMES_MAX 1000 /* tried for a trace */
#define EARLIER_NAMED 8
#define SAID_MAX 20u    /* children named one by one */
#define WORDS_BYTES 512 /* of what it said on stderr */

struct follower {
	struct limpet_fork fork;
	pid_t limpet; /* 0: ended */
	int lifeline; /* -1: let go */
	int out, err; /* memory files: what it says */
	int status;   /* of exit(3) */
	char *trace;  /* once it has ended, NULL: none was written */
	char *words;  /* why not */
};

struct limpet_followers {
	const struct limpet_capture_options *options;
	pid_t pid;
	int seats; /* a file with a byte for each */
	char *trace;
	struct follower *list; /* those that run first */
	size_t running, count, room;
	uint64_t failed; /* could not be started */
	int failure;
	uint64_t lost; /* the child ended or became another program before it was captured */
};

int limpet_followers_lifeline(void)
{
	/* It was started by way of /proc/self/exe, and would be known as "exe". */
	prctl(PR_SET_NAME, "limpet");
	/* Nobody that we start holds our permit. */
	fcntl(LEASH_FD, F_SETFD, FD_CLOEXEC);
	fcntl(SEAT_FD, F_SETFD, FD_CLOEXEC);
	return LEASH_FD;
}

struct limpet_followers *limpet_followers_new(const struct limpet_capture_options *options,
					      pid_t pid)
{
	struct limpet_followers *followers = calloc(1, sizeof(*followers));

	if (!followers)
		return NULL;
	followers->options = options;
	followers->pid = pid;
	followers->seats = options->forked.start_ticks
				   ? fcntl(SEAT_FD, F_DUPFD_CLOEXEC, FIRST_FREE_FD)
				   : memfd_create("limpet seats", MFD_CLOEXEC);
	if (followers->seats < 0) {
		free(followers);
		return NULL;
	}
	return followers;
}

void limpet_followers_set_trace(struct limpet_followers *followers, const char *trace)
{
	free(followers->trace);
	followers->trace = strdup(trace);
}

/* A permit, as a descriptor: its lock ends with the last copy. -EAGAIN: all are taken. */
static int take_permit(const struct limpet_followers *followers)
{
	char path[32];
	LIMPET_CLOSE int fd = -1;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", followers->seats);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (unsigned i = 0; i < LIMPET_FOLLOWERS_MAX; i++) {
		struct flock lock = {.l_type = F_WRLCK, .l_start = i, .l_len = 1};

		if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
			return limpet_take_fd(&fd);
		if (errno != EAGAIN && errno != EACCES)
			return -errno;
	}
	return -EAGAIN;
}

static void read_words(int fd, char *ret, size_t bytes)
{
	ssize_t got = pread(fd, ret, bytes - 1, 0);

	ret[got > 0 ? got : 0] = '\0';
}

/* One that has ended gives its place among the running to the last of these. */
static void note_end(struct limpet_followers *followers, size_t at, int status)
{
	struct follower ended = followers->list[at];
	char text[PATH_MAX];
	uint64_t ticks;

	ended.limpet = 0;
	ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : LIMPET_EXIT_FAILED;
	/* It says the path at its end; one that was killed has left what it had written. */
	read_words(ended.out, text, sizeof(text));
	if (!*text && (!WIFSIGNALED(status) || access(ended.trace, F_OK) < 0)) {
		free(ended.trace);
		ended.trace = NULL;
		read_words(ended.err, text, WORDS_BYTES);
		text[strcspn(text, "\n")] = '\0';
		ended.words = strdup(text);
	}
	if (ended.lifeline >= 0)
		close(ended.lifeline);
	close(ended.out);
	close(ended.err);
	ended.lifeline = ended.out = ended.err = -1;
	followers->running--;
	followers->list[at] = followers->list[followers->running];
	followers->list[followers->running] = ended;
	if (ended.trace ||
	    (limpet_proc_start_time(ended.fork.pid, &ticks) == 0 &&
	     ticks == ended.fork.start_ticks && limpet_own_objects_has_execution(ended.fork.pid)))
		return;
	/* It failed for the reason that there was nothing left to capture. */
	followers->lost++;
	free(ended.words);
	followers->list[followers->running] = followers->list[--followers->count];
}

static void reap(struct limpet_followers *followers)
{
	for (size_t i = 0; i < followers->running;) {
		int status;

		if (waitpid(followers->list[i].limpet, &status, WNOHANG) ==
		    followers->list[i].limpet)
			note_end(followers, i, status);
		else
			i++;
	}
}

bool limpet_followers_have_room(struct limpet_followers *followers)
{
	int permit;

	reap(followers);
	if (followers->running >= LIMPET_FOLLOWERS_MAX)
		return false;
	permit = take_permit(followers);
	if (permit < 0)
		return false;
	close(permit);
	return true;
}

/* node.4711.limpet.1 becomes node.4711.4712.limpet.1, or with a larger number behind it whatever
 * stands nowhere yet. The limpet that writes it goes over no file either. */
static char *name_trace(const struct limpet_followers *followers, pid_t pid)
{
	const char *trace = followers->trace ? followers->trace : "trace.limpet";
	const char *slash = strrchr(trace, '/'), *at = NULL, *found;
	char *name = NULL;
	struct stat status;

	for (found = slash ? slash : trace; (found = strstr(found, ".limpet")); found++)
		at = found;
	if (!at)
		at = trace + strlen(trace);
	for (int i = 0; i < NAMES_MAX; i++) {
		char number[16] = "";

		if (i)
			snprintf(number, sizeof(number), ".%d", i);
		free(name);
		if (asprintf(&name, "%.*s.%d%s%s", (int)(at - trace), trace, pid,
			     *at ? at : ".limpet", number) < 0)
			return NULL;
		if (lstat(name, &status) < 0)
			return name;
	}
	return name;
}

struct words {
	char *list[40];
	unsigned count;
	bool failed; /* for want of memory: one is missing */
};

static void add_word(struct words *words, const char *word)
{
	char *copy = strdup(word);

	assert(words->count + 1 < LIMPET_COUNT_OF(words->list));
	if (copy)
		words->list[words->count++] = copy;
	words->failed |= !copy;
}

static void add_number(struct words *words, const char *option, uint64_t value, const char *unit)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64 "%s", value, unit);
	add_word(words, option);
	add_word(words, text);
}

static void choose_words(const struct limpet_followers *followers, const struct limpet_fork *fork,
			 const char *trace, struct words *ret)
{
	const struct limpet_capture_options *o = followers->options;
	char leashed[80];

	snprintf(leashed, sizeof(leashed), "%" PRIu64 ",%" PRIx64 ",%" PRIu64, fork->start_ticks,
		 fork->control_page, fork->image_inode);
	add_word(ret, "limpet");
	add_word(ret, "attach");
	add_word(ret, "--quiet");
	add_word(ret, "--follow-fork");
	add_number(ret, "--pid", (uint64_t)fork->pid, "");
	add_word(ret, "--leashed");
	add_word(ret, leashed);
	add_word(ret, "--output");
	add_word(ret, trace);
	if (o->sample_bytes)
		add_number(ret, "--sample", o->sample_bytes, "");
	if (o->max_bytes)
		add_number(ret, "--max-size", o->max_bytes, "");
	if (o->compact)
		add_word(ret, "--compact");
	if (o->addresses)
		add_word(ret, "--addresses");
	add_number(ret, "--agent-memory", o->agent_memory_bytes, "");
	add_number(ret, "--collector-memory", o->collector_memory_bytes, "");
	add_number(ret, "--attach-timeout", (o->attach_timeout_ns + 999999) / 1000000, "ms");
	if (o->on_overload != LIMPET_OVERLOAD_DROP) {
		add_word(ret, "--on-overload");
		add_word(ret, limpet_capture_overload_word(o->on_overload));
	}
	if (o->alloc_functions) {
		add_word(ret, "--alloc-functions");
		add_word(ret, o->alloc_functions);
	}
	if (o->load) {
		add_word(ret, "--load");
		add_word(ret, limpet_capture_load_word(o->load));
	}
	if (o->no_seal)
		add_word(ret, "--no-seal");
	if (o->partial)
		add_word(ret, "--partial");
	if (o->with_command_line)
		add_word(ret, "--with-command-line");
	if (o->assume_seccomp_ok)
		add_word(ret, "--assume-seccomp-ok");
}

/* Not by fork: nobody but us is to have what we hold of the captured process, not for a moment. */
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

/* Out of the way of the numbers that spawn gives. */
static int move_up(int fd)
{
	int moved = fd < 0 ? -errno : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD), error = errno;

	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : moved < 0 ? -error : moved;
}

static int start(struct limpet_followers *followers, const struct limpet_fork *fork)
{
	struct words words = {.count = 0};
	struct follower *more, follower = {.fork = *fork,
					   .lifeline = -1,
					   .out = -1,
					   .err = -1,
					   .trace = name_trace(followers, fork->pid)};
	int fds[4] = {-1, -1, -1, -1}, lifeline[2] = {-1, -1}, error = 0;

	if (followers->count == followers->room) {
		size_t room = followers->room ? followers->room * 2 : 16;

		more = reallocarray(followers->list, room, sizeof(*more));
		if (more) {
			followers->list = more;
			followers->room = room;
		}
	}
	if (!follower.trace || followers->count == followers->room)
		error = -ENOMEM;
	else if (pipe2(lifeline, O_CLOEXEC) < 0)
		error = -errno;
	fds[0] = move_up(memfd_create("limpet out", MFD_CLOEXEC));
	fds[1] = move_up(memfd_create("limpet err", MFD_CLOEXEC));
	fds[2] = move_up(lifeline[0]);
	fds[3] = move_up(take_permit(followers));
	for (int i = 0; i < 4 && !error; i++)
		if (fds[i] < 0)
			error = fds[i];
	if (!error) {
		choose_words(followers, fork, follower.trace, &words);
		words.list[words.count] = NULL;
		error = words.failed ? -ENOMEM : spawn(words.list, fds, &follower.limpet);
	}
	for (unsigned i = 0; i < words.count; i++)
		free(words.list[i]);
	for (int i = 2; i < 4; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (!error) {
		follower.lifeline = lifeline[1];
		follower.out = fds[0];
		follower.err = fds[1];
		if (followers->count > followers->running)
			followers->list[followers->count] = followers->list[followers->running];
		followers->list[followers->running++] = follower;
		followers->count++;
		return 0;
	}
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (lifeline[1] >= 0)
		close(lifeline[1]);
	free(follower.trace);
	return error;
}

void limpet_followers_start(struct limpet_followers *followers, const struct limpet_fork *fork)
{
	int error = start(followers, fork);

	if (!error)
		return;
	followers->failed++;
	followers->failure = error;
}

void limpet_followers_stop(struct limpet_followers *followers)
{
	for (size_t i = 0; i < followers->running; i++) {
		if (followers->list[i].lifeline >= 0)
			close(followers->list[i].lifeline);
		followers->list[i].lifeline = -1;
	}
}

bool limpet_followers_wait(struct limpet_followers *followers, int lifeline,
			   const volatile sig_atomic_t *impatient, void (*serve)(void *context),
			   void *context)
{
	const int pause_ms = 5;
	struct pollfd let_go = {.fd = lifeline};
	bool stays = false;

	for (reap(followers); followers->running; reap(followers)) {
		if (lifeline < 0 || *impatient || let_go.revents)
			limpet_followers_stop(followers);
		for (size_t i = 0; *impatient && i < followers->running; i++)
			kill(followers->list[i].limpet, SIGTERM);
		serve(context);
		/* Once it is let go it would answer at once. */
		poll(&let_go, let_go.revents ? 0 : 1, pause_ms);
	}
	for (size_t i = 0; i < followers->count; i++)
		stays |= followers->list[i].status == LIMPET_EXIT_DORMANT;
	return stays;
}

static void say_one(const struct follower *follower)
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

static const char *children(uint64_t count)
{
	return count == 1 ? "child" : "children";
}

void limpet_followers_say_earlier(pid_t pid)
{
	LIMPET_FREE pid_t *pids = NULL;
	char list[EARLIER_NAMED * 12 + 32] = "";
	size_t used = 0;
	const int count = limpet_descendants(pid, &pids);

	if (count <= 0)
		return;
	for (int i = 0; i < count && i < EARLIER_NAMED; i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, " %d", pids[i]);
	if (count > EARLIER_NAMED)
		snprintf(list + used, sizeof(list) - used, " and %d more", count - EARLIER_NAMED);
	limpet_ui_note("%d %s forked before the capture, and %s not followed:%s", count,
		       count == 1 ? "child was" : "children were", count == 1 ? "is" : "are", list);
	limpet_ui_hint("limpet attach %d captures %s", pids[0],
		       count == 1 ? "it" : "one of them, into a trace of its own");
}

void limpet_followers_say(const struct limpet_followers *followers,
			  const struct limpet_forks_stats *stats)
{
	uint64_t lost = stats->lost + followers->lost;
	uint64_t known = followers->count + followers->failed + lost;

	for (size_t i = 0; i < followers->count && i < SAID_MAX; i++)
		say_one(&followers->list[i]);
	if (followers->count > SAID_MAX)
		limpet_ui_note("and traces of %zu more %s, named alike",
			       followers->count - SAID_MAX, children(followers->count - SAID_MAX));
	if (lost)
		limpet_ui_note("%" PRIu64 " %s ended, or executed another program, before %s could "
			       "be captured",
			       lost, children(lost), lost == 1 ? "it" : "they");
	if (followers->failed)
		limpet_ui_warn("no limpet could be started for %" PRIu64 " %s: %s",
			       followers->failed, children(followers->failed),
			       strerror(-followers->failure));
	if (stats->found > known)
		limpet_ui_warn("%" PRIu64 " %s not captured: %u can be at a time, and none within "
			       "the first moments of its life",
			       stats->found - known,
			       stats->found - known == 1 ? "child was" : "children were",
			       LIMPET_FOLLOWERS_MAX);
}

void limpet_followers_free(struct limpet_followers *followers)
{
	if (!followers)
		return;
	limpet_followers_stop(followers);
	for (size_t i = 0; i < followers->count; i++) {
		free(followers->list[i].trace);
		free(followers->list[i].words);
	}
	free(followers->list);
	free(followers->trace);
	close(followers->seats);
	free(followers);
}
