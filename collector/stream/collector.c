#include "collector/stream/collector.h"
#include "injector/proc/cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "collector/stream/agent_counts.h"
#include "collector/stream/description.h"
#include "collector/stream/look_ahead.h"
#include "collector/stream/module_table.h"
#include "collector/stream/plausible.h"
#include "collector/stream/reorder.h"
#include "collector/stream/stack_tree.h"
#include "collector/stream/thread_names.h"
#include "common/arch.h"
#include "common/clock.h"
#include "common/wire.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"

#define CODE_NS 1000000000u
#define LOOK_SHARE 20u /* of the time, at most, for modules that were not reported */
#define MAX_STACK_LOOKS 3u
#define RANGES_NS 200000000u
/* Nodes of a stack: its frames, and its owner. */
#define MAX_NODE_CHAIN (LIMPET_STACK_FRAMES + 1)
#define RECORD_WORDS 3u
#define RECORDS_PER_CHUNK (LIMPET_CHUNK_DATA_BYTES / (RECORD_WORDS * sizeof(uint64_t)))
#define CHUNKS_AT_ONCE 32u
#define MOVED_LIMIT 64u /* more are taken as released */

/* The last event that was read in a chunk, if it is an allocation that the thread may still mark
 * LIMPET_EVENT_FREED. */
struct last_read {
	bool may_be_freed;
	uint32_t offset; /* of the record in the chunk */
	uint32_t number, time;
	uint64_t address, size;
};

/* State of reading a thread's entry. The positions in chunks are only in private memory. */
struct cursor {
	uint32_t chunk;  /* index, 0: none yet */
	uint32_t offset; /* bytes read */
	uint32_t tid;
	uint64_t sequence;                        /* of that chunk */
	uint64_t last_allocation;                 /* address; 0: freed, or unknown */
	struct limpet_description_base described; /* last in that chunk */
	struct last_read last;
	bool broken; /* its chain led to a chunk that is not the next one */
	uint32_t stack_generation, stack_looks;
	uint32_t first_generation; /* of the claim before threads were listed; 0: none */
};

struct limpet_collector {
	struct limpet_session *session;
	struct limpet_recorder *recorder;
	struct limpet_module_table *table;
	struct limpet_reorder *reorder;
	struct limpet_shm *shm;
	struct limpet_cgroup cgroup;
	bool has_cgroup;
	struct cursor *cursors;
	const struct limpet_segment
		*segment; /* has the layout; the one in the shared memory is hostile */
	uint32_t thread_count, chunk_count;
	struct limpet_stack_tree *stacks;
	struct limpet_look_ahead *ahead;
	struct limpet_thread_names *names;
	uint64_t lost_stacks[LIMPET_LOST_STACKS]; /* events */
	uint64_t begin_ns, end_ns;                /* end_ns: 0 while the capture runs */
	uint64_t time_units;   /* of LIMPET_TIME_UNIT_NS, as last written for the agent */
	uint64_t last_time_ns; /* of a record */
	struct limpet_agent_counts *counts;
	uint32_t noted;                                        /* LIMPET_NOTED_*, as of the end */
	struct limpet_description description;                 /* the one that is being read */
	struct limpet_numbered decoded[RECORDS_PER_CHUNK + 1]; /* of the chunk that is being read */
	struct limpet_record moved[MOVED_LIMIT];               /* see find_moved() */
	size_t moved_count;
	uint64_t turn_ns;      /* duration of LIMPET_TURN_PAUSES on this processor */
	uint32_t chunk_budget; /* chunks that one call may still open: twice the number of chunks */
	uint32_t *unread;      /* threads that have more than one chunk */
	uint64_t *intents;     /* bitmap of counters, while gaps are checked */
	int64_t recorded;      /* in this drain */
	int record_error;      /* the first error of this drain */
	uint64_t bad_records;
	unsigned rescans;
	bool broken;
	uint32_t modules_seen; /* shm->modules_seen when the modules were last read */
	uint32_t bell;         /* shm->bell before the last drain */
	bool called;           /* it had changed since the drain before */
	bool more;             /* the last drain left something unread */
	/* How much of the agent's memory the target has, and the bell and RSS when that was
	 * measured. */
	uint64_t agent_bytes, agent_file_bytes, agent_rss_bytes;
	bool agent_is_known;
	uint32_t agent_bell;
	uint32_t unknown_count;
	/* The ranges by which the agent reads other stacks: a private copy, since the target can
	 * write to the shared one. */
	struct range {
		uint64_t low, high; /* high 0: free */
	} ranges[LIMPET_STACK_RANGES];
	uint32_t next_range; /* the next to be replaced */
	uint64_t ranges_ns, next_ranges_ns;
	bool overloads;        /* the agent may sample for lack of room */
	uint64_t next_look_ns; /* for a module that the agent did not report */
	/* Anonymous executable memory: JIT-compiled code, at the last look. */
	struct range *code;
	size_t code_count;
	uint64_t code_ns;
	bool has_named; /* functions that the user named */
	struct limpet_plausible plausible;
};

/* ---------------------------------------------------------------- shared memory, with care */

static struct limpet_thread *thread_at(const struct limpet_collector *collector, uint32_t index)
{
	return limpet_segment_thread(collector->segment, index);
}

static struct limpet_chunk *chunk_at(const struct limpet_collector *collector, uint32_t index)
{
	return limpet_segment_chunk(collector->segment, index);
}

/* The generation of the claim: another one means that another thread owns the entry. */
static uint32_t generation_of(const struct limpet_thread *entry)
{
	return __atomic_load_n(&entry->generation, __ATOMIC_ACQUIRE);
}

/* Gives a chunk back to the agent: pairs with the acquire in the agent's chunk_take(). */
static void chunk_release(struct limpet_collector *collector, uint32_t index)
{
	uint64_t *map = limpet_segment_free_chunks(collector->segment);

	__atomic_fetch_or(&map[(index - 1) / 64], 1ull << ((index - 1) % 64), __ATOMIC_RELEASE);
}

/* ---------------------------------------------------------------- life */

/* How long a thread of the target takes for one turn of waiting for room: it cannot read a clock.
 * The minimum of several runs, as this thread may be preempted. */
static uint64_t measure_turn_ns(void)
{
	uint64_t least_ns = UINT64_MAX;

	for (unsigned i = 0; i < 16; i++) {
		uint64_t began_ns = limpet_monotonic_ns(), took_ns;

		for (unsigned k = 0; k < LIMPET_TURN_PAUSES; k++)
			limpet_pause();
		took_ns = limpet_monotonic_ns() - began_ns;
		if (took_ns < least_ns)
			least_ns = took_ns;
	}
	return least_ns ? least_ns : 1;
}

static limpet_reorder_fn record;

int limpet_collector_new(struct limpet_session *session, struct limpet_recorder *recorder,
			 struct limpet_collector **ret)
{
	struct limpet_collector *collector = calloc(1, sizeof(*collector));
	const struct limpet_segment *segment = limpet_session_segment(session);
	int error = -ENOMEM;

	if (!collector)
		return -ENOMEM;
	collector->session = session;
	collector->recorder = recorder;
	collector->segment = segment;
	collector->shm = segment->shm;
	collector->thread_count = segment->layout.thread_count;
	collector->chunk_count = segment->layout.chunk_count;
	/* The target does not have the shared memory yet. */
	collector->overloads = segment->shm->overload_bytes != 0;
	collector->has_named = limpet_session_has_named(session);
	collector->has_cgroup =
		limpet_cgroup_find(limpet_session_pid(session), &collector->cgroup) == 0;
	collector->turn_ns = measure_turn_ns();
	collector->cursors = calloc(collector->thread_count, sizeof(*collector->cursors));
	collector->stacks = limpet_stack_tree_new();
	if (collector->stacks)
		collector->ahead = limpet_look_ahead_new(segment, collector->stacks);
	collector->unread = calloc(collector->thread_count, sizeof(*collector->unread));
	collector->intents = calloc(LIMPET_ORDER_COUNTERS / 64 + 1, sizeof(*collector->intents));
	collector->reorder = limpet_reorder_new(record, collector);
	collector->names = limpet_thread_names_new();
	collector->counts = limpet_agent_counts_new(segment);
	if (collector->counts && collector->cursors && collector->ahead && collector->unread &&
	    collector->intents && collector->reorder && collector->names)
		error = limpet_module_table_new(limpet_session_modules(session), collector->shm,
						recorder, &collector->table);
	if (error) {
		limpet_collector_free(collector);
		return error;
	}
	(void)limpet_module_table_update(collector->table, 0);
	*ret = collector;
	return 0;
}

void limpet_collector_free(struct limpet_collector *collector)
{
	if (!collector)
		return;
	limpet_module_table_free(collector->table);
	limpet_thread_names_free(collector->names);
	limpet_agent_counts_free(collector->counts);
	free(collector->code);
	limpet_reorder_free(collector->reorder);
	free(collector->unread);
	free(collector->intents);
	free(collector->cursors);
	limpet_look_ahead_free(collector->ahead);
	limpet_stack_tree_free(collector->stacks);
	free(collector);
}

static uint32_t next_used(const struct limpet_collector *collector, uint32_t from)
{
	return limpet_segment_next_used(collector->segment, from);
}

/* ---------------------------------------------------------------- other stacks than threads' own
 */

static void set_range(struct limpet_stack_range *range, uint64_t low, uint64_t high)
{
	/* Pairs with the agent's loads of the version before and after it reads the range. */
	__atomic_fetch_add(&range->version, 1, __ATOMIC_ACQ_REL);
	__atomic_store_n(&range->low, low, __ATOMIC_RELAXED);
	__atomic_store_n(&range->high, high, __ATOMIC_RELAXED);
	__atomic_fetch_add(&range->version, 1, __ATOMIC_RELEASE);
}

/* Memory that may be the stack of a fibre or a signal handler. */
static bool may_be_a_stack(const struct limpet_map *map)
{
	return map && map->perms[0] == 'r' && map->perms[1] == 'w';
}

static void publish_range(struct limpet_collector *collector, const struct limpet_map *map)
{
	uint32_t at = collector->next_range;

	if (!may_be_a_stack(map))
		return;
	for (uint32_t i = 0; i < LIMPET_STACK_RANGES; i++) {
		const struct range *range = &collector->ranges[i];

		if (range->low == map->start && range->high == map->end)
			return;
		if (!range->high)
			at = i;
	}
	if (at == collector->next_range)
		collector->next_range = (at + 1) % LIMPET_STACK_RANGES;
	collector->ranges[at] = (struct range){map->start, map->end};
	set_range(&collector->shm->ranges[at], map->start, map->end);
}

/* ---------------------------------------------------------------- time */

/* After the end, the agent stamps records with the unit after the last one. A hook reads it after
 * it was called: so no record of a block is stamped with less than one that came before. */
static void tell_time(struct limpet_collector *collector, uint64_t least)
{
	const uint64_t units = limpet_collector_time_ns(collector) / LIMPET_TIME_UNIT_NS +
			       (collector->end_ns != 0);

	collector->time_units = units > least ? units : least;
	__atomic_store_n(&collector->shm->time, (uint32_t)collector->time_units, __ATOMIC_RELAXED);
}

void limpet_collector_begin(struct limpet_collector *collector)
{
	const struct limpet_maps *maps = &limpet_session_modules(collector->session)->maps;

	/* Some of these may be stacks: the first walks there need not wait for a look at the
	 * maps. */
	for (size_t i = 0, count = 0; i < maps->count && count < LIMPET_STACK_RANGES; i++) {
		const struct limpet_map *map = &maps->list[i];

		if (!map->inode && strcmp(map->path, "[stack]") != 0 && may_be_a_stack(map) &&
		    ++count)
			publish_range(collector, map);
	}
	for (uint32_t i = 1; limpet_session_owner(collector->session, i); i++)
		limpet_recorder_name_owner(collector->recorder, i,
					   limpet_session_owner(collector->session, i));
	/* Events before this have time 0, the initial value in the shared memory. */
	collector->begin_ns = limpet_monotonic_ns();
	limpet_collector_tell_time(collector);
}

void limpet_collector_end(struct limpet_collector *collector)
{
	collector->noted = limpet_collector_noted(collector);
	limpet_agent_counts_end(collector->counts);
	collector->end_ns = limpet_monotonic_ns();
	tell_time(collector, collector->time_units + 1);
	__atomic_store_n(&collector->shm->ended, 1, __ATOMIC_RELEASE);
}

void limpet_collector_tell_time(struct limpet_collector *collector)
{
	tell_time(collector, collector->time_units);
}

uint64_t limpet_collector_begin_time(struct limpet_collector *collector)
{
	limpet_collector_tell_time(collector);
	tell_time(collector, collector->time_units + 1);
	return collector->time_units * LIMPET_TIME_UNIT_NS;
}

uint64_t limpet_collector_time_ns(const struct limpet_collector *collector)
{
	return (collector->end_ns ?: limpet_monotonic_ns()) - collector->begin_ns;
}

/* ---------------------------------------------------------------- reading chunks */

/* A record's time is at most the last one written for the agent, and is not so old that it has
 * wrapped around. */
static uint64_t time_of(struct limpet_collector *collector, uint32_t time)
{
	const uint64_t age = (collector->time_units - time) & LIMPET_TIME_MASK;
	uint64_t time_ns = age < collector->time_units
				   ? (collector->time_units - age) * LIMPET_TIME_UNIT_NS
				   : 0;

	/* Times in the trace do not decrease, but a record may have waited for another. */
	if (time_ns < collector->last_time_ns)
		time_ns = collector->last_time_ns;
	collector->last_time_ns = time_ns;
	return time_ns;
}

static bool is_after_end(const struct limpet_collector *collector,
			 const struct limpet_record *record)
{
	return collector->end_ns && record->time == (collector->time_units & LIMPET_TIME_MASK);
}

/* The rest of decode_record(), for records with flags and for other events. */
static bool decode_rare(const struct limpet_collector *collector, const uint64_t *words,
			struct limpet_record *ret)
{
	const uint32_t last = collector->overloads ? LIMPET_EVENT_ROOM : LIMPET_EVENT_MUNMAP;
	const bool wide = words[0] & LIMPET_EVENT_WIDE, flag = words[0] & LIMPET_EVENT_SAMPLED;

	if (wide) {
		ret->size = words[2];
		ret->node = (uint32_t)words[3];
	}
	ret->sampled = flag && ret->kind == LIMPET_EVENT_ALLOC;
	ret->if_reused = flag && ret->kind == LIMPET_EVENT_FREE;
	if (flag && !(ret->sampled && collector->overloads) &&
	    !(ret->if_reused && collector->end_ns))
		return false;
	if (ret->freed && (ret->kind != LIMPET_EVENT_ALLOC || ret->sampled || wide))
		return false;
	return (ret->kind >= LIMPET_EVENT_ALLOC && ret->kind <= last) ||
	       ret->kind == LIMPET_EVENT_VOID;
}

/* A record of 3 words, or 4 if it is wide. Returns whether there is such a record. */
static inline bool decode_record(const struct limpet_collector *collector, const uint64_t *words,
				 uint32_t tid, struct limpet_record *ret)
{
	const uint32_t type = LIMPET_EVENT_TYPE(words[0]);

	*ret = (struct limpet_record){.time = LIMPET_EVENT_TIME(words[0]),
				      .address = LIMPET_HIDDEN(words[1]),
				      .size = (uint32_t)words[2],
				      .node = (uint32_t)(words[2] >> 32),
				      .thread = tid,
				      .kind = (uint8_t)LIMPET_EVENT_KIND(words[0]),
				      .freed = type & LIMPET_EVENT_FREED};
	return (type & ~LIMPET_EVENT_FREED) == LIMPET_EVENT_ALLOC || type == LIMPET_EVENT_FREE ||
	       decode_rare(collector, words, ret);
}

/* To be called in the order of the thread's calls, which the counters do not keep. */
static inline void note_temporary(struct limpet_collector *collector, struct cursor *cursor,
				  struct limpet_record *record)
{
	switch (record->kind) {
	case LIMPET_EVENT_ALLOC:
		cursor->last_allocation = record->freed ? 0 : record->address;
		break;
	case LIMPET_EVENT_FREE:
		record->temporary = cursor->last_allocation == record->address;
		if (record->temporary)
			cursor->last_allocation = 0;
		break;
	case LIMPET_EVENT_OVERLOAD:
	case LIMPET_EVENT_ROOM:
		/* Unrecorded events may lie between an allocation and its free. */
		for (uint32_t i = 0; i < collector->thread_count; i++)
			collector->cursors[i].last_allocation = 0;
		break;
	default:
		break;
	}
}

/* The node of a stack, by the agent's number; 0: unknown, which is counted. Number 0: the agent
 * could not describe the stack. */
static uint32_t find_stack(struct limpet_collector *collector, uint32_t number)
{
	uint32_t node;

	if (!number) {
		collector->lost_stacks[LIMPET_LOST_BY_AGENT]++;
		return 0;
	}
	node = limpet_stack_tree_find(collector->stacks, number);
	if (node == LIMPET_STACK_UNSEEN && limpet_look_ahead_find(collector->ahead, number))
		node = limpet_stack_tree_find(collector->stacks, number);
	if (node != LIMPET_STACK_UNSEEN && node != LIMPET_STACK_LOST)
		return node;
	collector->lost_stacks[node == LIMPET_STACK_LOST ? LIMPET_LOST_NO_ROOM
							 : LIMPET_LOST_NOT_DESCRIBED]++;
	return 0;
}

/* Reads a description and returns its bytes; an invalid one is skipped. */
static uint32_t read_description(struct limpet_collector *collector, struct cursor *cursor,
				 const uint8_t *at, uint32_t bytes)
{
	struct limpet_description *description = &collector->description;
	uint32_t taken = limpet_description_read(at, bytes, description), below;

	if (!taken) {
		collector->bad_records++;
		return RECORD_WORDS * 8;
	}
	below = limpet_description_below(description);
	if (below && limpet_stack_tree_find(collector->stacks, below) == LIMPET_STACK_UNSEEN)
		(void)limpet_look_ahead_find(collector->ahead, below);
	if (!limpet_description_enter(description, collector->stacks, &cursor->described))
		collector->bad_records++;
	return taken;
}

static inline void put_into_list(struct limpet_collector *collector, struct cursor *cursor,
				 uint32_t number, struct limpet_numbered *it)
{
	it->number = number;
	it->counter = it->record.kind <= LIMPET_EVENT_FREE
			      ? limpet_order_of_block(it->record.address)
			      : limpet_order_counter(it->record.kind, it->record.address);
	limpet_reorder_prefetch(collector->reorder, it->counter);
	note_temporary(collector, cursor, &it->record);
}

/* The free of the block of the record that was read last, if the thread has marked that record
 * since. Only the mark is read again. Returns the number of records: 1 or 0. */
static size_t decode_mark(struct limpet_collector *collector, struct cursor *cursor,
			  const uint8_t *data, struct limpet_numbered *ret)
{
	struct last_read *last = &cursor->last;
	uint64_t word;

	if (!last->may_be_freed)
		return 0;
	limpet_shared_copy(&word, data + last->offset, sizeof(word));
	if (!(word & LIMPET_EVENT_FREED))
		return 0;
	last->may_be_freed = false;
	ret->record = (struct limpet_record){.time = last->time,
					     .address = last->address,
					     .size = last->size,
					     .thread = cursor->tid,
					     .kind = LIMPET_EVENT_FREE};
	put_into_list(collector, cursor, last->number + 1, ret);
	return 1;
}

static struct last_read last_read_of(const struct limpet_numbered *it, uint32_t offset)
{
	return (struct last_read){.may_be_freed = it->record.kind == LIMPET_EVENT_ALLOC &&
						  !it->record.freed && !it->record.sampled,
				  .offset = offset,
				  .number = it->number,
				  .time = it->record.time,
				  .address = it->record.address,
				  .size = it->record.size};
}

/* Returns the number of records that are whole, up to RECORDS_PER_CHUNK + 1. */
static size_t decode_chunk(struct limpet_collector *collector, uint32_t thread, uint32_t committed,
			   struct limpet_numbered *ret)
{
	struct cursor *cursor = &collector->cursors[thread];
	const uint8_t *data =
		(const uint8_t *)chunk_at(collector, cursor->chunk) + sizeof(struct limpet_chunk);
	const size_t marks = decode_mark(collector, cursor, data, ret);
	uint64_t words[4];
	size_t count = marks;
	uint32_t at = cursor->offset, last_at = 0;

	if (committed > LIMPET_CHUNK_DATA_BYTES)
		committed = LIMPET_CHUNK_DATA_BYTES;
	while (at + RECORD_WORDS * 8 <= committed) {
		struct limpet_numbered *it = &ret[count];
		uint32_t bytes = RECORD_WORDS * 8;

		limpet_shared_copy(words, data + at, bytes);
		if (LIMPET_EVENT_TYPE(words[0]) == LIMPET_EVENT_STACK) {
			at += read_description(collector, cursor, data + at, committed - at);
			continue;
		}
		if (words[0] & LIMPET_EVENT_WIDE) {
			if (at + bytes + 8 > committed)
				break;
			limpet_shared_copy(&words[3], data + at + bytes, 8);
			bytes += 8;
		}
		at += bytes;
		if (!decode_record(collector, words, cursor->tid, &it->record)) {
			collector->bad_records++;
			continue;
		}
		if ((it->record.kind == LIMPET_EVENT_ALLOC ||
		     it->record.kind == LIMPET_EVENT_MMAP) &&
		    !is_after_end(collector, &it->record))
			it->record.node = find_stack(collector, it->record.node);
		else
			it->record.node = 0;
		put_into_list(collector, cursor, LIMPET_EVENT_NUMBER(words[0]), it);
		last_at = at - bytes;
		count++;
	}
	cursor->offset = at;
	if (count > marks)
		cursor->last = last_read_of(&ret[count - 1], last_at);
	return count;
}

static void read_chunk(struct limpet_collector *collector, uint32_t thread, uint32_t committed)
{
	const size_t count = decode_chunk(collector, thread, committed, collector->decoded);

	limpet_reorder_put(collector->reorder, collector->decoded, count);
}

static bool open_chunk(struct limpet_collector *collector, uint32_t thread, uint32_t index,
		       uint64_t sequence)
{
	struct cursor *cursor = &collector->cursors[thread];
	const struct limpet_chunk *chunk = chunk_at(collector, index);

	if (!collector->chunk_budget)
		return false;
	collector->chunk_budget--;
	if (!limpet_segment_chunk_follows(chunk, thread, sequence)) {
		cursor->broken = collector->broken = true;
		collector->bad_records++;
		return false;
	}
	cursor->chunk = index;
	cursor->offset = 0;
	if (cursor->tid != chunk->tid)
		cursor->last_allocation = 0;
	cursor->tid = chunk->tid;
	cursor->sequence = sequence;
	cursor->described = (struct limpet_description_base){0};
	cursor->last = (struct last_read){0};
	limpet_look_ahead_follow(collector->ahead, thread, index, sequence);
	return true;
}

/* Reads what the thread has published in its chunk; a full chunk goes back to the agent. Returns
 * whether there is another one. */
static bool read_thread(struct limpet_collector *collector, uint32_t thread)
{
	struct cursor *cursor = &collector->cursors[thread];
	struct limpet_thread *entry = thread_at(collector, thread);
	struct limpet_chunk *chunk;
	uint32_t next, old;

	if (cursor->broken)
		return false;
	if (!cursor->chunk) {
		uint32_t first = __atomic_load_n(&entry->first_chunk, __ATOMIC_ACQUIRE);

		if (!limpet_segment_has_chunk(collector->segment, first) ||
		    !open_chunk(collector, thread, first, 0))
			return false;
	}
	chunk = chunk_at(collector, cursor->chunk);
	/* Pairs with the agent's release of `next`, after which nothing is added here. */
	next = __atomic_load_n(&chunk->next, __ATOMIC_ACQUIRE);
	old = cursor->chunk;
	read_chunk(collector, thread, __atomic_load_n(&chunk->committed, __ATOMIC_ACQUIRE));
	if (!limpet_segment_has_chunk(collector->segment, next) ||
	    !open_chunk(collector, thread, next, cursor->sequence + 1))
		return false;
	chunk_release(collector, old);
	return true;
}

/* Reads a chunk of each thread in turn, so that records for which those of one thread wait are read
 * soon after them. At most `rounds`: fast threads would keep the collector here forever. Returns
 * whether the rounds, or the budget, ended with more to read. */
static bool read_threads(struct limpet_collector *collector, uint32_t rounds)
{
	uint32_t count = 0;

	for (uint32_t i = next_used(collector, 0); i < collector->thread_count;
	     i = next_used(collector, i + 1)) {
		if (__atomic_load_n(&thread_at(collector, i)->thread_pointer, __ATOMIC_ACQUIRE) &&
		    read_thread(collector, i))
			collector->unread[count++] = i;
	}
	for (uint32_t round = 1; count && round < rounds; round++) {
		uint32_t left = 0;

		__atomic_fetch_add(&collector->shm->beats, 1, __ATOMIC_RELAXED);
		for (uint32_t i = 0; i < count; i++)
			if (read_thread(collector, collector->unread[i]))
				collector->unread[left++] = collector->unread[i];
		count = left;
	}
	limpet_reorder_flush(collector->reorder);
	return count || !collector->chunk_budget;
}

/* ---------------------------------------------------------------- stacks */

/* Reads the list of modules, and how many had been unloaded by then: none may be unloaded in
 * between. Returns whether anything is new. */
static bool look_at_modules(struct limpet_collector *collector)
{
	const unsigned enough = 4;
	bool changed = false;

	for (unsigned i = 0; i < enough; i++) {
		uint32_t gone = __atomic_load_n(&collector->shm->gone_count, __ATOMIC_ACQUIRE);

		changed |= limpet_session_refresh_modules(collector->session) == 1;
		if (gone != __atomic_load_n(&collector->shm->gone_count, __ATOMIC_ACQUIRE))
			continue;
		if (!changed || limpet_module_table_update(collector->table, gone))
			break;
	}
	return changed;
}

/* Called at once when the agent reports new modules: a plugin may be unloaded before the next
 * look. */
static bool update_modules(struct limpet_collector *collector)
{
	bool changed;

	collector->modules_seen = __atomic_load_n(&collector->shm->modules_seen, __ATOMIC_ACQUIRE);
	changed = look_at_modules(collector);
	if (changed)
		collector->rescans = 0;
	return changed;
}

static bool loader_has_called(const struct limpet_collector *collector)
{
	return __atomic_load_n(&collector->shm->modules_seen, __ATOMIC_ACQUIRE) !=
	       collector->modules_seen;
}

static bool is_made_code(const struct limpet_map *map)
{
	return map->perms[2] == 'x' && !map->inode &&
	       (!map->path[0] || !strncmp(map->path, "[anon:", strlen("[anon:")));
}

static void look_at_code(struct limpet_collector *collector)
{
	struct limpet_maps maps;
	struct range *code;
	size_t count = 0;

	if (limpet_proc_maps_read(limpet_session_pid(collector->session), &maps) < 0)
		return;
	code = calloc(maps.count + 1, sizeof(*code));
	for (size_t i = 0; code && i < maps.count; i++)
		if (is_made_code(&maps.list[i]))
			code[count++] = (struct range){maps.list[i].start, maps.list[i].end};
	limpet_module_table_add_again(collector->table, &maps);
	limpet_proc_maps_done(&maps);
	free(collector->code);
	collector->code = code;
	collector->code_count = count;
	collector->code_ns = limpet_monotonic_ns();
}

/* Whether an address is in JIT-compiled code: in anonymous executable memory from which no module
 * was unloaded since the stack was recorded. */
static bool was_made(const struct limpet_collector *collector, uint64_t address, uint32_t gone)
{
	const struct limpet_shm *shm = collector->shm;
	size_t low = 0, high = collector->code_count;
	uint32_t count = __atomic_load_n(&shm->gone_places, __ATOMIC_ACQUIRE);

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (address < collector->code[middle].low)
			high = middle;
		else if (address >= collector->code[middle].high)
			low = middle + 1;
		else
			return limpet_gone_find(shm->gone, count, address) == gone;
	}
	return false;
}

/* Finds the module of a frame. A module that was not reported yet may be unloaded before it is, so
 * the modules are read at once; but not each time, since code that the program generates is in no
 * module. ret_made: the frame is in such code. */
static uint32_t find_module(struct limpet_collector *collector,
			    const struct limpet_stack_node *node, bool *ret_made)
{
	uint32_t gone = LIMPET_STACK_NODE_GONE(node->flags);
	uint64_t address = node->address - 1, now_ns;
	uint32_t module = limpet_module_table_find(collector->table, address, gone);

	if (module)
		return module;
	now_ns = limpet_monotonic_ns();
	if (now_ns >= collector->next_look_ns || loader_has_called(collector)) {
		if (update_modules(collector) || !was_made(collector, address, gone) ||
		    now_ns - collector->code_ns > CODE_NS)
			look_at_code(collector);
		collector->next_look_ns = now_ns + (limpet_monotonic_ns() - now_ns) * LOOK_SHARE;
		module = limpet_module_table_find(collector->table, address, gone);
	}
	*ret_made = !module && was_made(collector, address, gone);
	return module;
}

static int add_node(struct limpet_collector *collector, uint32_t node)
{
	const struct limpet_stack_node *it = limpet_stack_tree_node(collector->stacks, node);
	bool is_owner = it->flags & LIMPET_STACK_NODE_OWNER, made = false;
	uint32_t module = is_owner ? 0 : find_module(collector, it, &made);
	uint32_t flags = is_owner ? LIMPET_TRACE_NODE_OWNER : made ? LIMPET_TRACE_NODE_MADE : 0;

	if (is_owner && !limpet_session_owner(collector->session, (uint32_t)it->address))
		flags = 0;
	if (it->flags & LIMPET_STACK_NODE_TRUNCATED)
		flags |= LIMPET_TRACE_NODE_TRUNCATED;
	return limpet_recorder_add_node(collector->recorder, node, it->parent, it->address, module,
					flags);
}

/* Adds a stack to the trace, outermost frame first; returns its node. Each node is added once: one
 * that was refused would be refused again. */
static uint32_t describe_node(struct limpet_collector *collector, uint32_t node)
{
	uint32_t chain[MAX_NODE_CHAIN], count = 0, at = node;
	enum limpet_stack_mark mark = LIMPET_STACK_MARKED;

	while (at &&
	       (mark = limpet_stack_tree_mark(collector->stacks, at)) == LIMPET_STACK_NOT_MARKED) {
		chain[count++] = at;
		at = limpet_stack_tree_node(collector->stacks, at)->parent;
	}
	while (count) {
		at = chain[--count];
		if (mark == LIMPET_STACK_MARK_REFUSED || add_node(collector, at) < 0) {
			limpet_stack_tree_refuse(collector->stacks, at);
			mark = LIMPET_STACK_MARK_REFUSED;
		}
	}
	if (mark != LIMPET_STACK_MARK_REFUSED)
		return node;
	collector->lost_stacks[LIMPET_LOST_NO_ROOM]++;
	return 0;
}

/* ---------------------------------------------------------------- draining */

/* For functions that the user named: their stacks have the owner. */
static void look_whether_plausible(struct limpet_collector *collector,
				   const struct limpet_record *record)
{
	const struct limpet_stack_node *node;

	if (record->kind == LIMPET_EVENT_FREE || record->freed)
		limpet_plausible_released(&collector->plausible, record->address);
	if (record->kind != LIMPET_EVENT_ALLOC || !record->node)
		return;
	node = limpet_stack_tree_node(collector->stacks, record->node);
	if (node->flags & LIMPET_STACK_NODE_OWNER)
		limpet_plausible_made(&collector->plausible, limpet_session_pid(collector->session),
				      (uint32_t)node->address, record->address, record->size);
}

static void set_times(struct limpet_collector *collector, struct limpet_record *records,
		      size_t count)
{
	for (size_t i = 0; i < count; i++)
		records[i].time_ns = i && records[i].time == records[i - 1].time
					     ? records[i - 1].time_ns
					     : time_of(collector, records[i].time);
}

static void pass_on(struct limpet_collector *collector, struct limpet_record *records, size_t count)
{
	size_t at = 0;
	int error;

	set_times(collector, records, count);
	while ((at = limpet_recorder_find_unknown(collector->recorder, records, at, count)) <
	       count) {
		records[at].node = describe_node(collector, records[at].node);
		at++;
	}
	for (size_t i = 0; i < count && collector->has_named; i++)
		look_whether_plausible(collector, &records[i]);
	error = limpet_recorder_add_events(collector->recorder, records, count);
	if (error < 0 && !collector->record_error)
		collector->record_error = error;
}

/* The release of a block that a realloc under way at the end had moved, and that another thread has
 * got before the end. NULL: there is none. */
static struct limpet_record *find_moved(struct limpet_collector *collector, uint64_t address)
{
	for (size_t i = 0; i < collector->moved_count; i++)
		if (collector->moved[i].address == address)
			return &collector->moved[i];
	return NULL;
}

/* Leaves out what came after the end, and calls that had not returned by then. */
static void pass_on_up_to_end(struct limpet_collector *collector, struct limpet_record *records,
			      size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		struct limpet_record *moved;

		if (is_after_end(collector, &records[i]))
			continue;
		if (records[i].if_reused && collector->moved_count < MOVED_LIMIT) {
			collector->moved[collector->moved_count++] = records[i];
			continue;
		}
		moved = collector->moved_count && records[i].kind == LIMPET_EVENT_ALLOC
				? find_moved(collector, records[i].address)
				: NULL;
		if (moved) {
			pass_on(collector, records, kept);
			kept = 0;
			pass_on(collector, moved, 1);
			*moved = collector->moved[--collector->moved_count];
		}
		records[kept++] = records[i];
	}
	pass_on(collector, records, kept);
}

/* Passes records from the reorder to the recorder. */
static void record(void *context, struct limpet_record *records, size_t count)
{
	struct limpet_collector *collector = context;

	collector->recorded += (int64_t)count;
	if (collector->end_ns)
		pass_on_up_to_end(collector, records, count);
	else
		pass_on(collector, records, count);
}

static int64_t take_recorded(struct limpet_collector *collector)
{
	const int64_t recorded =
		collector->record_error ? collector->record_error : collector->recorded;

	collector->recorded = 0;
	collector->record_error = 0;
	return recorded;
}

static bool is_expected(const void *context, uint32_t counter)
{
	const struct limpet_collector *collector = context;

	return collector->intents[counter / 64] >> counter % 64 & 1;
}

static void note_intent(struct limpet_collector *collector, uint32_t intent)
{
	if (intent && intent <= LIMPET_ORDER_COUNTERS)
		collector->intents[(intent - 1) / 64] |= 1ull << (intent - 1) % 64;
}

/* A missing number was taken by a thread that had stored an intent before. Either the intent is
 * still there, or the record was published: then it is read below, or there is none. */
static void look_at_gaps(struct limpet_collector *collector, uint64_t now_ns)
{
	if (!limpet_reorder_kept(collector->reorder))
		return;
	memset(collector->intents, 0,
	       (LIMPET_ORDER_COUNTERS / 64 + 1) * sizeof(*collector->intents));
	for (uint32_t i = next_used(collector, 0); i < collector->thread_count;
	     i = next_used(collector, i + 1)) {
		const struct limpet_thread *entry = thread_at(collector, i);

		/* Pairs with the agent's release stores that follow its record. */
		note_intent(collector, __atomic_load_n(&entry->intent, __ATOMIC_ACQUIRE));
		note_intent(collector, __atomic_load_n(&entry->held_intent, __ATOMIC_ACQUIRE));
	}
	limpet_reorder_look(collector->reorder, is_expected, collector, now_ns);
}

/* Publishes how far up the agent may read each thread's stack. libc's thread control block is at
 * the top of a thread's stack and exists as long as the thread. */
static void publish_stacks(struct limpet_collector *collector)
{
	pid_t pid = limpet_session_pid(collector->session);
	struct limpet_maps maps = {0};
	bool have_maps = false;

	for (uint32_t i = next_used(collector, 0); i < collector->thread_count;
	     i = next_used(collector, i + 1)) {
		struct limpet_thread *entry = thread_at(collector, i);
		struct cursor *cursor = &collector->cursors[i];
		uint64_t owner = __atomic_load_n(&entry->thread_pointer, __ATOMIC_ACQUIRE);
		uint64_t sp = __atomic_load_n(&entry->entry_sp, __ATOMIC_RELAXED), low, high;
		uint32_t generation = generation_of(entry);
		const struct limpet_map *map;

		if (owner <= 1 || !sp || entry->stack_high)
			continue;
		if (cursor->stack_generation != generation) {
			cursor->stack_generation = generation;
			cursor->stack_looks = 0;
		}
		if (cursor->stack_looks++ >= MAX_STACK_LOOKS)
			continue;
		if (!have_maps && limpet_proc_maps_read(pid, &maps) < 0)
			return;
		have_maps = true;
		map = limpet_proc_maps_find(&maps, sp);
		if (!map || map->perms[1] != 'w')
			continue;
		low = map->start;
		high = map->end;
		if (!strcmp(map->path, "[stack]")) {
			low = limpet_proc_main_stack_low(pid, &maps, map);
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

/* Drops the ranges whose mapping is gone, or has changed. */
static void drop_ranges(struct limpet_collector *collector, const struct limpet_maps *maps)
{
	for (uint32_t i = 0; i < LIMPET_STACK_RANGES; i++) {
		struct range *range = &collector->ranges[i];
		const struct limpet_map *map =
			range->high ? limpet_proc_maps_find(maps, range->low) : NULL;

		if (!range->high ||
		    (may_be_a_stack(map) && map->start == range->low && map->end == range->high))
			continue;
		*range = (struct range){0, 0};
		set_range(&collector->shm->ranges[i], 0, 0);
	}
}

/* Publishes ranges for the stack pointers that the agent reported, in at most a twentieth of the
 * time. As long as some ranges are in use, they are checked again. */
static void publish_ranges(struct limpet_collector *collector, uint64_t now_ns)
{
	uint32_t count = __atomic_load_n(&collector->shm->unknown_count, __ATOMIC_RELAXED);
	bool used = __atomic_load_n(&collector->shm->ranges_used, __ATOMIC_RELAXED);
	struct limpet_maps maps;
	uint64_t began_ns;

	if (now_ns < collector->next_ranges_ns ||
	    (count == collector->unknown_count &&
	     (!used || now_ns - collector->ranges_ns < RANGES_NS)))
		return;
	began_ns = limpet_monotonic_ns();
	__atomic_store_n(&collector->shm->ranges_used, 0, __ATOMIC_RELAXED);
	collector->ranges_ns = now_ns;
	if (limpet_proc_maps_read(limpet_session_pid(collector->session), &maps) < 0)
		return;
	drop_ranges(collector, &maps);
	if (count - collector->unknown_count > LIMPET_UNKNOWN_STACKS)
		collector->unknown_count = count - LIMPET_UNKNOWN_STACKS;
	for (; collector->unknown_count != count; collector->unknown_count++) {
		uint32_t at = collector->unknown_count % LIMPET_UNKNOWN_STACKS;
		uint64_t sp = __atomic_load_n(&collector->shm->unknown[at], __ATOMIC_RELAXED);

		publish_range(collector, limpet_proc_maps_find(&maps, sp));
	}
	limpet_proc_maps_done(&maps);
	collector->next_ranges_ns = now_ns + (limpet_monotonic_ns() - began_ns) * LOOK_SHARE;
}

/* Everything is read: an agent that samples for lack of room may stop. It starts again when most of
 * the chunks that are free now are taken; these may not be all chunks, since each thread keeps
 * one. */
static void announce_room(struct limpet_collector *collector)
{
	const uint64_t *map = limpet_segment_free_chunks(collector->segment);
	uint32_t free_chunks = 0;

	for (uint32_t i = 0; i < collector->chunk_count / 64; i++)
		free_chunks +=
			(uint32_t)__builtin_popcountll(__atomic_load_n(&map[i], __ATOMIC_RELAXED));
	__atomic_store_n(&collector->shm->overload_below, free_chunks / LIMPET_OVERLOAD_SHARE + 1,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&collector->shm->overload_room, 1, __ATOMIC_RELAXED);
}

int64_t limpet_collector_drain(struct limpet_collector *collector)
{
	uint64_t now_ns = limpet_monotonic_ns();
	uint32_t bell;

	limpet_collector_tell_time(collector);
	collector->chunk_budget = 2 * collector->chunk_count;
	limpet_look_ahead_begin(collector->ahead);
	__atomic_fetch_add(&collector->shm->beats, 1, __ATOMIC_RELAXED);
	bell = __atomic_load_n(&collector->shm->bell, __ATOMIC_ACQUIRE);
	collector->called = bell != collector->bell;
	collector->bell = bell;
	if (loader_has_called(collector))
		(void)update_modules(collector);
	look_at_gaps(collector, now_ns);
	collector->more = read_threads(collector, CHUNKS_AT_ONCE);
	limpet_reorder_close(collector->reorder, !collector->more, now_ns);
	limpet_reorder_flush(collector->reorder);
	publish_stacks(collector);
	publish_ranges(collector, now_ns);
	if (!collector->more && collector->overloads)
		announce_room(collector);
	return take_recorded(collector);
}

int64_t limpet_collector_drain_all(struct limpet_collector *collector)
{
	limpet_collector_tell_time(collector);
	collector->chunk_budget = 2 * collector->chunk_count;
	limpet_look_ahead_begin(collector->ahead);
	(void)update_modules(collector);
	(void)read_threads(collector, collector->chunk_count + 1);
	limpet_reorder_close_all(collector->reorder);
	limpet_reorder_flush(collector->reorder);
	return take_recorded(collector);
}

/* ---------------------------------------------------------------- housekeeping */

static bool is_alive(const pid_t *tids, int count, uint32_t tid)
{
	for (int i = 0; i < count; i++)
		if ((uint32_t)tids[i] == tid)
			return true;
	return false;
}

/* Threads, by the tids that limpet sees, and by those that the target does. */
static int list_threads(pid_t pid, pid_t **ret_tids, pid_t **ret_own)
{
	struct limpet_proc_status status;
	int count = limpet_proc_tasks(pid, ret_tids);

	if (count <= 0)
		return count;
	*ret_own = calloc((size_t)count, sizeof(**ret_own));
	if (!*ret_own)
		return -ENOMEM;
	memcpy(*ret_own, *ret_tids, (size_t)count * sizeof(**ret_own));
	if (limpet_proc_status_read(pid, &status) < 0 || status.ns_pid == pid)
		return count;
	for (int i = 0; i < count; i++)
		if (limpet_proc_status_read((*ret_tids)[i], &status) == 0)
			(*ret_own)[i] = status.ns_pid;
	return count;
}

void limpet_collector_name_threads(struct limpet_collector *collector)
{
	const pid_t pid = limpet_session_pid(collector->session);
	LIMPET_FREE pid_t *tids = NULL, *own = NULL;
	int count = list_threads(pid, &tids, &own);

	limpet_thread_names_look(collector->names, collector->recorder, pid, tids, own,
				 count > 0 ? count : 0, true);
}

static void clear_entry(struct limpet_collector *collector, uint32_t index)
{
	struct limpet_thread *entry = thread_at(collector, index);
	struct cursor *cursor = &collector->cursors[index];

	while (read_thread(collector, index))
		;
	limpet_reorder_flush(collector->reorder);
	if (cursor->chunk)
		chunk_release(collector, cursor->chunk);
	limpet_agent_counts_clear(collector->counts, index);
	entry->intent = 0;
	entry->held_intent = 0;
	entry->depth = 0;
	entry->first_chunk = LIMPET_CHUNK_NONE;
	entry->stack_high = 0;
	cursor->chunk = 0;
	limpet_look_ahead_follow(collector->ahead, index, LIMPET_CHUNK_NONE, 0);
	cursor->broken = false;
	cursor->last_allocation = 0;
	/* Pairs with the compare and exchange by which the agent claims the entry. */
	__atomic_store_n(&entry->thread_pointer, 0, __ATOMIC_RELEASE);
}

static void clear_dead_threads(struct limpet_collector *collector)
{
	const uint64_t changing = 1;
	LIMPET_FREE pid_t *tids = NULL, *own = NULL;
	int count;

	/* Before the list is made: a thread that starts and claims an entry later is not in it. */
	for (uint32_t i = next_used(collector, 0); i < collector->thread_count;
	     i = next_used(collector, i + 1)) {
		const struct limpet_thread *entry = thread_at(collector, i);
		bool owned = __atomic_load_n(&entry->thread_pointer, __ATOMIC_ACQUIRE) > changing;

		collector->cursors[i].first_generation = owned ? generation_of(entry) : 0;
	}
	count = list_threads(limpet_session_pid(collector->session), &tids, &own);
	if (count <= 0)
		return;
	limpet_thread_names_look(collector->names, collector->recorder,
				 limpet_session_pid(collector->session), tids, own, count, false);
	for (uint32_t i = next_used(collector, 0); i < collector->thread_count;
	     i = next_used(collector, i + 1)) {
		struct limpet_thread *entry = thread_at(collector, i);
		uint32_t generation = collector->cursors[i].first_generation;
		uint64_t owner = __atomic_load_n(&entry->thread_pointer, __ATOMIC_ACQUIRE);

		if (!generation || owner <= changing || generation_of(entry) != generation ||
		    is_alive(own, count, entry->tid))
			continue;
		/* A new thread may be taking over the thread pointer at this moment: then the entry
		 * is its own. */
		if (!__atomic_compare_exchange_n(&entry->thread_pointer, &owner, changing, false,
						 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		if (generation_of(entry) == generation)
			clear_entry(collector, i);
		else /* it was taken over since it was checked */
			__atomic_store_n(&entry->thread_pointer, owner, __ATOMIC_RELEASE);
	}
}

void limpet_collector_housekeep(struct limpet_collector *collector)
{
	collector->chunk_budget = 2 * collector->chunk_count;
	limpet_look_ahead_begin(collector->ahead);
	clear_dead_threads(collector);
	(void)update_modules(collector);
}

static bool slot_lost_its_hook(const struct limpet_collector *collector)
{
	const struct limpet_slot *slots = limpet_segment_slots(collector->segment);
	uint32_t count = __atomic_load_n(&collector->shm->slot_count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < count && i < LIMPET_MAX_SLOTS; i++) {
		struct limpet_slot slot;
		uint64_t value;

		limpet_shared_copy(&slot, &slots[i], sizeof(slot));
		if (slot.state != LIMPET_SLOT_PATCHED ||
		    (slot.kind != LIMPET_SLOT_OF_CALLS && slot.kind != LIMPET_SLOT_OF_VARIABLE) ||
		    limpet_memory_read(limpet_session_pid(collector->session), slot.address, &value,
				       sizeof(value)) < 0)
			continue;
		if (value == limpet_session_original(collector->session, slot.hook))
			return true;
	}
	return false;
}

static bool module_is_unseen(const struct limpet_collector *collector)
{
	const struct limpet_modules *modules = limpet_session_modules(collector->session);
	const struct limpet_known_module *known = limpet_segment_known_modules(collector->segment);
	uint32_t count = __atomic_load_n(&collector->shm->module_count, __ATOMIC_ACQUIRE);

	for (size_t i = 0; i < modules->count; i++) {
		const struct limpet_module *module = &modules->list[i];
		bool seen = !module->in_list || module->agent || module->loader || module->vdso;

		for (uint32_t k = 0; k < count && k < LIMPET_MAX_KNOWN_MODULES && !seen; k++)
			seen = known[k].bias == module->bias && known[k].phdr == module->phdr;
		if (!seen)
			return true;
	}
	return false;
}

bool limpet_collector_wants_rescan(struct limpet_collector *collector)
{
	const unsigned enough = 3; /* for one change of the list */

	if (collector->rescans >= enough ||
	    (!slot_lost_its_hook(collector) && !module_is_unseen(collector)))
		return false;
	collector->rescans++;
	return true;
}

uint32_t limpet_collector_thread_states(const struct limpet_collector *collector)
{
	uint32_t states = 0;

	for (uint32_t i = next_used(collector, 0); i < collector->thread_count;
	     i = next_used(collector, i + 1))
		states += generation_of(thread_at(collector, i)) != 0;
	return states;
}

/* While bell and RSS are unchanged, so is this: without a call the agent touches nothing, and
 * memory that is reclaimed from it is missing in RSS. */
static void measure_agent(struct limpet_collector *collector, uint64_t rss_bytes)
{
	uint32_t bell = __atomic_load_n(&collector->shm->bell, __ATOMIC_ACQUIRE);

	if (!collector->agent_bytes || collector->agent_bell != bell ||
	    collector->agent_rss_bytes != rss_bytes) {
		int error;

		collector->agent_bytes = collector->agent_file_bytes = 0;
		error = limpet_session_resident_bytes(collector->session, &collector->agent_bytes,
						      &collector->agent_file_bytes);
		collector->agent_is_known = error == 0 || error == -ESRCH; /* it has left */
	}
	collector->agent_bell = bell;
	collector->agent_rss_bytes = rss_bytes;
}

static void take_status(struct limpet_collector *collector, const struct limpet_proc_status *status,
			struct limpet_recorder_tick *tick)
{
	tick->rss_bytes = status->rss_bytes;
	tick->threads = status->threads;
	if (!status->rss_bytes)
		return;
	measure_agent(collector, status->rss_bytes);
	tick->agent_bytes = collector->agent_bytes;
	if (collector->agent_is_known && status->file_rss_bytes > collector->agent_file_bytes)
		tick->file_bytes = status->file_rss_bytes - collector->agent_file_bytes;
}

void limpet_collector_fill_tick(struct limpet_collector *collector,
				struct limpet_recorder_tick *ret_tick)
{
	const struct limpet_agent_figures *figures = limpet_agent_counts_look(collector->counts);
	struct limpet_proc_status status;
	pid_t pid = limpet_session_pid(collector->session);

	memset(ret_tick, 0, sizeof(*ret_tick));
	ret_tick->time_ns = limpet_collector_time_ns(collector);
	if (ret_tick->time_ns < collector->last_time_ns)
		ret_tick->time_ns = collector->last_time_ns;
	/* /proc shows no memory for a main thread that has ended. */
	if (limpet_proc_status_read(limpet_proc_resident(pid), &status) == 0)
		take_status(collector, &status, ret_tick);
	if (collector->has_cgroup)
		(void)limpet_cgroup_usage(&collector->cgroup, &ret_tick->cgroup_bytes);
	ret_tick->dropped_events = figures->dropped_events + collector->bad_records;
	/* A stack for which there was no room counts as truncated. */
	ret_tick->truncated_stacks = figures->truncated_stacks;
	for (unsigned why = 0; why < LIMPET_LOST_STACKS; why++)
		ret_tick->truncated_stacks += collector->lost_stacks[why];
	ret_tick->dropped = figures->dropped;
	ret_tick->unseen_calls = figures->unseen_calls;
}

uint64_t limpet_collector_late_events(const struct limpet_collector *collector)
{
	return limpet_reorder_late(collector->reorder);
}

bool limpet_collector_is_broken(const struct limpet_collector *collector)
{
	return collector->broken || collector->bad_records ||
	       limpet_agent_counts_are_overwritten(collector->counts);
}

uint64_t limpet_collector_lost_stacks(const struct limpet_collector *collector,
				      enum limpet_lost_stacks why)
{
	return collector->lost_stacks[why];
}

bool limpet_collector_forgets_stacks(const struct limpet_collector *collector)
{
	return limpet_stack_tree_is_full_of_numbers(collector->stacks);
}

void limpet_collector_set_stack_memory(struct limpet_collector *collector, uint64_t bytes)
{
	limpet_stack_tree_set_most(collector->stacks, bytes);
}

uint64_t limpet_collector_slots_not_taken(const struct limpet_collector *collector)
{
	return limpet_agent_counts_last(collector->counts)->slots_not_taken;
}

uint64_t limpet_collector_late_modules(const struct limpet_collector *collector)
{
	return limpet_agent_counts_last(collector->counts)->late_modules;
}

uint32_t limpet_collector_noted(const struct limpet_collector *collector)
{
	return collector->end_ns ? collector->noted
				 : __atomic_load_n(&collector->shm->noted, __ATOMIC_RELAXED);
}

void limpet_collector_set_most_kept(struct limpet_collector *collector, size_t records)
{
	limpet_reorder_set_most(collector->reorder, records);
}

void limpet_collector_set_patience(struct limpet_collector *collector, uint64_t patience_ns)
{
	const uint64_t turns = patience_ns / collector->turn_ns;

	if (collector->shm->wait_turns != turns)
		collector->shm->wait_turns = turns;
}

bool limpet_collector_has_more(const struct limpet_collector *collector)
{
	return collector->more;
}

bool limpet_collector_was_called(const struct limpet_collector *collector)
{
	return collector->called;
}

bool limpet_collector_look(struct limpet_collector *collector)
{
	limpet_collector_tell_time(collector);
	return __atomic_load_n(&collector->shm->bell, __ATOMIC_RELAXED) != collector->bell;
}

void limpet_collector_identify_modules(struct limpet_collector *collector)
{
	limpet_module_table_identify(collector->table);
}

size_t limpet_collector_sources(const struct limpet_collector *collector,
				const struct limpet_collector_source **ret)
{
	return limpet_module_table_sources(collector->table, ret);
}

bool limpet_collector_describe_site(const struct limpet_collector *collector, uint32_t node,
				    char *ret, size_t bytes)
{
	struct limpet_modules *modules = limpet_session_modules(collector->session);
	const unsigned far_enough = 16;

	for (unsigned i = 0; i < far_enough; i++) {
		const struct limpet_stack_node *it =
			limpet_stack_tree_node(collector->stacks, node);
		const struct limpet_module *module;
		const char *name;

		if (!it)
			return false;
		module = limpet_modules_find(modules, it->address - 1);
		name = module ? strrchr(module->path, '/') : NULL;
		node = it->parent;
		name = name ? name + 1 : module ? module->path : "";
		/* Where operator new is. */
		if (!strncmp(name, "libstdc++.so", 12) || !strncmp(name, "libc++.so", 9))
			continue;
		if (!module || limpet_module_has_malloc(modules->pid,
							(struct limpet_module *)(uintptr_t)module))
			continue;
		snprintf(ret, bytes, "one stack of %s", name);
		return true;
	}
	return false;
}

static const char *owner_name(const void *context, uint32_t owner)
{
	const char *name = limpet_session_owner(context, owner);

	return name ? name : "unknown";
}

void limpet_collector_judge_named(const struct limpet_collector *collector, char *ret_words,
				  size_t bytes)
{
	limpet_plausible_judge(&collector->plausible, owner_name, collector->session, ret_words,
			       bytes);
}
