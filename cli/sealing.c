#include "cli/sealing.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/seal/seal.h"
#include "analyzer/symbols/debuginfod.h"
#include "cli/capture_signals.h"
#include "cli/ui.h"
#include "common/open_file.h"
#include "injector/proc/target_process.h"

/* If somebody waits for the end of the capture, limpet waits for debuginfod servers at most this
 * long. */
#define DEBUGINFOD_SECONDS 30u

static void show_sealing(void *context, uint64_t done, uint64_t total)
{
	struct limpet_sealing *sealing = context;

	sealing->serve(sealing->context);
	if (total)
		snprintf(sealing->phase, sizeof(sealing->phase), "sealing %u %%",
			 (unsigned)(done * 100 / total));
	sealing->sample.phase = sealing->phase;
	if (*sealing->progress)
		limpet_progress_update(*sealing->progress, &sealing->sample);
}

/* A path to the open trace that stays valid whatever happens to its name: in a directory that
 * others may write to, a link may have replaced it. */
static int open_trace(const char *trace, char *ret_path, size_t bytes)
{
	LIMPET_CLOSE int fd = open(trace, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat stat;

	if (fd < 0 || fstat(fd, &stat) < 0)
		return -errno;
	if (!S_ISREG(stat.st_mode) || stat.st_nlink != 1)
		return -ELOOP;
	snprintf(ret_path, bytes, "/proc/self/fd/%d", fd);
	return limpet_take_fd(&fd);
}

/* What is sealed: the trace, or the copy of a stream, which belongs to it. */
static int open_sealed(const struct limpet_sealing *sealing, char *ret_path, size_t bytes)
{
	int fd;

	if (!sealing->is_streamed)
		return open_trace(sealing->trace, ret_path, bytes);
	if (sealing->copy < 0)
		return sealing->copy;
	snprintf(ret_path, bytes, "/proc/self/fd/%d", sealing->copy);
	fd = fcntl(sealing->copy, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

/* How to look up names later; of a stream, what arrived. */
static const char *name_for_later(const struct limpet_sealing *sealing)
{
	return sealing->is_streamed ? "FILE, on this machine" : sealing->trace;
}

static void print_debuginfod(const struct limpet_debuginfod *debuginfod, const char *trace)
{
	int error = limpet_debuginfod_error(debuginfod);

	if (!error || error == -EINTR)
		return;
	limpet_ui_warn("debuginfod: %s", limpet_debuginfod_words(error));
	limpet_ui_hint("limpet seal %s asks again", trace);
}

/* A module without a file is not reported at the end of a capture; one that could not be read, or
 * is no longer the same, is. */
static void note_unread(void *context, const char *path, uint64_t addresses,
			const struct limpet_err *err)
{
	struct limpet_sealing *sealing = context;

	(void)path, (void)addresses;
	if (err->code == -EPROTO || err->code == -ENODATA || err->code == -ESTALE)
		limpet_unread_note(&sealing->unread, err);
}

void limpet_sealing_warn_unread(void *context, const char *path, const char *why)
{
	(void)context;
	limpet_ui_warn("not all debug information of '%s' could be read: %s", path, why);
}

void limpet_unread_note(struct limpet_unread *unread, const struct limpet_err *err)
{
	if (!unread->count++)
		unread->first = *err;
}

bool limpet_unread_warn(const struct limpet_unread *unread)
{
	if (unread->count > 1)
		limpet_ui_warn("%s; and %u more", unread->first.message, unread->count - 1);
	else if (unread->count)
		limpet_ui_warn("%s", unread->first.message);
	return unread->count;
}

static void wait_for_server(void *context)
{
	const struct limpet_sealing *sealing = context;

	sealing->serve(sealing->context);
}

void limpet_sealing_run(struct limpet_sealing *sealing)
{
	const struct limpet_collector_source *files = sealing->files;
	const char *later = name_for_later(sealing);
	struct limpet_seal_source *sources = calloc(sealing->count + 1, sizeof(*sources));
	struct limpet_seal_options options = {.sources = sources,
					      .cancel = limpet_capture_impatient(),
					      .progress = show_sealing,
					      .missing = note_unread,
					      .unread = limpet_sealing_warn_unread,
					      .context = sealing};
	struct limpet_seal_result result = {0};
	struct limpet_debuginfod *debuginfod;
	struct limpet_err err = {0};
	char root[LIMPET_TARGET_ROOT_BYTES], path[32];
	LIMPET_CLOSE int fd = open_sealed(sealing, path, sizeof(path));
	int error;

	/* Said at the end, by limpet_sealing_find_trace(). */
	if (fd == -ENOENT) {
		free(sources);
		return;
	}
	for (size_t i = 0; sources && i < sealing->count; i++)
		if (files[i].fd >= 0)
			sources[options.source_count++] =
				(struct limpet_seal_source){files[i].module, files[i].fd};
	options.root = limpet_target_root(sealing->target, root) ? root : NULL;
	options.perf_map_fd = sealing->perf_map_fd;
	options.has_perf_map = options.perf_map_fd >= 0;
	debuginfod = limpet_debuginfod_new(
		&(struct limpet_debuginfod_options){.limit_seconds = DEBUGINFOD_SECONDS,
						    .cancel = limpet_capture_impatient(),
						    .waiting = wait_for_server,
						    .context = sealing});
	options.debuginfod = debuginfod;
	limpet_capture_signals_open();
	if (fd < 0)
		error = limpet_err_set(&err, fd, "cannot seal '%s': %s", sealing->trace,
				       strerror(-fd));
	else
		error = limpet_seal(path, &options, &result, &err);
	free(sources);
	print_debuginfod(debuginfod, later);
	limpet_debuginfod_free(debuginfod);
	if (limpet_unread_warn(&sealing->unread))
		limpet_ui_hint("the trace is whole; limpet seal %s looks up names again", later);
	if (!error && !result.cancelled)
		return;
	limpet_progress_free(*sealing->progress);
	*sealing->progress = NULL;
	if (error) {
		limpet_err_hint(&err, "the trace is whole; add names later: limpet seal %s", later);
		limpet_ui_error(&err);
		return;
	}
	limpet_ui_note("skipped %lu of %lu name%s", (unsigned long)result.skipped,
		       (unsigned long)result.addresses, result.addresses == 1 ? "" : "s");
	limpet_ui_hint("limpet seal %s", later);
}

bool limpet_sealing_find_trace(const char *trace)
{
	struct limpet_err err = {0};
	struct stat stat;

	if (lstat(trace, &stat) == 0 || errno != ENOENT)
		return true;
	limpet_err_set(&err, -ENOENT, "there is no '%s' any more", trace);
	limpet_err_hint(&err, "it was removed or renamed during the capture");
	limpet_ui_error(&err);
	return false;
}
