/* Finds which pages of the live heap blocks are resident, at the end of a capture: by the
 * process's pagemap, never by its memory.
 *
 * A page that is swapped out is not resident. Before Linux 6.7 the kernel's page of zeros counts as
 * resident, as which a page appears that was read and never written to. */
#ifndef LIMPET_COLLECTOR_CAPTURE_RESIDENT_PAGES_H
#define LIMPET_COLLECTOR_CAPTURE_RESIDENT_PAGES_H

#include <stdint.h>

#include "collector/record/recorder.h"
#include "common/err.h"
#include "injector/proc/target_process.h"

struct limpet_resident_pages {
	const struct limpet_target *target; /* the program whose blocks these are */
	uint64_t deadline_ns; /* monotonic: what was not looked at by then is left out */
	struct limpet_recorder_run *runs;
	size_t count, capacity;
};

/* Looks at the pages of the recorder's live blocks, in order of address. *ret_resident points into
 * `pages`, of which the caller has set the first two members. No event may be added to the
 * recorder afterwards. -ESRCH: the process ended, or executed another program, meanwhile: nothing
 * is known. -ENODATA: nothing was looked at. */
int limpet_resident_pages_read(struct limpet_resident_pages *pages,
			       struct limpet_recorder *recorder,
			       struct limpet_recorder_resident *ret_resident) LIMPET_MUST_CHECK;
void limpet_resident_pages_done(struct limpet_resident_pages *pages);

#endif
