/* Judges by their calls which functions are those of an allocator: what one returns, another takes
 * back, and meanwhile nobody else gets it. Pure; any thread. */
#ifndef LIMPET_INJECTOR_HIDDEN_CALL_JUDGE_H
#define LIMPET_INJECTOR_HIDDEN_CALL_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define LIMPET_WATCHED_MAX 12u
/* Calls, with their returns, by which a function can be judged. */
#define LIMPET_WATCHED_ENOUGH 8u

/* A call of a watched function, or its return. */
struct limpet_watched_call {
	uint64_t time_ns;
	uint32_t tid;
	uint8_t function; /* its number, below LIMPET_WATCHED_MAX */
	bool returns;
	bool is_late;     /* of a time in which not all functions were watched any more */
	uint64_t sp;      /* of the caller's return address; after a return, the word above it */
	uint64_t args[2]; /* of a call */
	uint64_t results[2];
};

enum limpet_watched_role {
	LIMPET_WATCHED_IDLE = 0, /* too few calls to judge it by, or nobody took what it gave */
	LIMPET_WATCHED_OTHER,    /* neither gives nor takes blocks */
	LIMPET_WATCHED_MALLOC,   /* (size, ...) */
	LIMPET_WATCHED_CALLOC,   /* (count, size) */
	LIMPET_WATCHED_REALLOC,  /* (block, size, ...) */
	LIMPET_WATCHED_FREE,     /* (block, ...) */
	LIMPET_WATCHED_UNCLEAR,  /* it does something with blocks, but not one of these */
};

struct limpet_watched_verdict {
	enum limpet_watched_role roles[LIMPET_WATCHED_MAX];
	uint32_t calls[LIMPET_WATCHED_MAX];
	uint32_t pairs;          /* blocks that were given and taken back */
	uint32_t contradictions; /* given while somebody had them, taken back twice, overlapping */
	bool sure;               /* the roles are those of a whole allocator */
	char why[160];           /* if not: the reason, for people */
};

/* Sorts the list by time. The function number 0 is thought to be malloc. `function_count`: at most
 * LIMPET_WATCHED_MAX. -ENOMEM. */
int limpet_watched_judge(struct limpet_watched_call *list, size_t count, unsigned function_count,
			 struct limpet_watched_verdict *ret) LIMPET_MUST_CHECK;

#endif
