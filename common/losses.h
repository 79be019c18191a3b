/* Every reason why a trace is not complete, or why a figure may not be exact. The recorder
 * determines which of them apply (collector/record/recorder.h), a reader adds its own
 * (analyzer/model/model_losses.h); only this file defines what each means for the words `complete`
 * and `exact`. docs/losses.md lists the causes.
 *
 * complete: every event of every allocator that the head of the report lists is in the trace.
 * exact: every figure that is printed is the true one. */
#ifndef LIMPET_COMMON_LOSSES_H
#define LIMPET_COMMON_LOSSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers of bits in PERIOD and END blocks, limpet-trace(5): they never change. */
enum limpet_loss {
	/* counted in the trace */
	LIMPET_LOSS_DROPPED = 0,   /* events: there was no room, or they made no sense */
	LIMPET_LOSS_UNSEEN = 1,    /* calls that could not be recorded */
	LIMPET_LOSS_UNTRACKED = 2, /* allocations or mappings beyond the collector's memory */
	LIMPET_LOSS_INFERRED = 3,  /* frees that were not seen: their address was allocated again */
	LIMPET_LOSS_TRUNCATED = 4, /* stacks */
	/* flags in the trace */
	LIMPET_LOSS_SAMPLED = 5,
	LIMPET_LOSS_PARTIAL = 6,         /* --partial: an allocator is out of reach */
	LIMPET_LOSS_SLOTS = 7,           /* some were not patched */
	LIMPET_LOSS_FUNCTIONS = 8,       /* functions of an allocator that cannot be hooked */
	LIMPET_LOSS_THREAD_HEAPS = 9,    /* thread heaps: freed as a whole, unseen */
	LIMPET_LOSS_LATE_ALLOCATOR = 10, /* loaded during the capture, and not followed */
	LIMPET_LOSS_LATE_EVENTS = 11,    /* events that came too late to be put in order */
	LIMPET_LOSS_NAMED = 12,          /* functions that the user named are not an allocator's */
	LIMPET_LOSS_ENDED_EARLY = 13,    /* no space left on the disk, or in the file */
	LIMPET_LOSS_FILE = 14,           /* the trace could not be written */
	LIMPET_LOSS_MEMORY = 15,         /* the collector ran out of memory */
	LIMPET_LOSS_UNSAID = 16,         /* a reason that only a newer limpet knows */
	LIMPET_LOSS_BROKEN = 17,         /* the program overwrote the shared memory */
	LIMPET_LOSS_LATE_MODULES = 18,   /* modules whose first calls may not have been seen */
	LIMPET_LOSS_STORED = 19, /* frees through an address that was stored before the capture */
	LIMPET_LOSS_STACKS = 20, /* events whose stack is unknown: there was no room for it */
	LIMPET_LOSS_HEAPS = 21,  /* blocks that were freed at once, with their heap or arena */
	LIMPET_LOSS_STREAM = 22, /* single events that the reader of a stream did not take */
	/* found by a reader, never written */
	LIMPET_LOSS_UNFINISHED, /* there is no end record */
	LIMPET_LOSS_DAMAGED,    /* a block of the capture is lost or damaged */
	LIMPET_LOSS_BRIDGED,    /* figures are interpolated across a gap */
	LIMPET_LOSS_GIVEN_UP,   /* the window includes a time of which only sums are left */
	LIMPET_LOSS_RECORDER,   /* another profiler recorded it: what it missed is not known */
	LIMPET_LOSS_COUNT
};
#define LIMPET_LOSS_BIT(loss) (1ull << (loss))
/* Those that PERIOD and END blocks contain. */
#define LIMPET_LOSSES_WRITTEN (LIMPET_LOSS_BIT(LIMPET_LOSS_UNFINISHED) - 1)
/* Figures are approximate for data that is no longer in the file. */
#define LIMPET_LOSSES_OF_A_READER \
	(LIMPET_LOSS_BIT(LIMPET_LOSS_BRIDGED) | LIMPET_LOSS_BIT(LIMPET_LOSS_GIVEN_UP))

struct limpet_loss_kind {
	const char *key;   /* for programs */
	const char *words; /* "the trace is not complete: ..." */
	bool clears_complete, clears_exact;
};
extern const struct limpet_loss_kind limpet_loss_kinds[LIMPET_LOSS_COUNT];

/* Events that were dropped, as far as their kind is known. Bytes are those of the events: for frees
 * the usable size of the blocks, which is at least the requested one. */
struct limpet_dropped {
	uint64_t allocations, allocated_bytes;
	uint64_t frees, freed_bytes;
	uint64_t unsized_frees; /* of these, frees of unknown size */
	uint64_t mmaps, mmap_bytes, munmaps, munmap_bytes;
};

/* Bits of a trace: those that only a newer limpet knows become LIMPET_LOSS_UNSAID. */
uint64_t limpet_losses_known(uint64_t losses);
/* For a set of bits; unknown bits clear both. */
bool limpet_losses_complete(uint64_t losses);
bool limpet_losses_exact(uint64_t losses);

/* Room for the words about one loss. */
#define LIMPET_LOSS_WORDS 256
/* Appends a sentence to `because`, the words that a trace has in addition to the bits: one for each
 * loss for which limpet_loss_has_words(), in the order of the list there, separated by "; ". */
void limpet_loss_report(char *because, size_t room, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
bool limpet_loss_has_words(enum limpet_loss loss);
/* The words for one of `losses`: its sentence in `because`, else the words of its kind. */
const char *limpet_loss_words(char ret[LIMPET_LOSS_WORDS], enum limpet_loss loss, uint64_t losses,
			      const char *because);

static inline uint64_t limpet_loss_if(bool holds, enum limpet_loss loss)
{
	return holds ? LIMPET_LOSS_BIT(loss) : 0;
}

#endif
