#include "collector/capture/memory_watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/capture/account_snapshot.h"
#include "collector/capture/object_snapshot.h"
#include "collector/record/recorder.h"
#include "common/begins.h"
#include "common/clock.h"
#include "injector/elf/memory_owners.h"
#include "injector/elf/preflight_allocators.h"
#include "injector/session/session.h"

#define ACCOUNT_TRIES 4u
#define EVERY_NS 2000000000u
#define MOST_NS 10000000u
#define SHARE 1000u /* of the time, at most, for all looks */

struct mapped {
	struct limpet_account_range *list;
	size_t count, capacity;
};

static void count_mapped(void *context, uint64_t start, uint64_t end)
{
	struct mapped *mapped = context;

	mapped->capacity += start < end;
}

static void add_mapped(void *context, uint64_t start, uint64_t end)
{
	struct mapped *mapped = context;

	if (mapped->count < mapped->capacity)
		mapped->list[mapped->count++] = (struct limpet_account_range){start, end};
}

struct limpet_unfollowed limpet_memory_watch_judge(const struct limpet_memory_watch *watch)
{
	return limpet_unfollowed_judge(&watch->before, &watch->last, watch->unfollowed);
}

/* Only when the names are needed: this reads the modules' files. Names that are known stay if there
 * are no others. */
static void name_unfollowed(struct limpet_memory_watch *watch)
{
	const struct limpet_owners_followed followed = {limpet_session_has_entries, watch->session};
	bool matters = limpet_unfollowed_judge(&watch->before, &watch->last, "").matters;
	char names[sizeof(watch->unfollowed)];

	if (!limpet_unfollowed_is_to_be_named(&watch->before, &watch->last))
		return;
	limpet_memory_owners_name(limpet_session_modules(watch->session), &followed,
				  matters ? watch->runtime : "", NULL, names, sizeof(names));
	if (names[0])
		memcpy(watch->unfollowed, names, sizeof(names));
}

/* The agent's private memory is in no file of limpet's, and so counted as unknown. All of it is as
 * much as the ticks say: a report and `limpet explain` of a trace have one figure. */
static void leave_out_agent(const struct limpet_memory_watch *watch, struct limpet_memory *memory)
{
	uint64_t *unknown = &memory->bytes[LIMPET_MEMORY_UNKNOWN];
	uint64_t *own = &memory->bytes[LIMPET_MEMORY_OWN];
	uint64_t bytes, file_bytes, private;

	if (limpet_session_resident_bytes(watch->session, &bytes, &file_bytes) < 0 || bytes <= *own)
		return;
	private = bytes - *own;
	if (private > *unknown)
	private = *unknown;
	*unknown -= private;
	*own += private;
}

static int look(struct limpet_memory_watch *watch, bool agent_is_there)
{
	struct limpet_memory_owners_options options = {
		.modules = limpet_session_modules(watch->session)};
	struct mapped mapped = {.count = 0};
	struct limpet_memory memory;
	int error;

	if (watch->other_allocators || limpet_session_late(watch->session)->functions)
		return -ENOTSUP;
	limpet_recorder_walk_mappings(watch->recorder, count_mapped, &mapped);
	mapped.list = calloc(mapped.capacity + 1, sizeof(*mapped.list));
	if (!mapped.list)
		return -ENOMEM;
	limpet_recorder_walk_mappings(watch->recorder, add_mapped, &mapped);
	options.mapped = mapped.list;
	options.mapped_count = mapped.count;
	error = limpet_memory_owners_take(watch->target, &options, &memory);
	free(mapped.list);
	if (error)
		return error;
	if (agent_is_there)
		leave_out_agent(watch, &memory);
	watch->last = memory;
	watch->is_new = true;
	return 0;
}

/* Estimated from the last look: the time grows with RSS. */
static double expected_ns(const struct limpet_memory_watch *watch, uint64_t rss_bytes)
{
	const struct limpet_memory *last = watch->last.known ? &watch->last : &watch->before;
	uint64_t last_bytes = last->bytes[LIMPET_MEMORY_RSS];
	double took_ns = (double)watch->took_ns;

	return last_bytes && rss_bytes > last_bytes
		       ? took_ns * (double)rss_bytes / (double)last_bytes
		       : took_ns;
}

void limpet_memory_watch_begin(struct limpet_memory_watch *watch, bool other_allocators)
{
	const struct limpet_memory_owners_options options = {
		.modules = limpet_session_modules(watch->session)};
	uint64_t began_ns;

	watch->other_allocators = other_allocators;
	/* How much it holds cannot be told, but that it is there is known. */
	if (other_allocators && !watch->unfollowed[0] && limpet_runtime_is_apart(watch->runtime))
		snprintf(watch->unfollowed, sizeof(watch->unfollowed), "the heap of %s%s",
			 limpet_runtime_article(watch->runtime), watch->runtime);
	if (!watch->is_new_program) {
		limpet_account_snapshot_take(watch->target, &watch->account_before);
		limpet_object_snapshot_take(watch->target, &watch->objects_before);
	}
	watch->looked_ns = limpet_monotonic_ns();
	began_ns = limpet_thread_time_ns();
	if (other_allocators ||
	    limpet_memory_owners_take(watch->target, &options, &watch->before) < 0)
		return;
	watch->took_ns = limpet_thread_time_ns() - began_ns;
	if (!watch->unfollowed[0])
		name_unfollowed(watch);
}

void limpet_memory_watch_tick(struct limpet_memory_watch *watch, uint64_t now_ns,
			      uint64_t events_ns, uint64_t rss_bytes)
{
	const uint64_t since_ns = now_ns - watch->looked_ns;
	const bool unchanged = watch->looked_ns > events_ns && watch->look_rss_bytes == rss_bytes;
	const double expected = expected_ns(watch, rss_bytes);
	uint64_t began_ns;

	if (!watch->before.known || since_ns < EVERY_NS || unchanged || expected > MOST_NS ||
	    (double)since_ns < expected * SHARE)
		return;
	began_ns = limpet_thread_time_ns();
	watch->looked_ns = now_ns;
	watch->look_rss_bytes = rss_bytes;
	(void)look(watch, true);
	watch->took_ns = limpet_thread_time_ns() - began_ns;
}

/* Of glibc's malloc: its state may be changing just when it is looked for. */
static bool has_heap(const struct limpet_resident_account *account)
{
	for (size_t i = 0; i < account->count; i++)
		if (limpet_begins(account->rows[i].kind, "glibc-"))
			return true;
	return false;
}

/* A heap that was there before the capture is there after it: without it, its memory would count as
 * growth of anonymous mappings. */
static void take_account(struct limpet_memory_watch *watch)
{
	const bool had_heap = has_heap(&watch->account_before);
	bool is_whole = false;

	for (unsigned i = 0; i < ACCOUNT_TRIES && !is_whole; i++) {
		limpet_account_snapshot_done(&watch->account);
		limpet_account_snapshot_take(watch->target, &watch->account);
		is_whole = !had_heap || !watch->account.known || has_heap(&watch->account);
	}
	if (!is_whole)
		limpet_account_snapshot_done(&watch->account);
}

void limpet_memory_watch_end(struct limpet_memory_watch *watch, bool agent_is_there)
{
	if (watch->before.known && look(watch, agent_is_there) == 0)
		name_unfollowed(watch);
	take_account(watch);
	limpet_object_snapshot_done(&watch->objects);
	if (watch->objects_before.known)
		limpet_object_snapshot_take(watch->target, &watch->objects);
}

void limpet_memory_watch_done(struct limpet_memory_watch *watch)
{
	limpet_account_snapshot_done(&watch->account_before);
	limpet_account_snapshot_done(&watch->account);
	limpet_object_snapshot_done(&watch->objects_before);
	limpet_object_snapshot_done(&watch->objects);
}

void limpet_memory_watch_take(struct limpet_memory_watch *watch, struct limpet_memory *ret)
{
	if (watch->is_new)
		*ret = watch->last;
	watch->is_new = false;
}
