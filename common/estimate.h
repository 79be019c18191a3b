/* Estimates from samples: sums, their variance, and a confidence interval.
 *
 * The mathematics are in common/SAMPLING.md. Plain structs, no allocation; safe from any thread
 * that owns them. */
#ifndef LIMPET_COMMON_ESTIMATE_H
#define LIMPET_COMMON_ESTIMATE_H

#include <stdint.h>

/* Minimum share of intervals that contain the true value. */
#define LIMPET_ESTIMATE_CONFIDENCE 0.95

/* How many allocations a sampled allocation represents. */
struct limpet_weight {
	double weight; /* 1 / p */
	double spread; /* (1 - p) / p^2: its share of the variance of a count */
};
/* For an allocation of `size` bytes with that period; period 0: everything was recorded. */
struct limpet_weight limpet_weight_of(uint64_t size, uint64_t period);

/* One figure: a count if `value` is 1 for each block, a sum of bytes if it is its size. */
struct limpet_estimate {
	double sum;         /* estimated */
	double seen;        /* of the sample itself: the true value is no less */
	double variance;    /* estimated */
	double unit;        /* the most that one sample represented beyond itself */
	double least;       /* the least */
	double grain;       /* the largest value of which one may have been missed */
	uint64_t samples;   /* blocks that were recorded... */
	uint64_t uncertain; /* ...of these, with a weight above 1 */
};

void limpet_estimate_add(struct limpet_estimate *estimate, const struct limpet_weight *weight,
			 double value);
/* Subtracts one that was added. */
void limpet_estimate_remove(struct limpet_estimate *estimate, const struct limpet_weight *weight,
			    double value);
/* For two disjoint sets of blocks. */
void limpet_estimate_join(struct limpet_estimate *estimate, const struct limpet_estimate *other);

/* Rounded; never below 0. */
uint64_t limpet_estimate_value(const struct limpet_estimate *estimate);
/* *ret_low <= value <= *ret_high. `most`: the most that a sample of this figure can represent.
 * Without a sample both are 0: see common/SAMPLING.md. */
void limpet_estimate_interval(const struct limpet_estimate *estimate, double most,
			      uint64_t *ret_low, uint64_t *ret_high);
/* In addition: what may exist of kinds of blocks of which no sample was taken. */
double limpet_estimate_unseen(double most);
double limpet_estimate_most_bytes(uint64_t period);
double limpet_estimate_most_blocks(uint64_t period);

/* The quantile at `probability` of a gamma distribution of that shape and scale 1. */
double limpet_gamma_quantile(double shape, double probability);

#endif
