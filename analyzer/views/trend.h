/* Whether a series of figures grew in the second half of a time, and how.
 *
 * What swings is judged by its lowest points and by what it reached before: after several swings a
 * rise to a height where it has been is none. Pure arithmetic; nothing is allocated. */
#ifndef LIMPET_ANALYZER_VIEWS_TREND_H
#define LIMPET_ANALYZER_VIEWS_TREND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum limpet_trend_shape {
	LIMPET_TREND_UNKNOWN = 0, /* too few points */
	LIMPET_TREND_FLAT,        /* no more than `least` */
	LIMPET_TREND_STEADY,      /* in nearly every eighth */
	LIMPET_TREND_SLOWING,     /* the same, but by less than half of the first half's growth */
	LIMPET_TREND_LATE,        /* from some moment on, up to the end */
	LIMPET_TREND_ONCE,        /* nearly all at one moment */
	LIMPET_TREND_STEPS,
	LIMPET_TREND_SWINGS,  /* up and down, and its lowest points rise */
	LIMPET_TREND_HIGHER,  /* up and down, and it ends higher than it ever was */
	LIMPET_TREND_UNCLEAR, /* up and down, and too little is seen of that to tell */
};

struct limpet_trend_point {
	uint64_t time_ns;
	double value;
};

struct limpet_trend {
	enum limpet_trend_shape shape;
	double first, middle, last; /* at the beginning, after half of the time, at the end */
	double grew;    /* in the second half, by the shape: of SWINGS the lowest points, of HIGHER
			   beyond the highest before */
	double swing;   /* the deepest fall of the second half */
	unsigned falls; /* at least half as deep, in all of the time */
	uint64_t at_ns; /* when it began, of LATE; when it was, of ONCE */
};

/* Points by time; those outside of [from_ns, to_ns] are passed over, but for the last before.
 * `least`: what is no growth yet. */
void limpet_trend_judge(const struct limpet_trend_point *points, size_t count, uint64_t from_ns,
			uint64_t to_ns, double least, struct limpet_trend *ret);

#endif
