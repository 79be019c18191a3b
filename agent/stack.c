/* Stacks: walked by the shared walker, kept as paths in a tree of frames.
 *
 * The tree lies in shared memory, so that each frame is described once and the collector reads it
 * there. Nodes are found through an open-addressed index that any thread may extend: an entry is
 * written once, by compare and exchange, after its node is whole. */
#include "agent/agent.h"

#include <sys/uio.h>

const uint8_t *limpet_unwind_arena;
uint64_t limpet_unwind_arena_bytes;

#define INDEX_PROBES 64u

static uint64_t node_hash(uint32_t parent, uint64_t address)
{
	uint64_t hash = (address ^ (uint64_t)parent << 40 ^ parent) * 0x9e3779b97f4a7c15ull;

	return hash ^ hash >> 29;
}

static uint32_t node_new(uint32_t parent, uint64_t address, uint32_t flags)
{
	struct limpet_node *nodes = limpet_shm_at(limpet_shm->nodes_offset);
	uint32_t index;

	if (__atomic_load_n(&limpet_shm->node_head, __ATOMIC_RELAXED) >= limpet_shm->node_count)
		return 0;
	index = __atomic_fetch_add(&limpet_shm->node_head, 1, __ATOMIC_RELAXED);
	if (index >= limpet_shm->node_count)
		return 0;
	nodes[index].address = address;
	nodes[index].parent = parent;
	nodes[index].flags = flags;
	return index;
}

/* The child of `parent` for `address`, made if need be; 0 when the table is full. */
static uint32_t node_child(uint32_t parent, uint64_t address, uint32_t flags)
{
	const struct limpet_node *nodes = limpet_shm_at(limpet_shm->nodes_offset);
	uint32_t *index = limpet_shm_at(limpet_shm->node_index_offset);
	uint32_t mask = limpet_shm->node_index_count - 1;
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
		if (node < limpet_shm->node_count && nodes[node].parent == parent &&
		    nodes[node].address == address && nodes[node].flags == flags)
			return node;
	}
	return 0;
}

/* A stack whose extent is not known (yet): copied by the kernel, page by page, so that nothing can
 * fault. */
static uint64_t snapshot(struct limpet_scratch *scratch, uint64_t sp)
{
	const uint64_t page = 4096;
	struct iovec local = {scratch->snapshot, LIMPET_SNAPSHOT_BYTES};
	struct iovec remote[LIMPET_SNAPSHOT_BYTES / 4096 + 1];
	uint64_t at = sp, left = LIMPET_SNAPSHOT_BYTES;
	uint32_t count = 0;
	long bytes;

	while (left) {
		uint64_t part = page - (at & (page - 1));

		if (part > left)
			part = left;
		remote[count].iov_base = (void *)(uintptr_t)at;
		remote[count++].iov_len = part;
		at += part;
		left -= part;
	}
	bytes = limpet_syscall6(SYS_process_vm_readv, limpet_syscall1(SYS_getpid, 0), (long)&local,
				1, (long)remote, count, 0);
	return bytes < 0 ? 0 : (uint64_t)bytes;
}

static uint32_t memo_index(uint64_t pc, uint64_t base)
{
	uint64_t hash = (pc ^ base << 7) * 0x9e3779b97f4a7c15ull;

	return (uint32_t)(hash >> 58) & (LIMPET_MEMOS - 1);
}

/* The thread's own stack: read directly, and each word that is read goes into the memo. */
struct noted_stack {
	uint64_t low, high;
	struct limpet_memo *memo;
};

static inline __attribute__((always_inline)) bool read_noted(const void *memory, uint64_t address,
							     uint64_t *ret_word)
{
	const struct noted_stack *stack = memory;
	struct limpet_memo *memo = stack->memo;
	uint64_t offset = address - stack->low;

	if (address < stack->low || address > stack->high - sizeof(*ret_word))
		return false;
	*ret_word = *(const uint64_t *)(uintptr_t)address;
	if (memo->words < LIMPET_MEMO_WORDS && offset <= UINT32_MAX) {
		memo->values[memo->words] = *ret_word;
		memo->offsets[memo->words] = (uint32_t)offset;
		memo->words++;
	} else {
		memo->words = UINT32_MAX; /* too many: not to be remembered */
	}
	return true;
}

static bool is_remembered(const struct limpet_memo *memo, uint64_t pc, uint64_t base, uint64_t high,
			  uint32_t generation)
{
	const uint8_t *stack = (const uint8_t *)(uintptr_t)base;

	/* Another thread's stack may begin where that of one before it did, and end earlier. */
	if (memo->pc != pc || memo->base != base || memo->high != high ||
	    memo->generation != generation || !memo->words)
		return false;
	/* Lowest first: what differs from call to call lies there. */
	for (uint32_t i = 0; i < memo->words; i++)
		if (*(const uint64_t *)(const void *)(stack + memo->offsets[i]) != memo->values[i])
			return false;
	return true;
}

/* Keeps the path in the tree; 0 when there is no room. */
static uint32_t intern(const uint64_t *frames, uint32_t count, bool truncated)
{
	uint32_t node = 0;

	for (uint32_t i = count; i > 0; i--) {
		bool cut = i == count && truncated;

		node = node_child(node, frames[i - 1], cut ? LIMPET_NODE_TRUNCATED : 0);
		if (!node) {
			__atomic_fetch_add(&limpet_shm->lost_no_node, 1, __ATOMIC_RELAXED);
			return 0;
		}
	}
	return node;
}

static void count_truncated(struct limpet_thread *thread, uint32_t more)
{
	__atomic_store_n(&thread->truncated, thread->truncated + more, __ATOMIC_RELAXED);
}

uint32_t limpet_stack_capture(struct limpet_thread *thread, const struct limpet_frame *hook_frame)
{
	struct limpet_scratch *scratch = &limpet_scratches[limpet_thread_index(thread)];
	struct limpet_walk_frame frame = {.pc = hook_frame->caller_pc,
					  .sp = limpet_frame_caller_sp(hook_frame),
					  .fp = hook_frame->caller_fp};
	uint32_t current = __atomic_load_n(&limpet_shm->unwind_current, __ATOMIC_ACQUIRE);
	const struct limpet_unwind_module *modules =
		limpet_shm_at(limpet_shm->unwind_modules_offset);
	struct limpet_walk_map map = {
		.modules = modules + (current & 1) * LIMPET_MAX_UNWIND_MODULES,
		.arena = limpet_unwind_arena,
		.sorted = limpet_shm->unwind_count[current & 1],
		.count = limpet_shm->unwind_count[current & 1],
		.generation = current,
	};
	struct limpet_walk_cache cache = {scratch->rules, LIMPET_RULE_CACHE - 1};
	uint64_t high = __atomic_load_n(&thread->stack_high, __ATOMIC_ACQUIRE);
	/* The caller's rbp was pushed by the trampoline: a word of the stack like others, and read
	 * only if the walk needs it. */
	uint64_t base = (uint64_t)(uintptr_t)&hook_frame->caller_fp;
	struct limpet_memo *memo = &scratch->memos[memo_index(frame.pc, base)];
	enum limpet_walk_end end;
	uint32_t count, node;

	if (high && frame.sp >= thread->stack_low && frame.sp < high) {
		struct noted_stack stack = {base, high, memo};

		if (is_remembered(memo, frame.pc, base, high, current)) {
			count_truncated(thread, memo->truncated);
			return memo->node;
		}
		/* A signal handler may leave the walk by longjmp: what it has read so far must not
		 * be taken for the whole of an older one. */
		memo->pc = 0;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		memo->words = 0;
		frame.fp_at = base;
		count = limpet_walk(&map, &cache, read_noted, &stack, frame, scratch->frames,
				    limpet_shm->max_depth, &end);
	} else {
		struct limpet_walk_copy copy = {frame.sp, snapshot(scratch, frame.sp),
						scratch->snapshot};

		memo = NULL;
		count = limpet_walk(&map, &cache, limpet_walk_read_copy, &copy, frame,
				    scratch->frames, limpet_shm->max_depth, &end);
	}
	count_truncated(thread, end != LIMPET_WALK_COMPLETE);
	node = intern(scratch->frames, count, end != LIMPET_WALK_COMPLETE);
	if (memo) {
		if (memo->words > LIMPET_MEMO_WORDS || !node)
			memo->words = 0;
		memo->base = base;
		memo->high = high;
		memo->node = node;
		memo->generation = current;
		memo->truncated = end != LIMPET_WALK_COMPLETE;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		memo->pc = frame.pc;
	}
	return node;
}
