#include "collector/capture/memory_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/capture/object_snapshot.h"
#include "common/begins.h"
#include "explain/explain.h"
#include "injector/elf/memory_owners.h"
#include "injector/elf/preflight_allocators.h"
#include "injector/proc/processes.h"
#include "injector/proc/target_process.h"
#include "injector/session/session.h"

#define ACCOUNT_TRIES 4u

/* Stays as it is, not known, if the process is larger or cannot be read. */
static void read_account(const struct limpet_target *target,
			 struct limpet_resident_account *account)
{
	struct limpet_explanation explanation;
	struct limpet_proc_status status;
	struct limpet_err err = {0};

	if (limpet_proc_status_read(target->pid, &status) < 0 ||
	    status.rss_bytes > LIMPET_RESIDENT_BYTES_MAX ||
	    limpet_explain(target, &explanation, &err) < 0)
		return;
	(void)!limpet_explanation_account(&explanation, account);
	limpet_explanation_done(&explanation);
}

/* What the program has mapped itself counts, too: an allocator inside of it may use it. */
struct limpet_unfollowed limpet_memory_watch_judge(const struct limpet_memory_watch *watch)
{
	const bool known =
		!watch->other_allocators && !limpet_session_late(watch->session)->functions;
	const struct limpet_unfollowed_part none = {0},
					    first = limpet_unfollowed_of(&watch->before),
					    last = limpet_unfollowed_of(&watch->after);

	return limpet_unfollowed_judge(known ? &first : &none, known ? &last : NULL, 0,
				       watch->unfollowed);
}

/* Only when the names are needed: this reads the modules' files. Names that are known stay if there
 * are no others. */
static void name_unfollowed(struct limpet_memory_watch *watch)
{
	const struct limpet_owners_followed followed = {limpet_session_has_entries, watch->session};
	const struct limpet_unfollowed it = limpet_memory_watch_judge(watch);
	char names[sizeof(watch->unfollowed)];

	if (!it.is_large && !it.grows)
		return;
	limpet_memory_owners_name(limpet_session_modules(watch->session), &followed, watch->runtime,
				  NULL, names, sizeof(names));
	if (names[0])
		memcpy(watch->unfollowed, names, sizeof(names));
}

void limpet_memory_watch_begin(struct limpet_memory_watch *watch)
{
	/* How much it holds cannot be told, but that it is there is known. */
	if (watch->other_allocators && !watch->unfollowed[0] &&
	    limpet_runtime_has_own_heap(watch->runtime))
		snprintf(watch->unfollowed, sizeof(watch->unfollowed), "the heap of %s%s",
			 limpet_runtime_article(watch->runtime), watch->runtime);
	if (watch->is_new_program)
		return;
	read_account(watch->target, &watch->before);
	limpet_object_snapshot_read(watch->target, &watch->objects_before);
	if (!watch->unfollowed[0])
		name_unfollowed(watch);
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
static void reread_account(struct limpet_memory_watch *watch)
{
	const bool had_heap = has_heap(&watch->before);

	for (unsigned i = 0; i < ACCOUNT_TRIES; i++) {
		read_account(watch->target, &watch->after);
		if (!had_heap || !watch->after.known || has_heap(&watch->after))
			return;
		free(watch->after.rows);
		watch->after = (struct limpet_resident_account){0};
	}
}

void limpet_memory_watch_end(struct limpet_memory_watch *watch)
{
	reread_account(watch);
	name_unfollowed(watch);
	if (watch->objects_before.known)
		limpet_object_snapshot_read(watch->target, &watch->objects);
}

void limpet_memory_watch_done(struct limpet_memory_watch *watch)
{
	free(watch->before.rows);
	free(watch->after.rows);
	limpet_object_snapshot_done(&watch->objects_before);
	limpet_object_snapshot_done(&watch->objects);
}
