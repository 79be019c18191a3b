#include "common/losses.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/err.h"

#define COMPLETE true, false
#define EXACT false, true
#define BOTH true, true
#define NEITHER false, false
#define KIND(loss, key, words, ...) [LIMPET_LOSS_##loss] = {key, words, __VA_ARGS__}
const struct limpet_loss_kind limpet_loss_kinds[LIMPET_LOSS_COUNT] = {
	KIND(DROPPED, "dropped-events", "events were dropped", BOTH),
	KIND(UNSEEN, "unseen-calls", "calls were not recorded", BOTH),
	KIND(UNTRACKED, "untracked", "the collector's memory was too small for all live blocks",
	     BOTH),
	KIND(INFERRED, "inferred-frees", "frees were not seen", EXACT),
	KIND(TRUNCATED, "truncated-stacks", "stacks were cut short", NEITHER),
	KIND(SAMPLED, "sampled", "allocations were sampled", EXACT),
	KIND(PARTIAL, "partial", "an allocator is out of reach", NEITHER),
	KIND(SLOTS, "slots", "some modules' calls could not be hooked", BOTH),
	KIND(FUNCTIONS, "functions", "functions of its allocator cannot be followed", BOTH),
	KIND(THREAD_HEAPS, "thread-heaps", "heaps of threads are released unseen", BOTH),
	KIND(LATE_ALLOCATOR, "late-allocator",
	     "a module that was loaded during the capture has an allocator of its own", BOTH),
	KIND(LATE_EVENTS, "late-events", "events arrived too late to be put in order", BOTH),
	KIND(NAMED, "named-functions",
	     "a function named in --alloc-functions has another signature", BOTH),
	KIND(ENDED_EARLY, "ended-early", "it ended early, for lack of space", COMPLETE),
	KIND(FILE, "file", "the trace could not be written", BOTH),
	KIND(MEMORY, "memory", "the collector ran out of memory", BOTH),
	KIND(UNSAID, "unsaid", "the reason is not recorded", BOTH),
	KIND(BROKEN, "broken", "the program overwrote limpet's shared memory", BOTH),
	KIND(LATE_MODULES, "late-modules",
	     "first calls of modules loaded during the capture may have been missed", BOTH),
	KIND(STORED, "stored-frees",
	     "the program freed blocks through an address that it had stored", BOTH),
	KIND(STACKS, "lost-stacks", "stacks of some events are unknown", BOTH),
	KIND(HEAPS, "freed-heaps",
	     "the program freed whole heaps or arenas at once; their blocks count as live", BOTH),
	KIND(STREAM, "slow-reader",
	     "the reader of the stream was too slow for all events: some are only in the sums",
	     BOTH),
	KIND(UNFINISHED, "unfinished", "its end is missing", COMPLETE),
	KIND(DAMAGED, "damaged", "a part of it is lost or damaged", COMPLETE),
	KIND(BRIDGED, "bridged", "figures are interpolated across a damaged part", EXACT),
	KIND(RECORDER, "recorder", "heaptrack, which recorded it, does not count what it missed",
	     BOTH),
	KIND(GIVEN_UP, "given-up", "for part of the time only sums are kept", EXACT),
};

static uint64_t that_clear(bool complete)
{
	uint64_t losses = ~(LIMPET_LOSS_BIT(LIMPET_LOSS_COUNT) - 1);

	for (unsigned i = 0; i < LIMPET_LOSS_COUNT; i++)
		losses |= limpet_loss_if(complete ? limpet_loss_kinds[i].clears_complete
						  : limpet_loss_kinds[i].clears_exact,
					 (enum limpet_loss)i);
	return losses;
}

uint64_t limpet_losses_known(uint64_t losses)
{
	return (losses & LIMPET_LOSSES_WRITTEN) |
	       limpet_loss_if(losses & ~LIMPET_LOSSES_WRITTEN, LIMPET_LOSS_UNSAID);
}

bool limpet_losses_complete(uint64_t losses)
{
	return !(losses & that_clear(true));
}

bool limpet_losses_exact(uint64_t losses)
{
	return !(losses & that_clear(false));
}

/* The order of the sentences. */
static const enum limpet_loss in_words[] = {
	LIMPET_LOSS_FUNCTIONS,    LIMPET_LOSS_THREAD_HEAPS, LIMPET_LOSS_LATE_ALLOCATOR,
	LIMPET_LOSS_LATE_MODULES, LIMPET_LOSS_LATE_EVENTS,  LIMPET_LOSS_ENDED_EARLY,
	LIMPET_LOSS_NAMED,        LIMPET_LOSS_STORED,       LIMPET_LOSS_STACKS,
	LIMPET_LOSS_STREAM,       LIMPET_LOSS_UNSAID,
};
#define BETWEEN "; "

bool limpet_loss_has_words(enum limpet_loss loss)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(in_words); i++)
		if (in_words[i] == loss)
			return true;
	return false;
}

void limpet_loss_report(char *because, size_t room, const char *format, ...)
{
	size_t used = strlen(because);
	va_list values;

	if (used) {
		snprintf(because + used, room - used, BETWEEN);
		used = strlen(because);
	}
	va_start(values, format);
	vsnprintf(because + used, room - used, format, values);
	va_end(values);
	/* Replaces the separator inside a name, so that it does not begin a second sentence. */
	for (char *at = because + used; (at = strchr(at, BETWEEN[0]));)
		*at = ',';
}

const char *limpet_loss_words(char ret[LIMPET_LOSS_WORDS], enum limpet_loss loss, uint64_t losses,
			      const char *because)
{
	const char *sentence = because;

	for (size_t i = 0; i < LIMPET_COUNT_OF(in_words) && *sentence; i++) {
		const char *end;
		bool last = true;

		if (!(losses & LIMPET_LOSS_BIT(in_words[i])))
			continue;
		for (size_t k = i + 1; k < LIMPET_COUNT_OF(in_words); k++)
			last = last && !(losses & LIMPET_LOSS_BIT(in_words[k]));
		end = last ? NULL : strstr(sentence, BETWEEN);
		if (in_words[i] == loss) {
			snprintf(ret, LIMPET_LOSS_WORDS, "%.*s",
				 (int)(end ? end - sentence : LIMPET_LOSS_WORDS), sentence);
			return ret;
		}
		sentence = end ? end + strlen(BETWEEN) : "";
	}
	snprintf(ret, LIMPET_LOSS_WORDS, "%s", limpet_loss_kinds[loss].words);
	return ret;
}
