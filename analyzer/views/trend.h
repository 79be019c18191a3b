/* Whether a series of figures grew in the second half of a time, and how.
 *
 * A series that swings is judged by its lowest points and by its earlier heights: after several
 * swings, a rise to an earlier height is no growth. Pure arithmetic; nothing is allocated. */
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
	LIMPET_TREND_ENDED,       /* without a pause up to some moment, and no more since */
	LIMPET_TREND_ONCE,        /* nearly all at one moment; if it swings: of its lowest points */
	LIMPET_TREND_STEPS,
	LIMPET_TREND_SWINGS,  /* up and down, and its lowest points rise */
	LIMPET_TREND_HIGHER,  /* up and down, and it ends higher than it ever was */
	LIMPET_TREND_UNCLEAR, /* up and down, and too little was seen of it to judge */
};

struct limpet_trend_point {
	uint64_t time_ns;
	double value;
};

struct limpet_trend {
	enum limpet_trend_shape shape;
	double first, middle, last; /* at the beginning, after half of the time, at the end */
	double grew; /* in the second half; SWINGS: of the lowest points; HIGHER: beyond the highest
			before */
	double jump; /* ONCE, unless it swings: by how much at that moment; it may have fallen since
		      */
	double highest; /* in the second half */
	double swing;   /* the deepest fall of the second half; if it grew, that of the first if
			   deeper */
	unsigned falls; /* at least half as deep, in the whole time */
	uint64_t at_ns; /* LATE: when it began; ENDED: when it ended; ONCE: when it happened */
};

/* Points are in the order of their times; those outside of [from_ns, to_ns] are ignored, except for
 * the last before. A rise by no more than `least` is no growth. */
void limpet_trend_judge(const struct limpet_trend_point *points, size_t count, uint64_t from_ns,
			uint64_t to_ns, double least, struct limpet_trend *ret);

#endif
