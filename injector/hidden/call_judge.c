#include "injector/hidden/call_judge.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/array.h"

/* Fewer calls tell nothing of a function, fewer pairs nothing of an allocator. */
#define LEAST_CALLS (LIMPET_WATCHED_ENOUGH / 2)
#define LEAST_PAIRS 64u
/* Of so many pairs one may be contradicted: a thread that came meanwhile is not watched. */
#define PAIRS_PER_CONTRADICTION 500u
/* The function that is thought to be malloc. */
#define MALLOC_NUMBER 0u
#define MOST_DEPTH 64u
#define MOST_THREADS 256u
/* Alignments and flags are small or powers of two; a second factor of a size is neither, often. */
#define MOST_FLAGS 64u
#define MOST_ALIGNMENT 4096u
#define MOST_SIZE ((uint64_t)1 << 40)

struct block {
	uint64_t address;
	enum { UNKNOWN = 0, GIVEN, TAKEN } state;
	uint8_t by; /* the function that gave or took it */
	uint64_t size;
};

/* What is known of a function before roles are given. */
struct evidence {
	uint32_t calls, returns;
	uint32_t judged;   /* of the calls, those that were not late and not within another one */
	uint32_t takes;    /* its first argument was a block that somebody had been given */
	uint32_t gives;    /* what it returned was taken later by a function */
	uint32_t not_kept; /* what it returned was given by malloc again, so it had given nothing */
	uint32_t released; /* what it took was given by malloc again */
	uint32_t reused;   /* what it took was taken again, so it had released nothing */
	uint32_t known;    /* of the blocks that it took, those whose size is known */
	uint32_t same_size;      /* of these, those whose size was its second argument */
	uint32_t blocks;         /* what it returned can be a block */
	uint32_t fitting;        /* the same, and a multiple of its second argument */
	uint32_t pointers;       /* its first argument was no size */
	uint32_t ones;           /* its first argument was 1 */
	uint32_t aligned;        /* its second argument can be an alignment */
	uint32_t factors;        /* its second argument can be no alignment and no flags */
	uint32_t wild;           /* its second argument can be no size */
	uint32_t pairs_returned; /* the second result was the first argument: pointer and length */
};

struct judge {
	struct limpet_watched_call *list;
	size_t count;
	unsigned function_count;
	struct block *blocks;
	size_t block_mask;
	bool returns[LIMPET_WATCHED_MAX]; /* its returns were watched, too */
	struct evidence evidence[LIMPET_WATCHED_MAX];
	struct limpet_watched_verdict *verdict;
	/* For each thread, the calls that have not returned. */
	struct stack {
		uint32_t tid, depth;
		const struct limpet_watched_call *calls[MOST_DEPTH];
	} * stacks;
	size_t stack_count;
};

static struct block *block_at(struct judge *judge, uint64_t address)
{
	size_t i =
		(size_t)((address >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & judge->block_mask;

	/* There are more places than calls. */
	while (judge->blocks[i].address && judge->blocks[i].address != address)
		i = (i + 1) & judge->block_mask;
	judge->blocks[i].address = address;
	return &judge->blocks[i];
}

static struct stack *stack_of(struct judge *judge, uint32_t tid)
{
	for (size_t i = 0; i < judge->stack_count; i++)
		if (judge->stacks[i].tid == tid)
			return &judge->stacks[i];
	if (judge->stack_count == MOST_THREADS)
		return NULL;
	judge->stacks[judge->stack_count] = (struct stack){.tid = tid};
	return &judge->stacks[judge->stack_count++];
}

/* Calls below the stack pointer were left without a return, by an exception. */
static void drop_left(struct stack *stack, uint64_t sp)
{
	while (stack->depth && stack->calls[stack->depth - 1]->sp < sp)
		stack->depth--;
}

static void push(const struct judge *judge, struct stack *stack,
		 const struct limpet_watched_call *call)
{
	if (judge->returns[call->function] && stack->depth < MOST_DEPTH)
		stack->calls[stack->depth++] = call;
}

/* The call that returns here; NULL: it began before the watch. */
static const struct limpet_watched_call *pop(struct stack *stack,
					     const struct limpet_watched_call *call)
{
	while (stack->depth) {
		const struct limpet_watched_call *last = stack->calls[--stack->depth];

		if (last->sp + sizeof(uint64_t) == call->sp && last->function == call->function)
			return last;
		if (last->sp >= call->sp)
			break;
	}
	return NULL;
}

/* ---------------------------------------------------------------- evidence */

static void note_arguments(struct evidence *evidence, const struct limpet_watched_call *call)
{
	const uint64_t first = call->args[0], second = call->args[1];

	evidence->calls++;
	evidence->pointers += first >= MOST_SIZE;
	evidence->ones += first == 1;
	evidence->aligned += second && second <= MOST_ALIGNMENT && (second & (second - 1)) == 0;
	evidence->wild += second >= MOST_SIZE;
	evidence->factors +=
		second < MOST_SIZE && second > MOST_FLAGS && (second & (second - 1)) != 0;
}

static void note_call(struct judge *judge, const struct limpet_watched_call *call)
{
	struct evidence *evidence = &judge->evidence[call->function];
	struct block *block;

	note_arguments(evidence, call);
	evidence->judged++;
	if (!call->args[0])
		return;
	block = block_at(judge, call->args[0]);
	if (block->state == GIVEN) {
		evidence->takes++;
		evidence->known += block->size != 0;
		evidence->same_size += block->size && block->size == call->args[1];
		judge->evidence[block->by].gives++;
	} else if (block->state == TAKEN) {
		judge->evidence[block->by].reused++;
	} else if (call->args[0] < MOST_SIZE) {
		/* A size is no block. */
		block->state = UNKNOWN;
		return;
	}
	block->state = TAKEN;
	block->by = call->function;
}

static bool can_be_block(uint64_t value)
{
	return value >= MOST_SIZE && value % sizeof(uint64_t) == 0;
}

static void note_results(struct evidence *evidence, const struct limpet_watched_call *call,
			 const struct limpet_watched_call *begin)
{
	evidence->returns++;
	evidence->pairs_returned += call->results[1] == begin->args[0];
	evidence->blocks += can_be_block(call->results[0]);
	evidence->fitting += can_be_block(call->results[0]) && begin->args[1] &&
			     call->results[0] % begin->args[1] == 0;
}

static void note_return(struct judge *judge, const struct limpet_watched_call *call,
			const struct limpet_watched_call *begin)
{
	const bool is_malloc = call->function == MALLOC_NUMBER;
	struct block *block;

	note_results(&judge->evidence[call->function], call, begin);
	if (!can_be_block(call->results[0]))
		return;
	block = block_at(judge, call->results[0]);
	if (is_malloc && block->state == TAKEN)
		judge->evidence[block->by].released++;
	if (is_malloc && block->state == GIVEN && block->by != call->function)
		judge->evidence[block->by].not_kept++;
	if (!is_malloc && block->state == GIVEN)
		return;
	block->state = GIVEN;
	block->by = call->function;
	/* Which argument of one that moves blocks is the size is not known yet. */
	block->size = begin->args[0] < MOST_SIZE ? begin->args[0] : 0;
}

static void forget(struct judge *judge)
{
	memset(judge->blocks, 0, (judge->block_mask + 1) * sizeof(*judge->blocks));
	judge->stack_count = 0;
}

static void gather(struct judge *judge)
{
	forget(judge);
	for (size_t i = 0; i < judge->count; i++) {
		const struct limpet_watched_call *call = &judge->list[i];
		struct evidence *evidence = &judge->evidence[call->function];
		struct stack *stack = stack_of(judge, call->tid);
		const struct limpet_watched_call *begin;

		if (!stack)
			continue;
		/* What a function does to do its work is no evidence of another one. */
		if (!call->returns) {
			drop_left(stack, call->sp);
			if (call->is_late)
				note_arguments(evidence, call);
			else if (!stack->depth)
				note_call(judge, call);
			push(judge, stack, call);
			continue;
		}
		begin = pop(stack, call);
		if (begin && call->is_late)
			note_results(evidence, call, begin);
		else if (begin && !stack->depth)
			note_return(judge, call, begin);
	}
}

/* ---------------------------------------------------------------- roles */

/* A function that gets sizes, and gives blocks. */
static enum limpet_watched_role role_of_giver(const struct evidence *evidence, bool is_malloc)
{
	/* Pointer and length, as Rust returns a slice: the hooks keep one result only. (One that
	 * clears the block may leave the length there by chance.) */
	if (is_malloc && evidence->pairs_returned == evidence->returns)
		return LIMPET_WATCHED_UNCLEAR;
	/* Only a count is always 1. */
	if (evidence->ones == evidence->calls)
		return LIMPET_WATCHED_CALLOC;
	return !evidence->factors || evidence->wild ? LIMPET_WATCHED_MALLOC
						    : LIMPET_WATCHED_UNCLEAR;
}

static enum limpet_watched_role role_of_taker(const struct evidence *evidence)
{
	const uint32_t gives = evidence->gives, not_kept = evidence->not_kept;

	if (evidence->reused * 4 > evidence->takes)
		return LIMPET_WATCHED_OTHER;
	if (gives > 4 * not_kept && gives >= LEAST_CALLS)
		/* With (block, old size, ...) the new size is elsewhere. */
		return evidence->same_size * 8 > evidence->known ? LIMPET_WATCHED_UNCLEAR
								 : LIMPET_WATCHED_REALLOC;
	if (gives <= not_kept + evidence->returns / 16 && evidence->released)
		return LIMPET_WATCHED_FREE;
	return LIMPET_WATCHED_UNCLEAR;
}

/* (size, alignment), for which a block came that is so aligned: few calls show no more, and hardly
 * anything else has these arguments. */
static bool is_rare_giver(const struct evidence *evidence)
{
	return evidence->returns >= 2 && evidence->fitting == evidence->returns &&
	       evidence->aligned == evidence->calls && !evidence->pointers && !evidence->ones;
}

static enum limpet_watched_role role_of(const struct judge *judge, unsigned number)
{
	const struct evidence *evidence = &judge->evidence[number];

	if (evidence->judged < LEAST_CALLS)
		return is_rare_giver(evidence) ? LIMPET_WATCHED_MALLOC : LIMPET_WATCHED_IDLE;
	if (evidence->takes >= LEAST_CALLS && evidence->pointers * 2 > evidence->calls)
		return role_of_taker(evidence);
	/* It took blocks that are older than the watch. */
	if (evidence->pointers)
		return evidence->released ? LIMPET_WATCHED_UNCLEAR : LIMPET_WATCHED_OTHER;
	if (number == MALLOC_NUMBER ||
	    (evidence->gives >= LEAST_CALLS && evidence->gives > 4 * evidence->not_kept))
		return role_of_giver(evidence, number == MALLOC_NUMBER);
	/* What it returns may be blocks that nobody has taken back yet. */
	return evidence->blocks && evidence->blocks * 2 > evidence->returns ? LIMPET_WATCHED_IDLE
									    : LIMPET_WATCHED_OTHER;
}

/* ---------------------------------------------------------------- proof */

static bool is_of_allocator(enum limpet_watched_role role)
{
	return role >= LIMPET_WATCHED_MALLOC && role <= LIMPET_WATCHED_FREE;
}

static uint64_t size_of(enum limpet_watched_role role, const struct limpet_watched_call *call)
{
	if (role == LIMPET_WATCHED_REALLOC)
		return call->args[1];
	if (role == LIMPET_WATCHED_CALLOC)
		return call->args[0] * call->args[1];
	return call->args[0];
}

static void note_release(struct judge *judge, uint64_t address)
{
	struct block *block = block_at(judge, address);

	judge->verdict->pairs += block->state == GIVEN;
	judge->verdict->contradictions += block->state == TAKEN;
	block->state = TAKEN;
}

static void give_block(struct judge *judge, uint64_t address, uint64_t size)
{
	struct block *block = block_at(judge, address);

	judge->verdict->contradictions += block->state == GIVEN || !can_be_block(address);
	block->state = GIVEN;
	block->size = size;
}

/* A call within another one of the allocator is that one's own matter. */
static bool is_inner(const struct judge *judge, const struct stack *stack)
{
	for (uint32_t i = 0; i < stack->depth; i++)
		if (is_of_allocator(judge->verdict->roles[stack->calls[i]->function]))
			return true;
	return false;
}

static void prove_call(struct judge *judge, const struct limpet_watched_call *call)
{
	const enum limpet_watched_role role = judge->verdict->roles[call->function];
	struct stack *stack = stack_of(judge, call->tid);
	const struct limpet_watched_call *begin;

	if (!stack)
		return;
	if (!call->returns) {
		drop_left(stack, call->sp);
		if ((role == LIMPET_WATCHED_FREE || role == LIMPET_WATCHED_REALLOC) &&
		    call->args[0] && !is_inner(judge, stack))
			note_release(judge, call->args[0]);
		push(judge, stack, call);
		return;
	}
	begin = pop(stack, call);
	if (!begin || is_inner(judge, stack))
		return;
	if (is_of_allocator(role) && role != LIMPET_WATCHED_FREE && call->results[0])
		give_block(judge, call->results[0], size_of(role, begin));
}

static int compare_blocks(const void *a, const void *b)
{
	const struct block *left = a, *right = b;

	return (left->address > right->address) - (left->address < right->address);
}

/* Blocks that overlap have not the sizes that were taken for theirs. Ends the table. */
static void find_overlaps(struct judge *judge)
{
	size_t kept = 0;

	for (size_t i = 0; i <= judge->block_mask; i++)
		if (judge->blocks[i].state == GIVEN)
			judge->blocks[kept++] = judge->blocks[i];
	qsort(judge->blocks, kept, sizeof(*judge->blocks), compare_blocks);
	for (size_t i = 0; i + 1 < kept; i++)
		judge->verdict->contradictions +=
			judge->blocks[i].size >
			judge->blocks[i + 1].address - judge->blocks[i].address;
}

static bool has_role(const struct judge *judge, enum limpet_watched_role role)
{
	for (unsigned i = 0; i < judge->function_count; i++)
		if (judge->verdict->roles[i] == role)
			return true;
	return false;
}

/* NULL, or why the functions are not hooked. */
static const char *doubt(const struct judge *judge)
{
	const struct limpet_watched_verdict *verdict = judge->verdict;

	if (judge->evidence[MALLOC_NUMBER].judged < LEAST_CALLS)
		return "it was hardly called";
	if (has_role(judge, LIMPET_WATCHED_UNCLEAR))
		return "one of its functions is of an unknown kind";
	if (verdict->roles[MALLOC_NUMBER] != LIMPET_WATCHED_MALLOC ||
	    !has_role(judge, LIMPET_WATCHED_FREE))
		return "no function takes back what another one gives";
	if (verdict->pairs < LEAST_PAIRS)
		return "too few blocks were given and taken back";
	if ((uint64_t)verdict->contradictions * PAIRS_PER_CONTRADICTION > verdict->pairs)
		return "some of its functions are unknown: the calls that were seen contradict "
		       "each other";
	return NULL;
}

static int compare_times(const void *a, const void *b)
{
	const struct limpet_watched_call *left = a, *right = b;

	return (left->time_ns > right->time_ns) - (left->time_ns < right->time_ns);
}

static void judge_all(struct judge *judge)
{
	struct limpet_watched_verdict *verdict = judge->verdict;
	const char *why;

	for (size_t i = 0; i < judge->count; i++)
		judge->returns[judge->list[i].function] |= judge->list[i].returns;
	gather(judge);
	for (unsigned i = 0; i < judge->function_count; i++) {
		verdict->calls[i] = judge->evidence[i].calls;
		verdict->roles[i] = role_of(judge, i);
	}
	forget(judge);
	for (size_t i = 0; i < judge->count; i++)
		if (!judge->list[i].is_late)
			prove_call(judge, &judge->list[i]);
	find_overlaps(judge);
	why = doubt(judge);
	verdict->sure = !why;
	snprintf(verdict->why, sizeof(verdict->why), "%s", why ?: "");
}

int limpet_watched_judge(struct limpet_watched_call *list, size_t count, unsigned function_count,
			 struct limpet_watched_verdict *ret)
{
	struct limpet_watched_verdict verdict = {.sure = false};
	struct judge judge = {.list = list,
			      .count = count,
			      .function_count = function_count,
			      .block_mask = 1023,
			      .verdict = &verdict};
	LIMPET_FREE struct block *blocks = NULL;
	LIMPET_FREE struct stack *stacks = calloc(MOST_THREADS, sizeof(*stacks));

	while (judge.block_mask < 4 * count)
		judge.block_mask = 2 * judge.block_mask + 1;
	blocks = calloc(judge.block_mask + 1, sizeof(*blocks));
	if (!blocks || !stacks)
		return -ENOMEM;
	judge.blocks = blocks;
	judge.stacks = stacks;
	qsort(list, count, sizeof(*list), compare_times);
	judge_all(&judge);
	*ret = verdict;
	return 0;
}
