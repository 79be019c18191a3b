#include "cli/find_hidden.h"

#include <stdio.h>
#include <string.h>

#include "cli/ui.h"
#include "common/units.h"
#include "injector/hidden/hidden.h"

static void print_watching(void *context, const char *allocator, uint64_t most_ns)
{
	char most[LIMPET_UNITS_TEXT];

	(void)context;
	limpet_ui_note("looking for the functions of %s: its calls are watched for up to %s, and "
		       "the kernel takes some seconds to end that",
		       allocator, limpet_units_format_duration(most, most_ns));
}

static void print_found(void *context, const char *allocator, unsigned functions, unsigned pairs)
{
	(void)context;
	limpet_ui_note("%s: found %u function%s; %u blocks were given and taken back", allocator,
		       functions, functions == 1 ? "" : "s", pairs);
}

static void print_not_found(void *context, const char *allocator, const char *why, const char *hint)
{
	struct limpet_err *refused = context;
	size_t used;

	if (!refused) {
		limpet_ui_warn("%s is not followed: %s", allocator, why);
		if (*hint)
			limpet_ui_hint("%s", hint);
		return;
	}
	used = strlen(refused->message);
	snprintf(refused->message + used, sizeof(refused->message) - used,
		 "; its functions were looked for: %s", why);
	if (*hint)
		limpet_err_hint(refused, "%s", hint);
}

/* Refused for its allocator alone, or not at all. */
static bool is_only_hidden(const struct limpet_preflight *preflight)
{
	if (preflight->verdict != LIMPET_PREFLIGHT_OK &&
	    preflight->verdict != LIMPET_PREFLIGHT_REFUSED)
		return false;
	for (size_t i = 0; i < preflight->count; i++)
		if (preflight->list[i].severity == LIMPET_FINDING_REFUSE &&
		    strcmp(preflight->list[i].id, "allocator") != 0)
			return false;
	/* Of one that holds little beside glibc's heap not enough would be seen, and the watch
	 * slows its calls. */
	return preflight->unfollowed[0] &&
	       (preflight->unseen_rss_share >= 0 ||
		limpet_unfollowed_judge(&preflight->others, NULL, 0, "").is_large);
}

struct offer {
	pid_t pid;
	struct limpet_err *refused; /* NULL: it is not */
};

/* Not done unasked: a watched return ends a program in which an exception or another coroutine
 * passes it. */
static void offer(void *context, const char *allocator)
{
	const struct offer *it = context;
	const size_t used = it->refused ? strlen(it->refused->hint) : 0;

	if (it->refused)
		snprintf(it->refused->hint + used, sizeof(it->refused->hint) - used,
			 "%s`limpet attach --alloc-functions search %d` looks for its functions",
			 used ? "; " : "", it->pid);
	else
		limpet_ui_hint(
			"`limpet attach --alloc-functions search %d` looks for the functions of %s",
			it->pid, allocator);
}

bool limpet_find_hidden(const struct limpet_target *target, struct limpet_capture_options *options,
			const struct limpet_preflight *preflight, struct limpet_err *err)
{
	static struct limpet_entry_list list;
	struct limpet_err *refused = preflight->verdict == LIMPET_PREFLIGHT_REFUSED ? err : NULL;
	const struct limpet_hidden_watcher watcher = {
		.watching = print_watching,
		.found = print_found,
		.not_found = print_not_found,
		.context = refused,
	};
	size_t before;

	/* A limpet that follows a child does not know what this one finds. */
	if (options->follow_fork || options->forked.start_ticks || !is_only_hidden(preflight))
		return false;
	if (!options->search) {
		(void)!limpet_hidden_show(
			target, offer, &(struct offer){.pid = preflight->pid, .refused = refused});
		return false;
	}
	if (options->config.entry_list)
		list = *options->config.entry_list;
	before = list.count;
	if (limpet_hidden_find(target, &watcher, &list) < 0 || list.count == before)
		return false;
	options->config.entry_list = &list;
	return true;
}

static void announce(void *context, const char *allocator)
{
	struct limpet_preflight *preflight = context;
	struct limpet_finding *finding;

	if (preflight->count == LIMPET_PREFLIGHT_MAX_FINDINGS)
		return;
	finding = &preflight->list[preflight->count++];
	*finding = (struct limpet_finding){.id = "hidden", .severity = LIMPET_FINDING_NOTE};
	snprintf(finding->text, sizeof(finding->text),
		 "with --alloc-functions search attach looks for the functions of %s: it watches "
		 "their calls for "
		 "a while, if the kernel has uprobes, and follows them if it is certain what each "
		 "does",
		 allocator);
	snprintf(finding->hint, sizeof(finding->hint),
		 "`limpet attach --alloc-functions search %d`, unless an exception or another "
		 "coroutine may leave "
		 "such a function: it would end the program",
		 preflight->pid);
}

void limpet_find_hidden_announce(const struct limpet_target *target,
				 struct limpet_preflight *preflight)
{
	/* An error: nothing is known, so nothing is said. */
	if (is_only_hidden(preflight))
		(void)!limpet_hidden_show(target, announce, preflight);
}
