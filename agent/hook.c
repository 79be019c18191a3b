/* The code before and after the original function.
 *
 * Order of time stamps: a free is stamped before the original runs, an allocation after it. The
 * free of a block thus always has an earlier stamp than the next allocation of its address, on
 * whatever thread. realloc needs both. */
#include <sys/mman.h>

#include "agent/agent.h"
#include "agent/hook.h"
#include "agent/patch.h"
#include "agent/record.h"
#include "agent/sampled.h"
#include "agent/stack.h"

#define MAP_FAILED_VALUE ((uint64_t)-1)
#define LIMPET_MAX_WITNESS 104u /* the farthest of limpet_entry_witness */
_Static_assert(offsetof(struct limpet_frame, caller_pc) == LIMPET_MAX_WITNESS, "a probe's witness");

typedef uint64_t usable_size_fn(uint64_t block);

/* The arguments that the op uses. */
static const uint64_t *args_of(const struct limpet_frame *frame, const struct limpet_hook *hook)
{
	return frame->args + LIMPET_HOOK_SKIP(hook->flags);
}

/* lib/system/alloc.nim of Nim 1.6: a page starts with (previous size, size), either of small
 * blocks, many after a header of 64 bytes, or of a large chunk with a header of 32. */
#define NIM_PAGE ((uint64_t)4096)
#define NIM_SMALL_HEAD ((uint64_t)64)
#define NIM_LARGE_HEAD ((uint64_t)32)

/* The block that contains the address. */
static uint64_t nim_block(uint64_t address, uint64_t *ret_bytes)
{
	uint64_t chunk = address & -NIM_PAGE, at = address - chunk;
	uint64_t bytes = ((const uint64_t *)(uintptr_t)chunk)[1];

	if (!bytes || bytes > NIM_PAGE - NIM_SMALL_HEAD || at < NIM_SMALL_HEAD) {
		*ret_bytes = bytes > NIM_LARGE_HEAD ? bytes - NIM_LARGE_HEAD : 0;
		return chunk + NIM_LARGE_HEAD;
	}
	*ret_bytes = bytes;
	return address - (at - NIM_SMALL_HEAD) % bytes;
}

static uint64_t usable_size(const struct limpet_hook *hook, uint64_t block)
{
	uint64_t bytes;

	if (hook->flags & LIMPET_HOOK_NIM) {
		nim_block(block, &bytes);
		return bytes;
	}
	if (!hook->usable_size)
		return 0;
	return ((usable_size_fn *)(uintptr_t)hook->usable_size)(block);
}

static const char *full_way(const struct limpet_hook *hook)
{
	if (hook->op == LIMPET_OP_MALLOC && !LIMPET_HOOK_SKIP(hook->flags))
		return limpet_way_malloc;
	if (hook->op == LIMPET_OP_FREE && hook->flags & LIMPET_HOOK_LEAF)
		return limpet_way_free;
	return limpet_way_any;
}

/* An original that may call other hooks is called under hook depth, sampled or not. */
static const char *sampled_way(const struct limpet_hook *hook)
{
	if (!(hook->flags & LIMPET_HOOK_LEAF))
		return limpet_way_any;
	switch (hook->op) {
	case LIMPET_OP_MALLOC:
		return limpet_way_sampled_malloc;
	case LIMPET_OP_CALLOC:
		return limpet_way_sampled_calloc;
	case LIMPET_OP_FREE:
		return limpet_way_sampled_free;
	default:
		return limpet_way_any;
	}
}

/* The offsets that thunks.S uses. */
_Static_assert(sizeof(struct limpet_thread) == 128, "SHIFT_THREAD");
_Static_assert(offsetof(struct limpet_thread, thread_pointer) == 0, "thread_pointer");
_Static_assert(offsetof(struct limpet_thread, depth) == 40, "THREAD_DEPTH");
_Static_assert(offsetof(struct limpet_thread, phase) == 44, "THREAD_DEPTH, of both");
_Static_assert(offsetof(struct limpet_thread, sample.left) == 112, "THREAD_LEFT");
_Static_assert(offsetof(struct limpet_hot, threads) == 0, "HOT_THREADS");
_Static_assert(offsetof(struct limpet_hot, thread_mask) == 24, "HOT_MASK");
_Static_assert(offsetof(struct limpet_hot, sample_counters) == 64, "HOT_COUNTERS");
_Static_assert(offsetof(struct limpet_hot, sample_shift) == 72, "HOT_SHIFT");
_Static_assert(sizeof(struct limpet_hot) <= 128, "two cache lines");

static const char *way_of(const struct limpet_hook *hook)
{
	if (hook->flags & LIMPET_HOOK_PROBE)
		return limpet_way_probe;
	if (hook->op == LIMPET_OP_FINDER)
		return hook->flags & LIMPET_HOOK_ENTRY ? limpet_way_finder_kept : limpet_way_finder;
	if (hook->flags & LIMPET_HOOK_ENTRY)
		return hook->flags & LIMPET_HOOK_STACK ? limpet_way_copied : limpet_way_kept;
	return limpet_shm->sample_bytes ? sampled_way(hook) : full_way(hook);
}

void limpet_hook_set(uint32_t index, const struct limpet_hook *hook)
{
	struct limpet_hook *place = &limpet_hooks[index];
	const char *way = way_of(hook);

	place->usable_size = hook->usable_size;
	place->op = hook->op;
	place->flags = hook->flags;
	place->symbol = hook->symbol;
	limpet_thunk_ways()[index] = way;
	__atomic_store_n(&place->original, hook->original, __ATOMIC_RELEASE);
}

void limpet_hook_pass_all(void)
{
	for (uint32_t i = 0; i < LIMPET_MAX_HOOKS; i++) {
		const struct limpet_hook *hook = &limpet_hooks[i];

		if (hook->original && !(hook->flags & (LIMPET_HOOK_PROBE | LIMPET_HOOK_ENTRY)))
			__atomic_store_n(&limpet_thunk_ways()[i],
					 (const void *)(uintptr_t)hook->original, __ATOMIC_RELEASE);
	}
}

/* Relaxed: the collector only needs to know which stack it is on. */
static void note_entry(struct limpet_thread *thread, const struct limpet_frame *frame)
{
	__atomic_store_n(&thread->entry_sp, (uint64_t)(uintptr_t)frame, __ATOMIC_RELAXED);
}

/* The collector orders other threads' events only up to this. Before a stamp is taken: pairs with
 * the load in the collector's drain. */
static void note_busy(struct limpet_thread *thread)
{
	__atomic_store_n(&thread->busy, thread->last_ticks | 1, __ATOMIC_RELEASE);
}

static void set_phase(struct limpet_thread *thread, uint32_t phase)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	thread->phase = phase;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static void count_lost(uint64_t *count)
{
	__atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

static void hook_done(struct limpet_thread *thread)
{
	__atomic_store_n(&thread->depth, 0, __ATOMIC_RELEASE);
	/* After the records: the collector may now proceed beyond this thread's last stamp. */
	__atomic_store_n(&thread->busy, 0, __ATOMIC_RELEASE);
}

/* Only reads the thread's own stack, as far as it is known, or this call's frame. */
static bool witness_is_gone(const struct limpet_thread *thread)
{
	const uint64_t low = (uint64_t)(uintptr_t)limpet_ways;
	const uint64_t bytes = (uint64_t)(uintptr_t)limpet_ways_end - low;
	uint64_t entry = thread->entry_sp;

	if (entry % sizeof(uint64_t) || entry < thread->stack_low + LIMPET_MAX_WITNESS ||
	    entry + LIMPET_MAX_WITNESS + sizeof(uint64_t) > thread->stack_high)
		return false;
	for (unsigned i = 0; i < LIMPET_ENTRY_WITNESSES; i++) {
		uint64_t word =
			*(const uint64_t *)(uintptr_t)(entry + (uint64_t)limpet_entry_witness[i]);

		if (word - low <= bytes)
			return false;
	}
	return true;
}

/* Whether the hook noted in the state was left by longjmp, an exception or cancellation. This never
 * relies on the order of addresses: the call may come from a signal handler on a stack above, or
 * from another coroutine. The proof is memory that an unfinished hook would need: this call's frame
 * covers it, or its return address was overwritten; otherwise the frames that lead here. */
static bool was_left(const struct limpet_thread *thread, const struct limpet_frame *frame)
{
	uint64_t distance = (uint64_t)(uintptr_t)frame - thread->entry_sp;

	return distance + sizeof(*frame) - 1 < 2 * sizeof(*frame) - 1 || witness_is_gone(thread) ||
	       limpet_stack_is_above_entry(thread, frame);
}

/* The hook whose original the thread executes; NULL: in none, or in our own code. */
static const struct limpet_hook *outer_hook(const struct limpet_thread *thread)
{
	return thread->phase == LIMPET_PHASE_OUTSIDE && thread->depth - 1 < LIMPET_MAX_HOOKS
		       ? &limpet_hooks[thread->depth - 1]
		       : NULL;
}

/* mmap and similar calls allocate nothing: calls under them come from a signal handler. */
static bool calls_nothing(const struct limpet_hook *outer)
{
	return limpet_family[outer->symbol].flags & LIMPET_FAMILY_MMAP;
}

/* The maximum distance below a hook of its allocator's inner calls. Calls from further below are on
 * another stack, a coroutine's, as are calls from above. */
#define INNER_REACH 65536u

/* For a state inside a hook: NULL if this call must pass, otherwise the state is reset. Passed
 * calls are counted, except an allocator's inner calls: these come from below the hook, and are
 * counted outside. thread_beside() records or counts calls under a hook whose original calls
 * nothing. */
static __attribute__((noinline)) struct limpet_thread *settle(struct limpet_thread *thread,
							      const struct limpet_frame *frame)
{
	const struct limpet_hook *outer;

	if (was_left(thread, frame)) {
		thread->phase = LIMPET_PHASE_OUTSIDE;
		thread->depth = 0;
		return thread;
	}
	outer = outer_hook(thread);
	if (thread->phase == LIMPET_PHASE_RECORDING ||
	    (thread->entry_sp - (uint64_t)(uintptr_t)frame > INNER_REACH &&
	     !(outer && calls_nothing(outer))))
		count_lost(&limpet_shm->lost_state_in_use);
	return NULL;
}

/* The calling thread's state, now recording; NULL if this call must pass. */
static inline __attribute__((always_inline)) struct limpet_thread *begin(struct limpet_frame *frame)
{
	uint64_t sp = limpet_frame_caller_sp(frame);
	struct limpet_thread *thread = limpet_thread_self(sp);

	if (__builtin_expect(!thread, 0)) {
		count_lost(&limpet_shm->lost_no_thread);
		return NULL;
	}
	if (__builtin_expect(thread->phase | thread->depth, 0) && !settle(thread, frame))
		return NULL;
	/* A signal handler must not find, nor leave its own marks in, half an entry: its calls
	 * pass, counted, until the state is whole. The entry is noted before and after: a handler
	 * in between would otherwise be measured by an older one, or leave its own. */
	note_entry(thread, frame);
	set_phase(thread, LIMPET_PHASE_RECORDING);
	note_entry(thread, frame);
	return thread;
}

static inline uint32_t capture_stack(struct limpet_thread *thread, const struct limpet_frame *frame,
				     const struct limpet_hook *hook)
{
	uint32_t node = limpet_stack_capture(thread, frame), owner = LIMPET_HOOK_OWNER(hook->flags);

	return __builtin_expect(owner != 0, 0) ? limpet_stack_mark(node, owner) : node;
}

/* ------------------------------------------------------------------ beside an unfinished hook
 *
 * A handler that interrupts mmap may allocate. An operator new of an allocator library that finds
 * no memory calls the program's handler, and throws: an exception that somebody else allocates,
 * under the library's unfinished hook, and that is given back when the hook has been left. These
 * calls are no inner ones. */

/* The calling thread, if begin() passed such a call; NULL: an inner one. */
static struct limpet_thread *thread_beside(const struct limpet_frame *frame,
					   const struct limpet_hook *hook)
{
	uint64_t sp = limpet_frame_caller_sp(frame);
	struct limpet_thread *thread = limpet_thread_self(sp);
	const bool sampled = limpet_shm->sample_bytes || limpet_overload_now();
	const struct limpet_hook *outer = thread ? outer_hook(thread) : NULL;
	const struct limpet_unwind_module *module;

	if (!outer)
		return NULL;
	if (calls_nothing(outer)) {
		if (sampled)
			count_lost(&limpet_shm->lost_state_in_use);
		return sampled ? NULL : thread;
	}
	if (sampled)
		return NULL;
	/* Finalizers run inside Nim's allocator, which gets its own memory from mmap. */
	if (outer->flags & LIMPET_HOOK_NIM)
		return limpet_family[hook->symbol].flags & LIMPET_FAMILY_MMAP ? NULL : thread;
	if (!(limpet_family[outer->symbol].flags & LIMPET_FAMILY_CXX) ||
	    (outer->op != LIMPET_OP_MALLOC && outer->op != LIMPET_OP_MEMALIGN))
		return NULL;
	module = limpet_stack_module(outer->original);
	if (!module || (frame->caller_pc >= module->start && frame->caller_pc < module->end))
		return NULL;
	return thread;
}

/* Writes one record, and keeps the outer hook's marks: it is still unfinished. */
static void record_beside(struct limpet_thread *thread, const struct limpet_frame *frame,
			  const struct limpet_hook *hook, uint32_t type, uint64_t block,
			  uint64_t size)
{
	uint64_t busy = __atomic_load_n(&thread->busy, __ATOMIC_RELAXED), stamp;
	uint32_t node = 0;

	set_phase(thread, LIMPET_PHASE_RECORDING);
	if (!busy)
		note_busy(thread);
	stamp = limpet_clock();
	if (type == LIMPET_EVENT_ALLOC)
		node = capture_stack(thread, frame, hook);
	limpet_record_append(thread, type, stamp, block, size, node);
	limpet_record_publish(thread);
	__atomic_store_n(&thread->busy, busy, __ATOMIC_RELEASE);
	set_phase(thread, LIMPET_PHASE_OUTSIDE);
}

/* In an overload: whether the freed block was not recorded. Checked before the thread's state: the
 * entry must be removed even if the call passes. */
static inline bool was_not_recorded(uint64_t block)
{
	uint32_t overload = limpet_overload_now();

	return __builtin_expect(overload != 0, 0) && limpet_overload_take_out(block, overload);
}

static bool gives_back(uint32_t op)
{
	return op == LIMPET_OP_FREE || op == LIMPET_OP_REALLOC || op == LIMPET_OP_REALLOCARRAY;
}

static uint64_t choose(struct limpet_thread *thread, const uint64_t *args, uint32_t op)
{
	if (__builtin_expect(!limpet_shm->sample_bytes && !limpet_overload_now(), 1))
		return LIMPET_WANTED_NEW | LIMPET_WANTED_OLD;
	return limpet_sample_choose(thread, op, args);
}

/* The size of Nim's blocks is known when they are allocated. */
static uint64_t choose_first(struct limpet_thread *thread, const uint64_t *args,
			     const struct limpet_hook *hook)
{
	if (hook->flags & LIMPET_HOOK_NIM && hook->op != LIMPET_OP_FREE)
		return 0;
	return choose(thread, args, hook->op);
}

/* ------------------------------------------------------------------ under one of Nim's hooks
 *
 * Its functions collect garbage on the way, and run what the program wants to be run then. */

/* The calling thread, if begin() passed a call of Nim's for that reason; NULL: another reason. */
static struct limpet_thread *thread_nested(const struct limpet_frame *frame,
					   const struct limpet_hook *hook)
{
	struct limpet_thread *thread;

	if (!(hook->flags & LIMPET_HOOK_NIM))
		return NULL;
	thread = limpet_thread_self(limpet_frame_caller_sp(frame));
	if (!thread || !outer_hook(thread) || !(outer_hook(thread)->flags & LIMPET_HOOK_NIM))
		return NULL;
	set_phase(thread, LIMPET_PHASE_RECORDING);
	return thread;
}

static void enter_nested(struct limpet_thread *thread, struct limpet_frame *frame,
			 const struct limpet_hook *hook, bool unrecorded)
{
	uint64_t block = args_of(frame, hook)[0];

	frame->thread = thread;
	frame->wanted = choose_first(thread, args_of(frame, hook), hook) | LIMPET_NESTED;
	if (hook->op != LIMPET_OP_FREE || unrecorded || !(frame->wanted & LIMPET_WANTED_OLD))
		goto out;
	limpet_record_append(thread, LIMPET_EVENT_FREE, limpet_clock(), block,
			     usable_size(hook, block), 0);
	limpet_record_publish(thread);
out:
	set_phase(thread, LIMPET_PHASE_OUTSIDE);
}

/* For an allocator that may call hooks itself: a thread's first call of it allocates its state.
 * These are inner calls. */
static uint64_t usable_size_inside(struct limpet_thread *thread, const struct limpet_hook *hook,
				   uint64_t block)
{
	uint64_t bytes;

	set_phase(thread, LIMPET_PHASE_OUTSIDE);
	bytes = usable_size(hook, block);
	set_phase(thread, LIMPET_PHASE_RECORDING);
	return bytes;
}

/* ------------------------------------------------------------------ dlsym
 *
 * While symbols lead to thunks it answers with these. It looks at who called it only where no
 * handle says where to look: else it is called, and its answer put right. */

/* Whether dlsym looks up a function of the family; noted for the end. */
static bool asks_for_hooked(const struct limpet_frame *frame, const struct limpet_hook *hook)
{
	const char *name = (const char *)(uintptr_t)frame->args[1];

	if (hook->op != LIMPET_OP_LOADER ||
	    !(limpet_family[hook->symbol].flags & LIMPET_FAMILY_ANSWERS) || !name ||
	    limpet_family_find(name, UINT64_MAX) < 0)
		return false;
	__atomic_store_n(&limpet_shm->addresses_asked, 1, __ATOMIC_RELEASE);
	return true;
}

static bool has_handle(const struct limpet_frame *frame)
{
	const uint64_t by_default = 0, next = UINT64_MAX; /* RTLD_DEFAULT, RTLD_NEXT */

	return frame->args[0] != by_default && frame->args[0] != next;
}

/* Runs under hook depth, since it calls into the loader; then a plain jump, since the original
 * depends on its caller. */
static int enter_loader(struct limpet_thread *thread, struct limpet_frame *frame,
			const struct limpet_hook *hook)
{
	thread->phase = LIMPET_PHASE_OUTSIDE;
	limpet_patch_on_loader_call(limpet_family[hook->symbol].flags & LIMPET_FAMILY_CLOSES);
	if (asks_for_hooked(frame, hook) && has_handle(frame))
		return 1;
	hook_done(thread);
	return 0;
}

int limpet_hook_enter(struct limpet_frame *frame)
{
	const struct limpet_hook *hook = &limpet_hooks[frame->hook];
	const uint64_t *args = args_of(frame, hook);
	struct limpet_thread *thread;
	bool unrecorded;

	if (hook->op == LIMPET_OP_FREE && !args[0])
		return 0;
	unrecorded = gives_back(hook->op) && was_not_recorded(args[0]);
	thread = begin(frame);
	if (!thread) {
		thread = thread_nested(frame, hook);
		if (thread) {
			enter_nested(thread, frame, hook, unrecorded);
			return 1;
		}
		if (hook->op == LIMPET_OP_LOADER)
			asks_for_hooked(frame, hook);
		else if (thread_beside(frame, hook))
			count_lost(&limpet_shm->lost_state_in_use);
		return 0;
	}
	frame->thread = thread;
	note_busy(thread);
	thread->depth = (uint32_t)frame->hook + 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	frame->wanted = choose_first(thread, args, hook);
	if (__builtin_expect(unrecorded, 0))
		frame->wanted &= ~(uint64_t)LIMPET_WANTED_OLD;

	switch (hook->op) {
	case LIMPET_OP_LOADER:
		return enter_loader(thread, frame, hook);
	case LIMPET_OP_FREE:
		if (!(frame->wanted & LIMPET_WANTED_OLD))
			break;
		frame->aux = usable_size_inside(thread, hook, args[0]);
		limpet_record_append(thread, LIMPET_EVENT_FREE, limpet_clock(), args[0], frame->aux,
				     0);
		limpet_record_publish(thread);
		break;
	case LIMPET_OP_REALLOC:
	case LIMPET_OP_REALLOCARRAY:
		frame->aux = args[0] ? usable_size_inside(thread, hook, args[0]) : 0;
		frame->stamp = limpet_clock();
		break;
	case LIMPET_OP_MUNMAP:
	case LIMPET_OP_MREMAP:
		frame->stamp = limpet_clock();
		break;
	default:
		break;
	}
	set_phase(thread, LIMPET_PHASE_OUTSIDE);
	return 1;
}

/* False: do not record the block. */
static bool note_sampled(const struct limpet_frame *frame, uint64_t address, uint32_t *type)
{
	uint32_t overload = (uint32_t)(frame->wanted >> 32);
	bool wanted = frame->wanted & LIMPET_WANTED_NEW;

	if (*type != LIMPET_EVENT_ALLOC)
		return wanted;
	if (!overload)
		return wanted && (!limpet_shm->sample_bytes || limpet_sample_enter(address));
	if (!wanted) {
		limpet_overload_note(address, overload);
		return false;
	}
	/* For a block whose free passed unchecked. */
	limpet_overload_take_out(address, overload);
	*type |= LIMPET_EVENT_SAMPLED;
	return true;
}

/* Stamped before the walk, which overlaps with the time stamp's latency. */
static void record_allocation(struct limpet_frame *frame, uint64_t address, uint64_t size,
			      uint32_t type)
{
	uint64_t stamp;
	uint32_t node;

	if (!note_sampled(frame, address, &type))
		return;
	stamp = limpet_clock();
	node = capture_stack(frame->thread, frame, &limpet_hooks[frame->hook]);
	limpet_record_append(frame->thread, type, stamp, address, size, node);
}

static void record_realloc(struct limpet_frame *frame, uint64_t block, uint64_t size)
{
	uint64_t old = frame->wanted & LIMPET_WANTED_OLD ? block : 0;

	if (frame->result) {
		if (old)
			limpet_record_append(frame->thread, LIMPET_EVENT_FREE, frame->stamp, old,
					     frame->aux, 0);
		record_allocation(frame, frame->result, size, LIMPET_EVENT_ALLOC);
	} else if (old && !size) {
		/* realloc(p, 0) frees and returns NULL here; otherwise NULL means failure. */
		limpet_record_append(frame->thread, LIMPET_EVENT_FREE, frame->stamp, old,
				     frame->aux, 0);
	} else if (old && limpet_shm->sample_bytes) {
		limpet_sample_enter(old);
	} else if (!old && block && size && frame->wanted >> 32) {
		limpet_overload_note(block, (uint32_t)(frame->wanted >> 32));
	}
}

static void record_mremap(struct limpet_frame *frame)
{
	if (frame->result == MAP_FAILED_VALUE)
		return;
	if (frame->args[1] && !(frame->args[3] & MREMAP_DONTUNMAP))
		limpet_record_append(frame->thread, LIMPET_EVENT_MUNMAP, frame->stamp,
				     frame->args[0], frame->args[1], 0);
	record_allocation(frame, frame->result, frame->args[2], LIMPET_EVENT_MMAP);
}

static void record_nim(struct limpet_frame *frame, const struct limpet_hook *hook)
{
	const uint64_t *args = args_of(frame, hook);
	uint64_t block = frame->result, bytes;

	/* A string that stores its own text: after its length. */
	if (hook->op == LIMPET_OP_POSIX_MEMALIGN)
		block = ((const uint64_t *)(uintptr_t)args[0])[1];
	if (!block)
		return;
	block = nim_block(block, &bytes);
	if (!(hook->flags & LIMPET_HOOK_SIZELESS))
		bytes = args[0];
	frame->wanted |= choose(frame->thread, &bytes, LIMPET_OP_MALLOC);
	record_allocation(frame, block, bytes, LIMPET_EVENT_ALLOC);
}

/* Reads a word that was just written, if it is one at all. */
static bool is_pointer(uint64_t value)
{
	return value >= LIMPET_LOWEST_ADDRESS && value < LIMPET_HIGHEST_ADDRESS &&
	       value % sizeof(void *) == 0;
}

static void record_result(struct limpet_frame *frame, const struct limpet_hook *hook)
{
	const uint64_t *args = args_of(frame, hook);
	uint64_t size;

	switch (hook->op) {
	case LIMPET_OP_MALLOC:
		if (frame->result)
			record_allocation(frame, frame->result, args[0], LIMPET_EVENT_ALLOC);
		break;
	case LIMPET_OP_CALLOC:
		if (frame->result)
			record_allocation(frame, frame->result, args[0] * args[1],
					  LIMPET_EVENT_ALLOC);
		break;
	case LIMPET_OP_REALLOC:
		record_realloc(frame, args[0], args[1]);
		break;
	case LIMPET_OP_REALLOCARRAY:
		/* An overflowing product is a failed call, even if it wraps to 0. */
		if (!__builtin_mul_overflow(args[1], args[2], &size))
			record_realloc(frame, args[0], size);
		break;
	case LIMPET_OP_POSIX_MEMALIGN:
		if ((uint32_t)frame->result)
			break;
		/* The user may have named a function that returns 0 and has no such argument. */
		if (is_pointer(args[0]))
			record_allocation(frame, *(const uint64_t *)(uintptr_t)args[0], args[2],
					  LIMPET_EVENT_ALLOC);
		else
			count_lost(&limpet_shm->lost_arguments);
		break;
	case LIMPET_OP_MEMALIGN:
		if (frame->result)
			record_allocation(frame, frame->result, args[1], LIMPET_EVENT_ALLOC);
		break;
	case LIMPET_OP_MMAP:
		if (frame->result != MAP_FAILED_VALUE)
			record_allocation(frame, frame->result, args[1], LIMPET_EVENT_MMAP);
		break;
	case LIMPET_OP_MUNMAP:
		if (!(uint32_t)frame->result)
			limpet_record_append(frame->thread, LIMPET_EVENT_MUNMAP, frame->stamp,
					     args[0], args[1], 0);
		break;
	case LIMPET_OP_MREMAP:
		record_mremap(frame);
		break;
	default:
		break;
	}
}

void limpet_hook_exit(struct limpet_frame *frame)
{
	struct limpet_thread *thread = frame->thread;
	const struct limpet_hook *hook = &limpet_hooks[frame->hook];

	if (__builtin_expect(hook->op == LIMPET_OP_LOADER, 0))
		frame->result = limpet_original_of(frame->result);
	/* The original may have forked under us (a signal handler): the child must not write to
	 * memory that the parent uses. */
	if (!__atomic_load_n(&limpet_control->alive, __ATOMIC_ACQUIRE))
		return;
	/* A fibre that resumed in another thread, which has its own state. The first thread's state
	 * keeps its mark until the return address is gone: another thread may use it. */
	if (thread->thread_pointer != limpet_thread_pointer()) {
		count_lost(&limpet_shm->lost_state_in_use);
		return;
	}
	set_phase(thread, LIMPET_PHASE_RECORDING);
	if (hook->op != LIMPET_OP_FREE && __atomic_load_n(&limpet_control->on, __ATOMIC_ACQUIRE)) {
		if (hook->flags & LIMPET_HOOK_NIM)
			record_nim(frame, hook);
		else
			record_result(frame, hook);
		limpet_record_publish(thread);
	}
	if (!(frame->wanted & LIMPET_NESTED))
		hook_done(thread);
	set_phase(thread, LIMPET_PHASE_OUTSIDE);
}

int64_t limpet_hook_enter_copied(struct limpet_frame *frame)
{
	int64_t bytes;

	if (!limpet_hook_enter(frame))
		return LIMPET_PASS;
	bytes = limpet_stack_arguments(frame->thread, frame);
	if (bytes >= 0)
		return bytes;
	/* What a function has freed is recorded already; what it allocates will be unknown. */
	if (limpet_hooks[frame->hook].op != LIMPET_OP_FREE)
		count_lost(&limpet_shm->lost_arguments);
	if (!(frame->wanted & LIMPET_NESTED))
		hook_done(frame->thread);
	return LIMPET_PASS;
}

uint64_t limpet_hook_probe(const uint64_t *registers, uint64_t hook)
{
	const struct limpet_hook *it = &limpet_hooks[hook];
	struct limpet_frame frame = {
		.args = {registers[LIMPET_HOOK_REGISTER(it->flags)]},
		.hook = hook,
		/* A witness: see limpet_entry_witness. */
		.caller_pc = (uint64_t)(uintptr_t)limpet_way_probe,
	};

	if (__atomic_load_n(&limpet_control->on, __ATOMIC_ACQUIRE) && frame.args[0] >= NIM_PAGE &&
	    limpet_hook_enter(&frame))
		limpet_hook_exit(&frame);
	return it->original;
}

/* ------------------------------------------------------------------ the two that matter most */

typedef uint64_t malloc_fn(uint64_t a, uint64_t b, uint64_t c);

static __attribute__((noinline)) struct limpet_answer pass_on(uint64_t a, uint64_t b, uint64_t c,
							      uint64_t hook,
							      struct limpet_frame *frame)
{
	frame->args[0] = a;
	frame->args[1] = b;
	frame->args[2] = c;
	frame->hook = hook;
	return (struct limpet_answer){0, 1};
}

/* In an overload, with the state that begin() returned: most blocks are no samples and are only
 * added to the table. */
static __attribute__((noinline)) struct limpet_answer overloaded_malloc(
	struct limpet_thread *thread, uint32_t overload, struct limpet_frame *frame)
{
	const uint64_t *args = frame->args;
	malloc_fn *original = (malloc_fn *)(uintptr_t)limpet_hooks[frame->hook].original;
	bool room = __atomic_load_n(&limpet_shm->overload_room, __ATOMIC_RELAXED);

	if (room || !limpet_sample_passes(&thread->sample, limpet_sample_charge(args[0]))) {
		set_phase(thread, LIMPET_PHASE_OUTSIDE);
		if (!limpet_hook_enter(frame))
			return (struct limpet_answer){0, 1};
		frame->result = original(args[0], args[1], args[2]);
		limpet_hook_exit(frame);
		return (struct limpet_answer){frame->result, 0};
	}
	thread->depth = (uint32_t)frame->hook + 1;
	set_phase(thread, LIMPET_PHASE_OUTSIDE);
	frame->result = original(args[0], args[1], args[2]);
	if (!__atomic_load_n(&limpet_control->alive, __ATOMIC_ACQUIRE))
		return (struct limpet_answer){frame->result, 0};
	set_phase(thread, LIMPET_PHASE_RECORDING);
	if (frame->result)
		limpet_overload_note(frame->result, overload);
	hook_done(thread);
	set_phase(thread, LIMPET_PHASE_OUTSIDE);
	return (struct limpet_answer){frame->result, 0};
}

/* A call that begin() passed. */
static __attribute__((noinline)) struct limpet_answer malloc_inside(uint64_t a, uint64_t b,
								    uint64_t c, uint64_t hook,
								    struct limpet_frame *frame)
{
	struct limpet_thread *thread = thread_beside(frame, &limpet_hooks[hook]);
	uint64_t result;

	if (!thread)
		return pass_on(a, b, c, hook, frame);
	result = ((malloc_fn *)(uintptr_t)limpet_hooks[hook].original)(a, b, c);
	if (result && __atomic_load_n(&limpet_control->on, __ATOMIC_ACQUIRE))
		record_beside(thread, frame, &limpet_hooks[hook], LIMPET_EVENT_ALLOC, result, a);
	return (struct limpet_answer){result, 0};
}

static __attribute__((noinline)) bool free_inside(uint64_t block, uint64_t hook,
						  const struct limpet_frame *frame)
{
	struct limpet_thread *thread = thread_beside(frame, &limpet_hooks[hook]);

	if (thread)
		record_beside(thread, frame, &limpet_hooks[hook], LIMPET_EVENT_FREE, block,
			      usable_size(&limpet_hooks[hook], block));
	return thread;
}

struct limpet_answer limpet_hook_malloc(uint64_t a, uint64_t b, uint64_t c, uint64_t hook,
					struct limpet_frame *frame)
{
	malloc_fn *original = (malloc_fn *)(uintptr_t)limpet_hooks[hook].original;
	uint32_t overload = limpet_overload_now();
	struct limpet_thread *thread = begin(frame);
	uint64_t result;

	/* Nothing may be called from here without the mark that this thread is in a hook. */
	if (__builtin_expect(!thread, 0))
		return malloc_inside(a, b, c, hook, frame);
	if (__builtin_expect(overload != 0, 0)) {
		pass_on(a, b, c, hook, frame);
		return overloaded_malloc(thread, overload, frame);
	}
	thread->depth = (uint32_t)hook + 1;
	set_phase(thread, LIMPET_PHASE_OUTSIDE);
	result = original(a, b, c);
	/* It may have forked under us (a signal handler): the child must not write to memory that
	 * the parent uses. */
	if (__builtin_expect(!__atomic_load_n(&limpet_control->alive, __ATOMIC_ACQUIRE), 0))
		return (struct limpet_answer){result, 0};
	set_phase(thread, LIMPET_PHASE_RECORDING);
	if (__builtin_expect(result && __atomic_load_n(&limpet_control->on, __ATOMIC_ACQUIRE), 1)) {
		uint64_t stamp;
		uint32_t node;

		note_busy(thread);
		stamp = limpet_clock();
		node = capture_stack(thread, frame, &limpet_hooks[hook]);
		limpet_record_append(thread, LIMPET_EVENT_ALLOC, stamp, result, a, node);
		limpet_record_publish(thread);
	}
	hook_done(thread);
	set_phase(thread, LIMPET_PHASE_OUTSIDE);
	return (struct limpet_answer){result, 0};
}

bool limpet_hook_free(uint64_t block, uint64_t hook, struct limpet_frame *frame)
{
	struct limpet_thread *thread;
	uint64_t stamp;

	if (was_not_recorded(block))
		return false;
	thread = begin(frame);
	if (__builtin_expect(!thread, 0))
		return free_inside(block, hook, frame);
	/* Nothing may be called from here without the mark that this thread is in a hook. */
	thread->depth = (uint32_t)hook + 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	note_busy(thread);
	stamp = limpet_clock();
	limpet_record_append(thread, LIMPET_EVENT_FREE, stamp, block,
			     usable_size(&limpet_hooks[hook], block), 0);
	limpet_record_publish(thread);
	hook_done(thread);
	set_phase(thread, LIMPET_PHASE_OUTSIDE);
	return true;
}
