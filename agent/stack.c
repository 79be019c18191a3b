/* Stacks: walked by the shared walker, kept as paths in a tree of frames.
 *
 * The tree lies in shared memory, so that each frame is described once and the collector reads it
 * there. Nodes are found through an open-addressed index that any thread may extend: an entry is
 * written once, by compare and exchange, after its node is whole. */
#include "agent/stack.h"
#include "agent/agent.h"
#include "agent/hook.h"
#include "agent/record.h"

const uint8_t *limpet_unwind_arena;
uint64_t limpet_unwind_arena_bytes;

#define INDEX_PROBES 64u

static uint64_t node_hash(uint32_t parent, uint64_t address)
{
	uint64_t hash = (address ^ (uint64_t)parent << 40 ^ parent) * LIMPET_GOLDEN;

	return hash ^ hash >> 29;
}

static uint32_t node_new(uint32_t parent, uint64_t address, uint32_t flags)
{
	struct limpet_node *nodes = limpet_shm_at(limpet_shm->layout.nodes_offset);
	uint32_t index;

	if (__atomic_load_n(&limpet_shm->node_head, __ATOMIC_RELAXED) >=
	    limpet_shm->layout.node_count)
		return 0;
	index = __atomic_fetch_add(&limpet_shm->node_head, 1, __ATOMIC_RELAXED);
	if (index >= limpet_shm->layout.node_count)
		return 0;
	nodes[index].address = address;
	nodes[index].parent = parent;
	nodes[index].flags = flags;
	return index;
}

/* The child of `parent` for `address`, made if need be; 0 when the table is full. */
static uint32_t node_child(uint32_t parent, uint64_t address, uint32_t flags)
{
	const struct limpet_node *nodes = limpet_shm_at(limpet_shm->layout.nodes_offset);
	uint32_t *index = limpet_shm_at(limpet_shm->layout.node_index_offset);
	uint32_t mask = limpet_shm->layout.node_index_count - 1;
	uint32_t at = (uint32_t)node_hash(parent, address + flags) & mask;
	uint32_t made = 0;

	for (uint32_t i = 0; i < INDEX_PROBES; i++, at = (at + 1) & mask) {
		uint32_t node = __atomic_load_n(&index[at], __ATOMIC_ACQUIRE);

		if (!node) {
			if (!made)
				made = node_new(parent, address, flags);
			if (!made)
				return 0;
			/* The release makes the node's content visible to whoever finds it. */
			if (__atomic_compare_exchange_n(&index[at], &node, made, false,
							__ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
				return made;
		}
		if (node < limpet_shm->layout.node_count && nodes[node].parent == parent &&
		    nodes[node].address == address && nodes[node].flags == flags)
			return node;
	}
	return 0;
}

/* ------------------------------------------------------------------ what a thread remembers */

static struct limpet_scratch *scratch_of(const struct limpet_thread *thread)
{
	return (struct limpet_scratch *)(void *)limpet_hot.scratch + limpet_thread_index(thread);
}

static inline struct limpet_stack_cache_entry *cache_of(const struct limpet_thread *thread)
{
	return (struct limpet_stack_cache_entry *)(void *)(limpet_hot.scratch +
							   ((uint64_t)(thread->stack_cache >> 8)
							    << 12));
}

static inline uint32_t cache_count(const struct limpet_thread *thread)
{
	return thread->stack_cache & 0xff;
}

static inline struct limpet_stack_cache_entry *cache_entry_for(const struct limpet_thread *thread,
							       uint64_t pc, uint64_t base)
{
	uint64_t hash = (pc ^ base << 7) * LIMPET_GOLDEN >> 32;

	return &cache_of(thread)[hash * cache_count(thread) >> 32];
}

struct kept_path {
	struct limpet_path *head;
	uint64_t *frames;
	uint32_t *nodes;
	uint32_t room;
};

static struct kept_path path_of(const struct limpet_thread *thread)
{
	uint32_t count = cache_count(thread);
	struct limpet_path *head = (struct limpet_path *)(void *)(cache_of(thread) + count);
	uint32_t room = count == LIMPET_ROOM_SMALL.cache_entries    ? LIMPET_ROOM_SMALL.path
			: count == LIMPET_ROOM_MIDDLE.cache_entries ? LIMPET_ROOM_MIDDLE.path
								    : LIMPET_ROOM_LARGE.path;
	uint64_t *frames = (uint64_t *)(void *)(head + 1);

	return (struct kept_path){head, frames, (uint32_t *)(void *)(frames + room), room};
}

/* How often cache entries are replaced before their thread gets a larger room: threads with few
 * stacks leave the memory to others. */
#define REPLACED_ENOUGH 16u
#define REPLACED_MUCH 512u

/* Half of all room is for the first ones to have much, so that more can have some. A thread that
 * leaves by longjmp in the middle of it loses a room to nobody; memory is bounded. */
static void take_room(struct limpet_thread *thread)
{
	uint32_t taken = __atomic_load_n(&limpet_shm->room_pages_taken, __ATOMIC_RELAXED);
	uint32_t limit = limpet_shm->layout.room_pages;
	struct limpet_room room;

	do {
		room = cache_count(thread) == LIMPET_ROOM_SMALL.cache_entries ? LIMPET_ROOM_LARGE
									      : LIMPET_ROOM_HUGE;
		if (taken + room.pages > limit / 2) {
			if (cache_count(thread) != LIMPET_ROOM_SMALL.cache_entries)
				return;
			room = LIMPET_ROOM_MIDDLE;
		}
		if (taken + room.pages > limit)
			return;
	} while (!__atomic_compare_exchange_n(&limpet_shm->room_pages_taken, &taken,
					      taken + room.pages, false, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	thread->stack_cache = (limpet_shm->layout.thread_count + taken) << 8 | room.cache_entries;
}

/* Whether the thread has a larger room now: then the cache entry is another one. */
static bool replace(struct limpet_thread *thread, const struct limpet_stack_cache_entry *cached,
		    uint64_t pc, uint64_t base)
{
	uint32_t count = cache_count(thread);
	struct limpet_path *path;

	if (count == LIMPET_ROOM_HUGE.cache_entries || !cached->pc ||
	    (cached->pc == pc && cached->base == base))
		return false;
	path = path_of(thread).head;
	if (++path->replaced <
	    (count == LIMPET_ROOM_SMALL.cache_entries ? REPLACED_ENOUGH : REPLACED_MUCH))
		return false;
	path->replaced = 0;
	take_room(thread);
	return cache_count(thread) != count;
}

/* ------------------------------------------------------------------ other stacks
 *
 * A fibre, an alternate signal stack and the one that the signal has interrupted. What may be read
 * of them the collector has looked up in the maps; until it has, a stack is cut to its first frame
 * and counted. A mapping on which the thread is now is there; that the rest of it still is as the
 * collector saw it some time ago, no more than probable: what was unmapped since from above a stack
 * that is in use is read only if its frames lead there. */

struct known_stacks {
	uint64_t low, high;         /* on which the walk begins, from there on */
	uint64_t own_low, own_high; /* the thread's own; 0: unknown */
};

/* Answers the end of the range that holds `sp`; 0: none is known. Pairs with the collector's
 * changes. */
static uint64_t find_range(uint64_t sp)
{
	for (unsigned i = 0; i < LIMPET_STACK_RANGES; i++) {
		const struct limpet_stack_range *range = &limpet_shm->ranges[i];
		uint32_t version = __atomic_load_n(&range->version, __ATOMIC_ACQUIRE);
		uint64_t low = __atomic_load_n(&range->low, __ATOMIC_RELAXED);
		uint64_t high = __atomic_load_n(&range->high, __ATOMIC_RELAXED);

		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (sp >= low && sp < high && !(version & 1) &&
		    __atomic_load_n(&range->version, __ATOMIC_RELAXED) == version)
			return high;
	}
	return 0;
}

static void ask_for_range(uint64_t sp)
{
	uint32_t number = __atomic_fetch_add(&limpet_shm->unknown_count, 1, __ATOMIC_RELAXED);

	__atomic_store_n(&limpet_shm->unknown[number % LIMPET_UNKNOWN_STACKS], sp,
			 __ATOMIC_RELAXED);
	limpet_record_ring();
}

static inline __attribute__((always_inline)) bool read_known(const void *memory, uint64_t address,
							     uint64_t *ret_word)
{
	const struct known_stacks *stacks = memory;
	const uint64_t bytes = sizeof(*ret_word);

	if ((address < stacks->low || address >= stacks->high || stacks->high - address < bytes) &&
	    (address < stacks->own_low || address >= stacks->own_high ||
	     stacks->own_high - address < bytes))
		return false;
	*ret_word = *(const uint64_t *)(uintptr_t)address;
	return true;
}

/* ------------------------------------------------------------------ the thread's own stack */

/* The thread's own stack: read directly, and each word that is read goes into the cache entry. */
struct noted_stack {
	uint64_t low, high;
	struct limpet_stack_cache_entry *cached;
};

static inline __attribute__((always_inline)) bool read_noted(const void *memory, uint64_t address,
							     uint64_t *ret_word)
{
	const struct noted_stack *stack = memory;
	struct limpet_stack_cache_entry *cached = stack->cached;
	uint64_t offset = address - stack->low;

	if (address < stack->low || address > stack->high - sizeof(*ret_word))
		return false;
	*ret_word = *(const uint64_t *)(uintptr_t)address;
	if (cached->words < LIMPET_STACK_CACHE_WORDS && offset <= UINT32_MAX) {
		cached->values[cached->words] = *ret_word;
		cached->offsets[cached->words] = (uint32_t)offset;
		cached->words++;
	} else {
		cached->words = UINT32_MAX; /* too many: not to be remembered */
	}
	return true;
}

/* Cached stacks become invalid with the tables, and with any module. */
static uint64_t generation_of(uint32_t current, uint32_t gone)
{
	return (uint64_t)gone << 32 | current;
}

/* Whether its words are there at all for a walk from here. Another thread's stack may begin where
 * that of one before it did, and end earlier. */
static bool is_applicable(const struct limpet_stack_cache_entry *cached, uint64_t pc, uint64_t base,
			  uint64_t high, uint64_t generation)
{
	return cached->pc == pc && cached->base == base && cached->high == high &&
	       cached->generation == generation && cached->words;
}

static uint64_t word_at(const struct limpet_stack_cache_entry *cached, uint64_t base, uint32_t i)
{
	return *(const uint64_t *)(uintptr_t)(base + cached->offsets[i]);
}

static bool is_unchanged(const struct limpet_stack_cache_entry *cached, uint64_t base)
{
	/* Lowest first: the words that change from call to call are there. */
	for (uint32_t i = 0; i < cached->words; i += LIMPET_STACK_CACHE_STEP) {
		uint64_t a = word_at(cached, base, i) ^ cached->values[i];
		uint64_t b = word_at(cached, base, i + 1) ^ cached->values[i + 1];
		uint64_t c = word_at(cached, base, i + 2) ^ cached->values[i + 2];
		uint64_t d = word_at(cached, base, i + 3) ^ cached->values[i + 3];

		if (a | b | c | d)
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------ fingerprints
 *
 * Of the same places in the stack, with other words in them: 64 bits, each word multiplied into one
 * of four lanes. Two stacks of a million have the same one with a probability of 3e-8. A table that
 * all threads share leads from there to the node. */

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * LIMPET_GOLDEN;
	return hash << 29 | hash >> 35;
}

static uint64_t finish(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	uint64_t hash = mix(mix(mix(mix(a, b), c), d), 0xd6e8feb86659fd93ull);

	hash ^= hash >> 32;
	return hash ? hash : 1;
}

static uint64_t seed_of(const struct limpet_stack_cache_entry *cached, uint64_t pc)
{
	uint64_t hash = mix(mix(mix(pc, cached->base), cached->generation), cached->words);

	for (uint32_t i = 0; i < cached->words; i++)
		hash = mix(hash, cached->offsets[i]);
	return hash;
}

/* The fingerprint of the words in the cache entry, or of those at their addresses now. */
static inline __attribute__((always_inline)) uint64_t fingerprint_of(
	const struct limpet_stack_cache_entry *cached, bool now, uint64_t base)
{
	uint64_t lanes[LIMPET_STACK_CACHE_STEP] = {cached->seed, 1, 2, 3};

	for (uint32_t i = 0; i < cached->words; i += LIMPET_STACK_CACHE_STEP)
#pragma GCC unroll 4
		for (uint32_t lane = 0; lane < LIMPET_STACK_CACHE_STEP; lane++)
			lanes[lane] = mix(lanes[lane], now ? word_at(cached, base, i + lane)
							   : cached->values[i + lane]);
	return finish(lanes[0], lanes[1], lanes[2], lanes[3]);
}

#define FINGERPRINT_WAYS 4u /* a cache line */

static struct limpet_fingerprint *fingerprint_set(uint64_t fingerprint)
{
	return &limpet_hot.fingerprints[fingerprint >> 32 & limpet_hot.fingerprint_mask &
					~(uint64_t)(FINGERPRINT_WAYS - 1)];
}

/* The node, with LIMPET_FINGERPRINT_TRUNCATED if that stack was cut short; 0: unknown. */
static uint32_t fingerprint_find(uint64_t fingerprint)
{
	struct limpet_fingerprint *set = fingerprint_set(fingerprint);

	for (uint32_t i = 0; i < FINGERPRINT_WAYS; i++) {
		uint64_t before, after;

		if (__atomic_load_n(&set[i].fingerprint, __ATOMIC_RELAXED) != fingerprint)
			continue;
		before = __atomic_load_n(&set[i].state, __ATOMIC_ACQUIRE);
		if (__atomic_load_n(&set[i].fingerprint, __ATOMIC_ACQUIRE) != fingerprint)
			continue;
		after = __atomic_load_n(&set[i].state, __ATOMIC_RELAXED);
		if (before == after && !(before >> 32 & 1))
			return (uint32_t)before;
	}
	return 0;
}

/* Whoever changes an entry makes its state odd first; whoever finds it odd leaves it. A thread that
 * is thrown out of here leaves an entry that nobody uses again. */
static void fingerprint_keep(uint64_t fingerprint, uint32_t known)
{
	struct limpet_fingerprint *set = fingerprint_set(fingerprint), *entry = NULL;
	uint64_t state = 0, version;

	for (uint32_t i = 0; i < FINGERPRINT_WAYS && !entry; i++)
		if (!__atomic_load_n(&set[i].fingerprint, __ATOMIC_RELAXED))
			entry = &set[i];
	if (!entry)
		entry = &set[fingerprint & (FINGERPRINT_WAYS - 1)];
	state = __atomic_load_n(&entry->state, __ATOMIC_RELAXED);
	version = (state >> 32) + 1;
	if (!(version & 1) ||
	    !__atomic_compare_exchange_n(&entry->state, &state, version << 32, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&entry->fingerprint, fingerprint, __ATOMIC_RELEASE);
	__atomic_store_n(&entry->state, (version + 1) << 32 | known, __ATOMIC_RELEASE);
}

/* ------------------------------------------------------------------ the tree */

/* Stores the path in the tree, from where it leaves the last one; 0 if the tree is full. */
static uint32_t intern(const struct limpet_thread *thread, const uint64_t *frames, uint32_t count,
		       bool truncated)
{
	struct kept_path path = path_of(thread);
	uint32_t gone = __atomic_load_n(&limpet_shm->gone_count, __ATOMIC_ACQUIRE);
	uint32_t same = 0, node = 0;

	if (path.head->cut == truncated && path.head->gone == gone)
		while (same < count && same < path.head->count &&
		       path.frames[same] == frames[count - 1 - same])
			same++;
	/* A signal handler may throw us out of here: the last path must be one at any moment. */
	*(volatile uint32_t *)&path.head->count = same;
	*(volatile uint32_t *)&path.head->cut = truncated;
	*(volatile uint32_t *)&path.head->gone = gone;
	if (same)
		node = path.nodes[same - 1];
	for (uint32_t i = same; i < count; i++) {
		uint64_t address = frames[count - 1 - i];
		uint32_t flags = !i && truncated ? LIMPET_NODE_TRUNCATED : 0;

		if (__builtin_expect(gone, 0))
			flags |= LIMPET_NODE_GONE_FLAG(limpet_gone_find(
				limpet_shm->gone, limpet_shm->gone_places, address - 1));
		node = node_child(node, address, flags);
		if (!node) {
			__atomic_fetch_add(&limpet_shm->lost_no_node, 1, __ATOMIC_RELAXED);
			return 0;
		}
		if (i >= path.room)
			continue;
		path.frames[i] = address;
		path.nodes[i] = node;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		*(volatile uint32_t *)&path.head->count = i + 1;
	}
	return node;
}

static void count_truncated(struct limpet_thread *thread, uint32_t more)
{
	__atomic_store_n(&thread->truncated, thread->truncated + more, __ATOMIC_RELAXED);
}

static struct limpet_walk_map walk_map(uint32_t current, uint32_t gone)
{
	uint32_t list = current & 1;

	return (struct limpet_walk_map){
		.modules = limpet_hot.modules + list * LIMPET_MAX_UNWIND_MODULES,
		.arena = limpet_unwind_arena,
		.sorted = limpet_shm->unwind_count[list],
		.count = limpet_shm->unwind_count[list],
		.generation = current << 16 ^ gone,
		.gone = limpet_shm->gone,
		.gone_then = limpet_shm->unwind_gone[list],
		.gone_now = gone,
		.gone_places = limpet_shm->gone_places,
	};
}

/* Whether a list of tables is still in use: until then nobody writes to it. A thread that was
 * preempted during a walk may have read two lists. Pairs with the release of the next list's
 * number. */
static bool is_in_force(uint32_t current)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&limpet_shm->unwind_current, __ATOMIC_RELAXED) == current;
}
#define WALKED_IN_VAIN UINT32_MAX /* no node: by tables that were exchanged meanwhile */
#define WALKS 4u

static uint32_t max_depth(void)
{
	uint32_t depth = limpet_shm->max_depth;

	return depth < LIMPET_DEPTH_LIMIT ? depth : LIMPET_DEPTH_LIMIT;
}

static struct limpet_walk_frame first_frame(const struct limpet_frame *hook_frame)
{
	return (struct limpet_walk_frame){.pc = hook_frame->caller_pc,
					  .sp = limpet_frame_caller_sp(hook_frame),
					  .fp = hook_frame->caller_fp};
}

static __attribute__((noinline)) uint32_t capture_elsewhere(struct limpet_thread *thread,
							    const struct limpet_frame *hook_frame,
							    uint32_t current, uint32_t gone)
{
	uint64_t base = (uint64_t)(uintptr_t)&hook_frame->caller_fp, high = find_range(base);
	struct limpet_walk_map map = walk_map(current, gone);
	struct limpet_walk_cache cache = {limpet_hot.rules, LIMPET_RULE_CACHE - 1};
	struct limpet_walk_frame frame = first_frame(hook_frame);
	struct known_stacks stacks = {.low = base, .high = high};
	uint64_t *frames = scratch_of(thread)->frames;
	enum limpet_walk_end end;
	uint32_t count;

	if (!high) {
		ask_for_range(base);
		count_truncated(thread, 1);
		return intern(thread, &hook_frame->caller_pc, 1, true);
	}
	if (!__atomic_load_n(&limpet_shm->ranges_used, __ATOMIC_RELAXED))
		__atomic_store_n(&limpet_shm->ranges_used, 1, __ATOMIC_RELAXED);
	stacks.own_high = __atomic_load_n(&thread->stack_high, __ATOMIC_ACQUIRE);
	stacks.own_low = stacks.own_high ? thread->stack_low : 0;
	count = limpet_walk(&map, &cache, read_known, &stacks, frame, frames, max_depth(), &end);
	if (!is_in_force(current))
		return WALKED_IN_VAIN;
	count_truncated(thread, end != LIMPET_WALK_COMPLETE);
	return intern(thread, frames, count, end != LIMPET_WALK_COMPLETE);
}

static __attribute__((noinline)) uint32_t capture_walk(struct limpet_thread *thread,
						       struct limpet_stack_cache_entry *cached,
						       const struct limpet_frame *hook_frame,
						       uint64_t high, uint32_t current,
						       uint32_t gone)
{
	uint64_t base = (uint64_t)(uintptr_t)&hook_frame->caller_fp;
	struct limpet_walk_map map = walk_map(current, gone);
	struct limpet_walk_cache cache = {limpet_hot.rules, LIMPET_RULE_CACHE - 1};
	struct limpet_walk_frame frame = first_frame(hook_frame);
	uint64_t *frames = scratch_of(thread)->frames;
	struct noted_stack stack;
	enum limpet_walk_end end;
	uint32_t count, node;
	uint64_t fingerprint;
	bool cut;

	if (replace(thread, cached, hook_frame->caller_pc, base))
		cached = cache_entry_for(thread, hook_frame->caller_pc, base);
	stack = (struct noted_stack){base, high, cached};
	/* A signal handler may leave the walk by longjmp: what it has read so far must not be taken
	 * for the whole of an older one. */
	cached->pc = 0;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	cached->words = 0;
	frame.fp_at = base;
	count = limpet_walk(&map, &cache, read_noted, &stack, frame, frames, max_depth(), &end);
	if (!is_in_force(current)) {
		cached->words = 0;
		return WALKED_IN_VAIN;
	}
	cut = end != LIMPET_WALK_COMPLETE;
	count_truncated(thread, cut);
	if (cached->words > LIMPET_STACK_CACHE_WORDS || !cached->words) {
		cached->words = 0;
		return intern(thread, frames, count, cut);
	}
	for (; cached->words % LIMPET_STACK_CACHE_STEP; cached->words++) {
		cached->values[cached->words] = cached->values[cached->words - 1];
		cached->offsets[cached->words] = cached->offsets[cached->words - 1];
	}
	cached->base = base;
	cached->high = high;
	cached->generation = generation_of(current, gone);
	cached->seed = seed_of(cached, hook_frame->caller_pc);
	/* a cache entry may have given way to others since: then its fingerprint costs a look where
	 * the tree costs one a frame, each of them somewhere else in a large table. */
	fingerprint = fingerprint_of(cached, false, 0);
	cached->known = fingerprint_find(fingerprint);
	if (!cached->known) {
		node = intern(thread, frames, count, cut);
		if (!node) {
			cached->words = 0;
			return 0;
		}
		cached->known = node | (cut ? LIMPET_FINGERPRINT_TRUNCATED : 0);
		fingerprint_keep(fingerprint, cached->known);
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	cached->pc = hook_frame->caller_pc;
	return cached->known & ~LIMPET_FINGERPRINT_TRUNCATED;
}

/* `high` 0: it is not the thread's own stack, as far as is known. A stack that cannot be walked for
 * all the changes is cut to its first frame, which is always right. */
static __attribute__((noinline)) uint32_t capture_anew(struct limpet_thread *thread,
						       const struct limpet_frame *hook_frame,
						       uint64_t high, uint32_t current,
						       uint32_t gone)
{
	uint64_t pc = hook_frame->caller_pc, base = (uint64_t)(uintptr_t)&hook_frame->caller_fp;

	for (unsigned i = 0; i < WALKS; i++) {
		struct limpet_stack_cache_entry *cached = cache_entry_for(thread, pc, base);
		uint32_t node = high ? capture_walk(thread, cached, hook_frame, high, current, gone)
				     : capture_elsewhere(thread, hook_frame, current, gone);

		if (__builtin_expect(node != WALKED_IN_VAIN, 1))
			return node;
		current = __atomic_load_n(&limpet_shm->unwind_current, __ATOMIC_ACQUIRE);
		gone = __atomic_load_n(&limpet_shm->gone_count, __ATOMIC_ACQUIRE);
	}
	count_truncated(thread, 1);
	return intern(thread, &pc, 1, true);
}

uint32_t limpet_stack_capture(struct limpet_thread *thread, const struct limpet_frame *hook_frame)
{
	uint32_t current = __atomic_load_n(&limpet_shm->unwind_current, __ATOMIC_ACQUIRE);
	uint32_t gone = __atomic_load_n(&limpet_shm->gone_count, __ATOMIC_ACQUIRE), known;
	uint64_t high = __atomic_load_n(&thread->stack_high, __ATOMIC_ACQUIRE);
	uint64_t pc = hook_frame->caller_pc;
	/* The caller's rbp was pushed by the thunk's path: a word of the stack like others, and
	 * read only if the walk needs it. */
	uint64_t base = (uint64_t)(uintptr_t)&hook_frame->caller_fp;
	struct limpet_stack_cache_entry *cached = cache_entry_for(thread, pc, base);

	if (__builtin_expect(!high || base < thread->stack_low || base >= high, 0))
		return capture_anew(thread, hook_frame, 0, current, gone);
	if (is_applicable(cached, pc, base, high, generation_of(current, gone))) {
		known = cached->known;
		if (__builtin_expect(!is_unchanged(cached, base), 0))
			known = fingerprint_find(fingerprint_of(cached, true, base));
		if (__builtin_expect(known != 0, 1)) {
			if (__builtin_expect(known & LIMPET_FINGERPRINT_TRUNCATED, 0))
				count_truncated(thread, 1);
			return known & ~LIMPET_FINGERPRINT_TRUNCATED;
		}
	}
	return capture_anew(thread, hook_frame, high, current, gone);
}

/* ------------------------------------------------------------------ arguments on the stack
 *
 * They are the lowest part of the caller's frame (System V ABI, 3.2.3), and end below its CFA.
 * Where the caller's code has no row, a frame pointer that leads upwards will do: what it points at
 * is a frame's base, or at least no argument, and so lies above them. */

/* With what stands beside it less than a page: no guard can be stepped over. Where the stack is not
 * known yet, as in a thread's first calls, no more is copied. */
#define SMALL_FRAME_BYTES 3584u
#define LARGE_FRAME_BYTES 16384u
#define STACK_RESERVE_BYTES 16384u /* below a large copy: for the function itself */

static inline __attribute__((always_inline)) bool read_caller(const void *memory, uint64_t address,
							      uint64_t *ret_word)
{
	return address && limpet_walk_read_ranges(memory, address, ret_word);
}

int64_t limpet_stack_arguments(const struct limpet_thread *thread, const struct limpet_frame *frame)
{
	uint32_t current = __atomic_load_n(&limpet_shm->unwind_current, __ATOMIC_ACQUIRE);
	uint32_t gone = __atomic_load_n(&limpet_shm->gone_count, __ATOMIC_ACQUIRE);
	uint64_t high = __atomic_load_n(&thread->stack_high, __ATOMIC_ACQUIRE);
	struct limpet_walk_map map = walk_map(current, gone);
	struct limpet_walk_cache cache = {limpet_hot.rules, LIMPET_RULE_CACHE - 1};
	struct limpet_walk_frame caller = first_frame(frame);
	uint64_t sp = caller.sp, bytes, most = SMALL_FRAME_BYTES;
	bool known = high && sp >= thread->stack_low && sp < high;
	struct limpet_walk_ranges readable = {.low = {sp}, .high = {sp + SMALL_FRAME_BYTES}};

	if (known) {
		if (sp - thread->stack_low >= LARGE_FRAME_BYTES + STACK_RESERVE_BYTES)
			most = LARGE_FRAME_BYTES;
		readable.high[0] = high - sp < most ? high : sp + most;
	}
	/* Where the stack's end is not known nothing is read by a frame pointer that no row vouches
	 * for. */
	if (!known && limpet_walk_find_rule(&map, &cache, caller.pc - 1).cfa <= LIMPET_CFA_UNKNOWN)
		return LIMPET_PASS;
	if (limpet_walk_step(&map, &cache, read_caller, &readable, &caller) != LIMPET_WALK_MORE ||
	    !is_in_force(current) || caller.flags & LIMPET_FRAME_SIGNAL ||
	    (caller.flags & LIMPET_FRAME_BY_FP && !known))
		return LIMPET_PASS;
	bytes = caller.sp - sp;
	return caller.sp < sp || caller.sp > readable.high[0] || bytes % 8 ? LIMPET_PASS
									   : (int64_t)bytes;
}

const struct limpet_unwind_module *limpet_stack_module(uint64_t address)
{
	const struct limpet_walk_map map =
		walk_map(__atomic_load_n(&limpet_shm->unwind_current, __ATOMIC_ACQUIRE), 0);

	return limpet_walk_find_module(&map, address);
}

/* ------------------------------------------------------------------ hooks that were left */

#define ROOT_WORDS (32u << 10) /* above the outermost frame: thread-local storage, environment */
#define CHAIN_FRAMES 4096u

static inline __attribute__((always_inline)) bool read_own(const void *memory, uint64_t address,
							   uint64_t *ret_word)
{
	const struct limpet_thread *thread = memory;

	if (!address || address < thread->stack_low ||
	    address > thread->stack_high - sizeof(*ret_word))
		return false;
	*ret_word = *(const uint64_t *)(uintptr_t)address;
	return true;
}

static bool is_root(const struct limpet_walk_map *map, const struct limpet_walk_cache *cache,
		    uint64_t pc)
{
	return limpet_walk_find_rule(map, cache, pc - 1).cfa == LIMPET_CFA_END;
}

/* A coroutine may have its stack in an array on this one: then the thread's root lies further up.
 */
static bool is_outermost(const struct limpet_thread *thread, const struct limpet_walk_map *map,
			 const struct limpet_walk_cache *cache, uint64_t sp)
{
	if (thread->stack_high - sp > ROOT_WORDS * sizeof(uint64_t))
		return false;
	for (uint64_t word; read_own(thread, sp, &word); sp += sizeof(word))
		if (limpet_walk_plausible_pc(word) && is_root(map, cache, word))
			return false;
	return true;
}

/* Frame by frame, by unwind rows only, up to the thread's first function. */
bool limpet_stack_is_above_entry(const struct limpet_thread *thread,
				 const struct limpet_frame *hook_frame)
{
	uint32_t current = __atomic_load_n(&limpet_shm->unwind_current, __ATOMIC_ACQUIRE);
	const struct limpet_walk_map map =
		walk_map(current, __atomic_load_n(&limpet_shm->gone_count, __ATOMIC_ACQUIRE));
	const struct limpet_walk_cache cache = {limpet_hot.rules, LIMPET_RULE_CACHE - 1};
	struct limpet_walk_frame frame = first_frame(hook_frame);

	if (!__atomic_load_n(&thread->stack_high, __ATOMIC_ACQUIRE) ||
	    thread->entry_sp < thread->stack_low || thread->entry_sp >= frame.sp)
		return false;
	for (unsigned i = 0; i < CHAIN_FRAMES; i++) {
		if (frame.sp >= thread->stack_high ||
		    frame.flags & (LIMPET_FRAME_SIGNAL | LIMPET_FRAME_BY_FP | LIMPET_FRAME_DOUBT))
			return false;
		if (is_root(&map, &cache, frame.pc))
			return is_outermost(thread, &map, &cache, frame.sp) && is_in_force(current);
		if (limpet_walk_step(&map, &cache, read_own, thread, &frame) != LIMPET_WALK_MORE)
			return false;
	}
	return false;
}

uint32_t limpet_stack_mark(uint32_t node, uint32_t owner)
{
	uint32_t marked = node ? node_child(node, owner, LIMPET_NODE_OWNER) : 0;

	if (node && !marked)
		__atomic_fetch_add(&limpet_shm->lost_no_node, 1, __ATOMIC_RELAXED);
	return marked ? marked : node;
}
