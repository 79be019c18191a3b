#include "cli/capture_words.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/ui.h"
#include "common/units.h"
#include "injector/proc/target_process.h"

const char *limpet_capture_end_words(enum limpet_end end, const char *stream_failed)
{
	if (stream_failed && end == LIMPET_END_DISK_FULL)
		return stream_failed;
	switch (end) {
	case LIMPET_END_TARGET_EXIT:
		return "the program ended";
	case LIMPET_END_TARGET_KILLED:
		return "the program was killed";
	case LIMPET_END_TARGET_EXEC:
		return "the program executed another";
	case LIMPET_END_DISK_FULL:
		return "the disk is full, or nearly so, or cannot be written: the trace ends here";
	case LIMPET_END_SIZE_LIMIT:
		return "the trace cannot be kept below its size limit";
	case LIMPET_END_COLLECTOR_LOST:
		return "the program closed limpet's descriptor";
	default:
		return NULL;
	}
}

const char *limpet_capture_stop_words(char ret[LIMPET_CAPTURE_STOPS], int64_t attach_us,
				      int64_t detach_us)
{
	const int used =
		snprintf(ret, LIMPET_CAPTURE_STOPS, "attach %.2f ms", (double)attach_us / 1000);

	if (detach_us >= 0)
		snprintf(ret + used, LIMPET_CAPTURE_STOPS - (size_t)used, ", detach %.2f ms",
			 (double)detach_us / 1000);
	return ret;
}

void limpet_capture_warn_loss(enum limpet_loss loss, uint64_t losses, const char *because)
{
	char words[LIMPET_LOSS_WORDS];

	if (losses & LIMPET_LOSS_BIT(loss) && limpet_loss_kinds[loss].clears_complete)
		limpet_ui_warn("the trace is not complete: %s",
			       limpet_loss_words(words, loss, losses, because));
}

void limpet_capture_print_end(const struct limpet_target *target, uint64_t duration_ns)
{
	char duration[LIMPET_UNITS_TEXT];
	struct sigaction now;
	/* A shell without job control starts what runs in its background so that it ignores Ctrl-C.
	 */
	const char *here = sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler == SIG_IGN
				   ? ""
				   : "Ctrl-C here or ";

	if (!duration_ns) {
		limpet_ui_hint("%s`limpet stop %d` anywhere ends it", here, target->pid);
		return;
	}
	limpet_units_format_duration(duration, duration_ns);
	limpet_ui_hint("ends after %s; earlier by %s`limpet stop %d` anywhere", duration, here,
		       target->pid);
}

struct limpet_progress_sample limpet_capture_sample(const struct limpet_capture_progress *progress)
{
	return (struct limpet_progress_sample){
		.elapsed_ns = progress->elapsed_ns,
		.duration_ns = progress->duration_ns,
		.events = progress->events,
		.dropped_events = progress->dropped_events,
		.lost_stacks = progress->lost_stacks,
		.live_bytes = progress->live_bytes,
		.estimated = progress->estimated,
		.growing = progress->growing,
		.unfollowed_bytes = progress->unfollowed_bytes,
		.growing_bytes = progress->growing_bytes,
		.phase = progress->phase,
	};
}

void limpet_capture_find_owner(uid_t *uid, gid_t *gid)
{
	const char *sudo_uid = getenv("SUDO_UID"), *sudo_gid = getenv("SUDO_GID");

	*uid = geteuid();
	*gid = getegid();
	if (*uid == 0 && sudo_uid && sudo_gid) {
		*uid = (uid_t)strtoul(sudo_uid, NULL, 10);
		*gid = (gid_t)strtoul(sudo_gid, NULL, 10);
	}
}
