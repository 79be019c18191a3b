/* Why a trace is not complete, and why a figure may not be the true one: every reason there is,
 * once. The recorder says which of them hold (recorder/recorder.h), a reader adds its own
 * (analyzer/model/model_losses.h); what each of them means for the words `complete` and `exact`
 * stands here alone. docs/losses.md has the ways that lead to them.
 *
 * complete: every event of every allocator that the head of the report lists is in the trace.
 * exact: every figure that is printed is the true one. */
#ifndef LIMPET_COMMON_LOSSES_H
#define LIMPET_COMMON_LOSSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers of bits in PERIOD and END blocks, limpet-trace(5): they stay. */
enum limpet_loss {
	/* counted in the trace */
	LIMPET_LOSS_DROPPED = 0,   /* events: no room, or no sense */
	LIMPET_LOSS_UNSEEN = 1,    /* calls that could not be recorded */
	LIMPET_LOSS_UNTRACKED = 2, /* allocations or mappings beyond the collector's memory */
	LIMPET_LOSS_INFERRED = 3,  /* frees that were not seen: their address was allocated anew */
	LIMPET_LOSS_TRUNCATED = 4, /* stacks */
	/* said by the trace */
	LIMPET_LOSS_SAMPLED = 5,
	LIMPET_LOSS_PARTIAL = 6,         /* asked for: an allocator is out of reach */
	LIMPET_LOSS_SLOTS = 7,           /* that were not written */
	LIMPET_LOSS_FUNCTIONS = 8,       /* of its allocator that cannot be followed */
	LIMPET_LOSS_THREAD_HEAPS = 9,    /* released as a whole, unseen */
	LIMPET_LOSS_LATE_ALLOCATOR = 10, /* that came with a module, and is not followed */
	LIMPET_LOSS_LATE_EVENTS = 11,    /* too late for their order */
	LIMPET_LOSS_NAMED = 12,          /* functions that the user named are no allocator's */
	LIMPET_LOSS_ENDED_EARLY = 13,    /* no room on the disk, or in the file */
	LIMPET_LOSS_FILE = 14,           /* it could not be written */
	LIMPET_LOSS_MEMORY = 15,         /* ran out in the collector */
	LIMPET_LOSS_UNSAID = 16,         /* an older or a newer limpet knew why */
	LIMPET_LOSS_BROKEN = 17,         /* what the agent had written was written over */
	LIMPET_LOSS_LATE_MODULES = 18,   /* whose first calls may not have been seen */
	LIMPET_LOSS_STORED = 19, /* frees by an address that was stored before the capture */
	LIMPET_LOSS_STACKS = 20, /* events whose stack is unknown: no room for it */
	/* found by a reader, never written */
	LIMPET_LOSS_UNFINISHED, /* there is no end record */
	LIMPET_LOSS_DAMAGED,    /* a block of the capture is lost or damaged */
	LIMPET_LOSS_BRIDGED,    /* and figures rest on what is around it */
	LIMPET_LOSS_GIVEN_UP,   /* the window reaches into what there are sums of alone */
	LIMPET_LOSS_COUNT
};
#define LIMPET_LOSS_BIT(loss) (1ull << (loss))
/* Of PERIOD and END blocks. */
#define LIMPET_LOSSES_WRITTEN (LIMPET_LOSS_BIT(LIMPET_LOSS_UNFINISHED) - 1)
/* Figures that are approximate for what is not in the file any more. */
#define LIMPET_LOSSES_OF_A_READER \
	(LIMPET_LOSS_BIT(LIMPET_LOSS_BRIDGED) | LIMPET_LOSS_BIT(LIMPET_LOSS_GIVEN_UP))

struct limpet_loss_kind {
	const char *key;   /* for programs */
	const char *words; /* "the trace is not complete: ..." */
	bool clears_complete, clears_exact;
};
extern const struct limpet_loss_kind limpet_loss_kinds[LIMPET_LOSS_COUNT];

/* Events that were dropped, as far as their kind is known. Bytes as the events have them: of frees
 * what their blocks had room for, no less than was asked for. */
struct limpet_dropped {
	uint64_t allocations, allocated_bytes;
	uint64_t frees, freed_bytes;
	uint64_t unsized_frees; /* of these, those that say no bytes */
	uint64_t mmaps, mmap_bytes, munmaps, munmap_bytes;
};

/* Of a set of bits; those that nobody knows clear both. */
bool limpet_losses_complete(uint64_t losses);
bool limpet_losses_exact(uint64_t losses);

/* Bytes of what is said of one of them. */
#define LIMPET_LOSS_WORDS 256
/* Adds a sentence to `because`, the words that a trace has besides the bits: one for each loss that
 * limpet_loss_has_words(), in the order of the list there, with "; " between. */
void limpet_loss_say(char *because, size_t room, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
bool limpet_loss_has_words(enum limpet_loss loss);
/* Of one of `losses`: its sentence in `because`, else the words of its kind. */
const char *limpet_loss_words(char ret[LIMPET_LOSS_WORDS], enum limpet_loss loss, uint64_t losses,
			      const char *because);

static inline uint64_t limpet_loss_if(bool holds, enum limpet_loss loss)
{
	return holds ? LIMPET_LOSS_BIT(loss) : 0;
}

#endif
