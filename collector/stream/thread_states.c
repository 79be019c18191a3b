#include "collector/stream/thread_states.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collector/stream/thread_names.h"
#include "common/wire.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"

#define MAX_STACK_READS 3u

/* What limpet remembers of a state. */
struct remembered {
	uint32_t stack_generation, stack_reads;
	uint32_t first_generation; /* of the claim before threads were listed; 0: none */
};

struct limpet_thread_states {
	struct limpet_session *session;
	struct limpet_recorder *recorder;
	struct limpet_chunk_reader *reader;
	struct limpet_agent_counts *counts;
	struct limpet_thread_names *names;
	const struct limpet_segment *segment;
	uint32_t thread_count;
	struct remembered *remembered;                    /* of each state */
	uint64_t intents[LIMPET_ORDER_COUNTERS / 64 + 1]; /* bitmap of counters */
};

struct limpet_thread_states *limpet_thread_states_new(struct limpet_session *session,
						      struct limpet_recorder *recorder,
						      struct limpet_chunk_reader *reader,
						      struct limpet_agent_counts *counts)
{
	struct limpet_thread_states *states = calloc(1, sizeof(*states));

	if (!states)
		return NULL;
	states->session = session;
	states->recorder = recorder;
	states->reader = reader;
	states->counts = counts;
	states->segment = limpet_session_segment(session);
	states->thread_count = states->segment->layout.thread_count;
	states->remembered = calloc(states->thread_count, sizeof(*states->remembered));
	states->names = limpet_thread_names_new();
	if (states->remembered && states->names)
		return states;
	limpet_thread_states_free(states);
	return NULL;
}

void limpet_thread_states_free(struct limpet_thread_states *states)
{
	if (!states)
		return;
	limpet_thread_names_free(states->names);
	free(states->remembered);
	free(states);
}

static struct limpet_thread *thread_at(const struct limpet_thread_states *states, uint32_t index)
{
	return limpet_segment_thread(states->segment, index);
}

/* The generation of the claim: another one means that another thread owns the entry. */
static uint32_t generation_of(const struct limpet_thread *entry)
{
	return __atomic_load_n(&entry->generation, __ATOMIC_ACQUIRE);
}

static uint32_t next_used(const struct limpet_thread_states *states, uint32_t from)
{
	return limpet_segment_next_used(states->segment, from);
}

uint32_t limpet_thread_states_count(const struct limpet_thread_states *states)
{
	uint32_t count = 0;

	for (uint32_t i = next_used(states, 0); i < states->thread_count;
	     i = next_used(states, i + 1))
		count += generation_of(thread_at(states, i)) != 0;
	return count;
}

static void note_intent(struct limpet_thread_states *states, uint32_t intent)
{
	if (intent && intent <= LIMPET_ORDER_COUNTERS)
		states->intents[(intent - 1) / 64] |= 1ull << (intent - 1) % 64;
}

const uint64_t *limpet_thread_states_intents(struct limpet_thread_states *states)
{
	memset(states->intents, 0, sizeof(states->intents));
	for (uint32_t i = next_used(states, 0); i < states->thread_count;
	     i = next_used(states, i + 1)) {
		const struct limpet_thread *entry = thread_at(states, i);

		/* Pairs with the agent's release stores that follow its record. */
		note_intent(states, __atomic_load_n(&entry->intent, __ATOMIC_ACQUIRE));
		note_intent(states, __atomic_load_n(&entry->held_intent, __ATOMIC_ACQUIRE));
	}
	return states->intents;
}

void limpet_thread_states_publish_stacks(struct limpet_thread_states *states)
{
	const struct limpet_target *target = limpet_session_target(states->session);
	struct limpet_maps maps = {0};
	bool have_maps = false;

	for (uint32_t i = next_used(states, 0); i < states->thread_count;
	     i = next_used(states, i + 1)) {
		struct limpet_thread *entry = thread_at(states, i);
		struct remembered *remembered = &states->remembered[i];
		uint64_t owner = __atomic_load_n(&entry->thread_pointer, __ATOMIC_ACQUIRE);
		uint64_t sp = __atomic_load_n(&entry->entry_sp, __ATOMIC_RELAXED), low, high;
		uint32_t generation = generation_of(entry);
		const struct limpet_map *map;

		if (owner <= 1 || !sp || entry->stack_high)
			continue;
		if (remembered->stack_generation != generation) {
			remembered->stack_generation = generation;
			remembered->stack_reads = 0;
		}
		if (remembered->stack_reads++ >= MAX_STACK_READS)
			continue;
		if (!have_maps && limpet_proc_maps_read(target->pid, &maps) < 0)
			return;
		have_maps = true;
		map = limpet_proc_maps_find(&maps, sp);
		if (!map || map->perms[1] != 'w')
			continue;
		low = map->start;
		high = map->end;
		if (!strcmp(map->path, "[stack]")) {
			low = limpet_proc_main_stack_low(target, &maps, map);
		} else if (owner > sp && owner < high) {
			high = owner;
		} else {
			/* Not on its own stack now: a fibre, or an alternate stack. */
			continue;
		}
		entry->stack_low = low;
		__atomic_store_n(&entry->stack_high, high, __ATOMIC_RELEASE);
		if (generation_of(entry) != generation)
			__atomic_store_n(&entry->stack_high, 0, __ATOMIC_RELEASE);
	}
	if (have_maps)
		limpet_proc_maps_done(&maps);
}

static bool is_alive(const pid_t *tids, int count, uint32_t tid)
{
	for (int i = 0; i < count; i++)
		if ((uint32_t)tids[i] == tid)
			return true;
	return false;
}

/* Threads, by the tids that limpet sees, and by those that the target does; 0: it has ended since.
 * Of none, if they cannot be listed, or one of them cannot be read: it may live. To be freed in any
 * case. */
static void list_threads(const struct limpet_target *target, struct limpet_thread_list *ret)
{
	struct limpet_proc_status status;
	int count = limpet_proc_tasks(target->pid, &ret->tids), error;

	if (count <= 0)
		return;
	ret->own = calloc((size_t)count, sizeof(*ret->own));
	if (!ret->own || limpet_proc_status_read(target->pid, &status) < 0)
		return;
	if (!status.other_pid_ns) {
		memcpy(ret->own, ret->tids, (size_t)count * sizeof(*ret->own));
		ret->count = count;
		return;
	}
	for (int i = 0; i < count; i++) {
		error = limpet_proc_status_read(ret->tids[i], &status);
		if (error && !limpet_proc_is_gone(error))
			return;
		ret->own[i] = error ? 0 : status.ns_pid;
	}
	ret->count = count;
}

static void list_done(struct limpet_thread_list *list)
{
	free(list->tids);
	free(list->own);
}

void limpet_thread_states_name_all(struct limpet_thread_states *states)
{
	const struct limpet_target *target = limpet_session_target(states->session);
	struct limpet_thread_list list = {.count = 0};

	list_threads(target, &list);
	limpet_thread_names_refresh(states->names, states->recorder, target, &list, true);
	list_done(&list);
}

static void clear_entry(struct limpet_thread_states *states, uint32_t index)
{
	struct limpet_thread *entry = thread_at(states, index);

	limpet_chunk_reader_end_thread(states->reader, index);
	limpet_agent_counts_clear(states->counts, index);
	entry->intent = 0;
	entry->held_intent = 0;
	entry->depth = 0;
	entry->first_chunk = LIMPET_CHUNK_NONE;
	entry->stack_high = 0;
	/* Pairs with the compare and exchange by which the agent claims the entry. */
	__atomic_store_n(&entry->thread_pointer, 0, __ATOMIC_RELEASE);
}

void limpet_thread_states_clear_dead(struct limpet_thread_states *states)
{
	const uint64_t changing = 1;
	struct limpet_thread_list list = {.count = 0};

	/* Before the list is made: a thread that starts and claims an entry later is not in it. */
	for (uint32_t i = next_used(states, 0); i < states->thread_count;
	     i = next_used(states, i + 1)) {
		const struct limpet_thread *entry = thread_at(states, i);
		bool owned = __atomic_load_n(&entry->thread_pointer, __ATOMIC_ACQUIRE) > changing;

		states->remembered[i].first_generation = owned ? generation_of(entry) : 0;
	}
	list_threads(limpet_session_target(states->session), &list);
	limpet_thread_names_refresh(states->names, states->recorder,
				    limpet_session_target(states->session), &list, false);
	for (uint32_t i = next_used(states, 0); i < states->thread_count && list.count;
	     i = next_used(states, i + 1)) {
		struct limpet_thread *entry = thread_at(states, i);
		uint32_t generation = states->remembered[i].first_generation;
		uint64_t owner = __atomic_load_n(&entry->thread_pointer, __ATOMIC_ACQUIRE);

		if (!generation || owner <= changing || generation_of(entry) != generation ||
		    is_alive(list.own, list.count, entry->tid))
			continue;
		/* A new thread may be taking over the thread pointer at this moment: then the entry
		 * is its own. */
		if (!__atomic_compare_exchange_n(&entry->thread_pointer, &owner, changing, false,
						 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		if (generation_of(entry) == generation)
			clear_entry(states, i);
		else /* it was taken over since it was checked */
			__atomic_store_n(&entry->thread_pointer, owner, __ATOMIC_RELEASE);
	}
	list_done(&list);
}
