#include "common/estimate.h"

#include <math.h>

#include "common/sample.h"

/* The weight of a block that is missed once in a thousand times. */
#define NEARLY_CERTAIN 1.001

struct limpet_weight limpet_weight_of(uint64_t size, uint64_t period)
{
	double p;

	if (!period)
		return (struct limpet_weight){.weight = 1};
	p = -expm1(-(double)limpet_sample_charge(size) / (double)period);
	return (struct limpet_weight){.weight = 1 / p, .spread = (1 - p) / (p * p)};
}

static void widen(struct limpet_estimate *estimate, double unit, double least, double grain)
{
	if (unit > estimate->unit)
		estimate->unit = unit;
	if (estimate->least == 0 || (least > 0 && least < estimate->least))
		estimate->least = least;
	if (grain > estimate->grain)
		estimate->grain = grain;
}

void limpet_estimate_add(struct limpet_estimate *estimate, const struct limpet_weight *weight,
			 double value)
{
	double unit = value * (weight->weight - 1);

	/* Blocks that were certain to be recorded say nothing about those that were not. */
	if (weight->spread > 0) {
		widen(estimate, unit, unit, weight->weight > NEARLY_CERTAIN ? value : 0);
		estimate->uncertain++;
	}
	estimate->samples++;
	estimate->seen += value;
	estimate->sum += value * weight->weight;
	estimate->variance += value * value * weight->spread;
}

void limpet_estimate_remove(struct limpet_estimate *estimate, const struct limpet_weight *weight,
			    double value)
{
	/* With no samples left, no rounding error must be left. */
	if (estimate->samples <= 1) {
		*estimate = (struct limpet_estimate){0};
		return;
	}
	estimate->samples--;
	estimate->seen -= value;
	estimate->sum -= value * weight->weight;
	estimate->variance -= value * value * weight->spread;
	if (weight->spread > 0 && estimate->uncertain && !--estimate->uncertain) {
		estimate->sum = estimate->seen;
		estimate->variance = estimate->unit = estimate->least = estimate->grain = 0;
	}
}

void limpet_estimate_join(struct limpet_estimate *estimate, const struct limpet_estimate *other)
{
	if (!other->samples)
		return;
	widen(estimate, other->unit, other->least, other->grain);
	estimate->samples += other->samples;
	estimate->uncertain += other->uncertain;
	estimate->seen += other->seen;
	estimate->sum += other->sum;
	estimate->variance += other->variance;
}

/* ------------------------------------------------------------------ gamma distribution */

/* Above this shape the normal distribution of the cube root (Wilson, Hilferty 1931) is as accurate.
 */
#define SHAPE_MAX 1e4
#define STEPS_MAX 500

/* The regularised incomplete gamma function P(shape, x): Abramowitz and Stegun 6.5.29 below the
 * mode, the continued fraction 6.5.31 by Lentz's method above it. */
static double gamma_below(double shape, double x)
{
	const double tiny = 1e-300, precise = 1e-14;
	double factor, sum, term, b, c, d;

	if (x <= 0)
		return 0;
	factor = exp(shape * log(x) - x - lgamma(shape));
	if (x < shape + 1) {
		sum = term = 1 / shape;
		for (int i = 1; i < STEPS_MAX && term > sum * precise; i++) {
			term *= x / (shape + i);
			sum += term;
		}
		return factor * sum;
	}
	b = x + 1 - shape;
	c = 1 / tiny;
	d = 1 / b;
	sum = d;
	for (int i = 1; i < STEPS_MAX; i++) {
		double a = -i * (i - shape);

		b += 2;
		d = a * d + b;
		c = b + a / c;
		if (fabs(d) < tiny)
			d = tiny;
		if (fabs(c) < tiny)
			c = tiny;
		d = 1 / d;
		sum *= d * c;
		if (fabs(d * c - 1) < precise)
			break;
	}
	return 1 - factor * sum;
}

/* The normal quantile, to 4.5e-4 (Abramowitz and Stegun 26.2.23): the start of a search, and the
 * result for large shapes. */
static double normal_quantile(double probability)
{
	double tail = probability < 0.5 ? probability : 1 - probability;
	double t = sqrt(-2 * log(tail));
	double z = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
			       (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));

	return probability < 0.5 ? -z : z;
}

double limpet_gamma_quantile(double shape, double probability)
{
	double root = 1 - 1 / (9 * shape) + normal_quantile(probability) / (3 * sqrt(shape));
	double guess = shape * root * root * root, low = 0, high;

	if (shape <= 0)
		return 0;
	if (shape > SHAPE_MAX)
		return guess;
	high = guess > 1 ? guess : 1;
	while (gamma_below(shape, high) < probability) {
		low = high;
		high *= 2;
	}
	for (int i = 0; i < STEPS_MAX && high - low > 1e-9 * high; i++) {
		double middle = (low + high) / 2;

		if (gamma_below(shape, middle) < probability)
			low = middle;
		else
			high = middle;
	}
	return (low + high) / 2;
}

/* ------------------------------------------------------------------ results */

static uint64_t whole(double value)
{
	if (!(value > 0))
		return 0;
	return value < 0x1p63 ? (uint64_t)value : UINT64_MAX;
}

uint64_t limpet_estimate_value(const struct limpet_estimate *estimate)
{
	return whole(estimate->sum + 0.5);
}

double limpet_estimate_most_bytes(uint64_t period)
{
	return (double)period;
}

double limpet_estimate_unseen(double most)
{
	const double tail = (1 - LIMPET_ESTIMATE_CONFIDENCE) / 2;

	return -log(tail) * most;
}

double limpet_estimate_most_blocks(uint64_t period)
{
	return (double)period / LIMPET_SAMPLE_EXTRA_BYTES;
}

/* The most that one unseen block may represent: the largest seen amount, times the square of its
 * ratio to the smallest one. Blocks of one size suggest that all are of that size; blocks that vary
 * suggest that others vary, and the small ones among them are rarely seen. */
static double unseen_unit(const struct limpet_estimate *estimate, double most)
{
	double unit = estimate->unit, wider = most;
	double ratio = estimate->least > 0 ? unit / estimate->least : most;

	if (ratio * ratio < most / unit)
		wider = unit * ratio * ratio;
	return wider > unit ? wider : unit;
}

/* If most blocks are sampled, the rest is a few whole blocks or none, and no fraction of one: the
 * quantile is at a quarter when one block is missed as often as the interval may fail. */
static double up_to_block(double rest, double grain)
{
	double blocks = grain > 0 ? ceil(rest / grain - 0.25) * grain : 0;

	return blocks > rest ? blocks : rest;
}

static double down_to_block(double rest, double grain)
{
	return grain > 0 ? floor(rest / grain) * grain : rest;
}

static double quantile(double mean, double variance, double probability)
{
	return variance / mean * limpet_gamma_quantile(mean * mean / variance, probability);
}

/* The sample itself is certain; what it represents beyond itself is a weighted sum of rare events,
 * which Fay and Feuer (Statistics in Medicine 16, 1997) bound by two gamma distributions: one with
 * the mean and variance found, and one with one more sample of the largest kind. */
void limpet_estimate_interval(const struct limpet_estimate *estimate, double most,
			      uint64_t *ret_low, uint64_t *ret_high)
{
	const double tail = (1 - LIMPET_ESTIMATE_CONFIDENCE) / 2;
	double rest = estimate->sum - estimate->seen, variance = estimate->variance;
	double low = 0, high = 0, unit;
	uint64_t value = limpet_estimate_value(estimate);

	if (estimate->unit > 0 && rest > 0 && variance > 0) {
		unit = unseen_unit(estimate, most);
		low = down_to_block(quantile(rest, variance, tail), estimate->grain);
		high = up_to_block(quantile(rest + unit, variance + unit * unit, 1 - tail),
				   estimate->grain);
	}
	*ret_low = whole(estimate->seen + low);
	*ret_high = whole(ceil(estimate->seen + high));
	if (*ret_low > value)
		*ret_low = value;
	if (*ret_high < value)
		*ret_high = value;
}
