#include "cli/top_pace.h"

/* For the time of an update itself, and the rounding of what is shown. */
#define GRACE_NS 1000000000ull

uint64_t limpet_top_pace_next(uint64_t begun_ns, uint64_t ended_ns, uint64_t busy_ns,
			      uint64_t delay_ns)
{
	uint64_t pause_ns = LIMPET_TOP_PAUSE_MAX_NS, next_ns;

	if (busy_ns < LIMPET_TOP_PAUSE_MAX_NS / (LIMPET_TOP_BUSY_SHARE - 1))
		pause_ns = busy_ns * (LIMPET_TOP_BUSY_SHARE - 1);
	next_ns = begun_ns + (busy_ns + pause_ns > delay_ns ? busy_ns + pause_ns : delay_ns);
	return next_ns > ended_ns ? next_ns : ended_ns;
}

uint64_t limpet_top_pace_age(uint64_t now_ns, uint64_t figures_ns, uint64_t delay_ns)
{
	const uint64_t age_ns = now_ns > figures_ns ? now_ns - figures_ns : 0;

	return age_ns >= GRACE_NS && age_ns - GRACE_NS >= delay_ns ? age_ns : 0;
}
