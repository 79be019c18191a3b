#include "cli/followers.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "cli/follower.h"
#include "cli/ui.h"
#include "common/array.h"
#include "injector/proc/target_process.h"
#include "injector/session/descendants.h"

#define NAMES_MAX 1000 /* how many names are tried for a trace */
#define EARLIER_NAMED 8
#define SAID_MAX 20u /* children that are reported one by one: captured well, and others */

struct limpet_followers {
	const struct limpet_capture_options *options;
	pid_t pid;
	int permits;  /* a file with one byte per permit */
	int reserved; /* the permit for the next child; -1: none */
	char *trace;
	struct limpet_follower *list; /* the running ones first */
	size_t running, count, capacity;
	uint64_t failed; /* could not be started */
	int failure;
	uint64_t lost; /* the child ended or executed another program before it was captured */
	bool was_full; /* a child had to wait for a permit */
};

struct limpet_followers *limpet_followers_new(const struct limpet_capture_options *options,
					      const struct limpet_target *target)
{
	struct limpet_followers *followers = calloc(1, sizeof(*followers));

	if (!followers)
		return NULL;
	followers->options = options;
	followers->pid = target->pid;
	followers->reserved = -1;
	followers->permits =
		options->forked.start_ticks
			? fcntl(LIMPET_FOLLOWER_PERMIT_FD, F_DUPFD_CLOEXEC, LIMPET_FOLLOWER_FREE_FD)
			: memfd_create("limpet permits", MFD_CLOEXEC);
	if (followers->permits < 0) {
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

/* Takes a permit: a descriptor whose lock is released with its last copy. -EAGAIN: all are taken.
 */
static int claim_permit(const struct limpet_followers *followers)
{
	char path[32];
	LIMPET_CLOSE int fd = -1;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", followers->permits);
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

/* Moves one that has ended behind the running ones. */
static void note_end(struct limpet_followers *followers, size_t at)
{
	struct limpet_follower ended = followers->list[at];

	followers->running--;
	followers->list[at] = followers->list[followers->running];
	followers->list[followers->running] = ended;
	if (!limpet_follower_came_late(&ended))
		return;
	followers->lost++;
	limpet_follower_done(&ended);
	followers->list[followers->running] = followers->list[--followers->count];
}

void limpet_followers_reap(struct limpet_followers *followers)
{
	for (size_t i = 0; i < followers->running;) {
		if (limpet_follower_has_ended(&followers->list[i]))
			note_end(followers, i);
		else
			i++;
	}
}

bool limpet_followers_reserve(struct limpet_followers *followers)
{
	if (followers->reserved >= 0)
		return true;
	limpet_followers_reap(followers);
	if (followers->running < LIMPET_FOLLOWERS_MAX)
		followers->reserved = claim_permit(followers);
	followers->was_full |= followers->reserved < 0;
	return followers->reserved >= 0;
}

/* node.4711.limpet.1 becomes node.4711.4712.limpet.1, or gets a larger number if that exists. The
 * limpet that writes it does not overwrite a file either. */
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

static int start(struct limpet_followers *followers, const struct limpet_fork *fork)
{
	struct limpet_follower follower;
	char *trace = name_trace(followers, fork->pid);
	int error = limpet_reserve(&followers->list, &followers->capacity, followers->count + 1,
				   sizeof(*followers->list));

	if (error || !trace) {
		free(trace);
		return -ENOMEM;
	}
	error = limpet_follower_start(followers->options, fork, trace,
				      limpet_take_fd(&followers->reserved), &follower);
	if (error)
		return error;
	if (followers->count > followers->running)
		followers->list[followers->count] = followers->list[followers->running];
	followers->list[followers->running++] = follower;
	followers->count++;
	return 0;
}

static void release(struct limpet_followers *followers)
{
	if (followers->reserved >= 0)
		close(limpet_take_fd(&followers->reserved));
}

void limpet_followers_start(struct limpet_followers *followers, const struct limpet_fork *fork)
{
	int error = fork ? start(followers, fork) : 0;

	if (error) {
		followers->failed++;
		followers->failure = error;
	}
	release(followers);
}

void limpet_followers_stop(struct limpet_followers *followers)
{
	/* Children that are found last had to wait for a permit. */
	followers->was_full |= followers->running >= LIMPET_FOLLOWERS_MAX;
	for (size_t i = 0; i < followers->running; i++)
		limpet_follower_release(&followers->list[i]);
}

bool limpet_followers_wait(struct limpet_followers *followers, int lifeline,
			   const volatile sig_atomic_t *impatient, void (*serve)(void *context),
			   void *context)
{
	const int pause_ms = 5;
	struct pollfd release_follower = {.fd = lifeline};
	bool stays = false;

	for (limpet_followers_reap(followers); followers->running;
	     limpet_followers_reap(followers)) {
		if (lifeline < 0 || *impatient || release_follower.revents)
			limpet_followers_stop(followers);
		for (size_t i = 0; *impatient && i < followers->running; i++)
			kill(followers->list[i].limpet, SIGTERM);
		serve(context);
		/* After its other end was closed, poll() would return at once. */
		poll(&release_follower, release_follower.revents ? 0 : 1, pause_ms);
	}
	for (size_t i = 0; i < followers->count; i++)
		stays |= followers->list[i].status == LIMPET_EXIT_DORMANT;
	return stays;
}

static const char *children(uint64_t count)
{
	return count == 1 ? "child" : "children";
}

static const char *were(uint64_t count)
{
	return count == 1 ? "child was" : "children were";
}

void limpet_followers_print_earlier(const struct limpet_target *target)
{
	LIMPET_FREE pid_t *pids = NULL;
	char list[EARLIER_NAMED * 12 + 1] = "", more[32] = "";
	size_t used = 0;
	const int count = limpet_descendants(target, &pids);

	if (count <= 0)
		return;
	for (int i = 0; i < count && i < EARLIER_NAMED; i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, " %d", pids[i]);
	if (count > EARLIER_NAMED)
		snprintf(more, sizeof(more), " and %d more", count - EARLIER_NAMED);
	limpet_ui_note("%d %s forked before the capture, and %s not followed:%s%s", count,
		       were((uint64_t)count), count == 1 ? "is" : "are", list, more);
	if (count == 1)
		limpet_ui_hint("limpet attach %d captures it", pids[0]);
	else
		limpet_ui_hint("`for i in%s; do limpet attach $i --background; done`, with your "
			       "options, captures %s, each into a trace of its own",
			       list, more[0] ? "these" : "them");
}

static void print_each(const struct limpet_followers *followers)
{
	size_t well = 0, other = 0;

	for (size_t i = 0; i < followers->count; i++) {
		size_t *count = limpet_follower_is_well(&followers->list[i]) ? &well : &other;

		if ((*count)++ < SAID_MAX)
			limpet_follower_print(&followers->list[i]);
	}
	if (well > SAID_MAX)
		limpet_ui_note("and traces of %zu more %s, named alike", well - SAID_MAX,
			       children(well - SAID_MAX));
	if (other > SAID_MAX)
		limpet_ui_warn("and %zu more %s not captured, or not completely", other - SAID_MAX,
			       were(other - SAID_MAX));
}

void limpet_followers_print(const struct limpet_followers *followers,
			    const struct limpet_forks_stats *stats)
{
	uint64_t lost = stats->lost + followers->lost;
	uint64_t known = followers->count + followers->failed + lost;

	print_each(followers);
	/* One that lives for less than a look takes is not seen. */
	if (lost)
		limpet_ui_note("at least %" PRIu64 " %s ended, or executed another program, before "
			       "%s could be captured; children that live for milliseconds are not "
			       "even seen",
			       lost, children(lost), lost == 1 ? "it" : "they");
	if (followers->failed)
		limpet_ui_warn("no limpet could be started for %" PRIu64 " %s: %s",
			       followers->failed, children(followers->failed),
			       strerror(-followers->failure));
	if (stats->found > known && followers->was_full)
		limpet_ui_warn("%" PRIu64 " %s not captured: %u can be at a time",
			       stats->found - known, were(stats->found - known),
			       LIMPET_FOLLOWERS_MAX);
	else if (stats->found > known)
		limpet_ui_note("%" PRIu64 " %s not captured: the capture ended within the first "
			       "moments of %s life",
			       stats->found - known, were(stats->found - known),
			       stats->found - known == 1 ? "its" : "their");
}

void limpet_followers_free(struct limpet_followers *followers)
{
	if (!followers)
		return;
	for (size_t i = 0; i < followers->count; i++)
		limpet_follower_done(&followers->list[i]);
	free(followers->list);
	free(followers->trace);
	release(followers);
	close(followers->permits);
	free(followers);
}
