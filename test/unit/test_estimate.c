/* Estimates against the whole that they are drawn from: the draw itself, unbiased sums, and
 * intervals that hold the truth as often as they say. The seeds are fixed: a failure repeats.
 *
 * ESTIMATES says how often each site is drawn (500). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/counts.h"
#include "common/err.h"
#include "common/estimate.h"
#include "common/sample.h"

static uint64_t random_state = 88172645463325252ull;
static uint64_t sampler_seed = 4711; /* of the next sampler that begins */
static unsigned repetitions = 500;

static double random_share(void)
{
	return (double)(limpet_sample_random(&random_state) >> 11) * 0x1p-53;
}

/* ------------------------------------------------------------------ the draw */

static void test_logarithm(void **state)
{
	const uint64_t edges[] = {
		1, 2, 3, UINT64_MAX, UINT64_MAX - 1, 1ull << 63, (1ull << 63) + 1};
	const double bound = 0x1p-46;

	(void)state;
	for (int i = 0; i < 100000; i++) {
		uint64_t number = i < (int)LIMPET_COUNT_OF(edges)
					  ? edges[i]
					  : limpet_sample_random(&random_state) >> (i % 64);
		long double is, is_not;

		if (!number)
			continue;
		is = (long double)limpet_sample_minus_log(number) * 0x1p-48L;
		is_not = -logl((long double)number * 0x1p-64L);
		if (fabsl(is - is_not) > bound)
			fail_msg("%lu: %.20Lf, not %.20Lf", (unsigned long)number, is, is_not);
	}
}

/* Six standard deviations: once in 500 million times by chance. */
static void assert_share(const char *what, uint64_t hits, uint64_t tries, double p)
{
	double deviation = sqrt((double)tries * p * (1 - p));

	if (fabs((double)hits - (double)tries * p) > 6 * deviation + 1)
		fail_msg("%s: %lu of %lu, not %.1f", what, (unsigned long)hits,
			 (unsigned long)tries, (double)tries * p);
}

static void test_distance(void **state)
{
	static const uint64_t periods[] = {1, 2, 1000, 512 << 10, 1 << 30, 1ull << 40};
	static const double marks[] = {1e-3, 0.01, 0.1, 0.5, 1, 2, 5, 8};
	const uint64_t tries = 100000;

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(periods); i++) {
		uint64_t above[LIMPET_COUNT_OF(marks)] = {0};
		double sum = 0, period = (double)periods[i];

		for (uint64_t k = 0; k < tries; k++) {
			uint64_t bytes = limpet_sample_distance(&random_state, periods[i]);

			assert_true(bytes >= 1);
			sum += (double)bytes;
			for (size_t m = 0; m < LIMPET_COUNT_OF(marks); m++)
				above[m] += bytes > (uint64_t)(marks[m] * period);
		}
		for (size_t m = 0; m < LIMPET_COUNT_OF(marks); m++)
			assert_share("distances", above[m], tries,
				     exp(-floor(marks[m] * period) / period));
		/* of a geometric distribution */
		assert_true(fabs(sum / (double)tries * -expm1(-1 / period) - 1) <
			    6 / sqrt((double)tries));
	}
}

static bool is_taken(struct limpet_sample_state *sampler, uint64_t size, uint64_t period)
{
	uint64_t charge = limpet_sample_charge(size);

	return !limpet_sample_passes(sampler, charge) &&
	       limpet_sample_draw(sampler, charge, period, sampler_seed);
}

/* Each size with its own probability, whatever stands before it. */
static void test_inclusion(void **state)
{
	static const uint64_t sizes[] = {0, 1, 24, 1000, 4096, 65536, 1 << 20};
	const uint64_t period = 65536, rounds = 300000;
	uint64_t taken[LIMPET_COUNT_OF(sizes)] = {0}, after_taken[LIMPET_COUNT_OF(sizes)] = {0};
	uint64_t tries[LIMPET_COUNT_OF(sizes)] = {0}, after[LIMPET_COUNT_OF(sizes)] = {0};
	struct limpet_sample_state sampler = {0};
	bool before = false;

	(void)state;
	for (uint64_t k = 0; k < rounds; k++) {
		size_t i = limpet_sample_random(&random_state) % LIMPET_COUNT_OF(sizes);
		bool hit = is_taken(&sampler, sizes[i], period);

		tries[i]++;
		taken[i] += hit;
		after[i] += before;
		after_taken[i] += before && hit;
		before = hit;
	}
	for (size_t i = 0; i < LIMPET_COUNT_OF(sizes); i++) {
		double p = 1 / limpet_weight_of(sizes[i], period).weight;

		assert_share("taken", taken[i], tries[i], p);
		assert_share("taken after a sample", after_taken[i], after[i], p);
	}
	sampler = (struct limpet_sample_state){0};
	assert_true(is_taken(&sampler, UINT64_MAX, period));
	assert_true(is_taken(&sampler, UINT64_MAX - 20, LIMPET_SAMPLE_MAX_BYTES));
}

/* ------------------------------------------------------------------ arithmetic */

static void test_gamma(void **state)
{
	/* R 4.2, qgamma(probability, shape) */
	static const struct {
		double shape, probability, quantile;
	} list[] = {
		{1, 0.025, 0.02531781},   {1, 0.975, 3.688879454}, {0.5, 0.5, 0.2274682116},
		{5, 0.025, 1.62348639},   {5, 0.975, 10.24158868}, {100, 0.975, 120.5290128},
		{0.1, 0.5, 0.0005933911},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++) {
		double is = limpet_gamma_quantile(list[i].shape, list[i].probability);

		if (fabs(is / list[i].quantile - 1) > 1e-5)
			fail_msg("shape %g, %g: %.9g, not %.9g", list[i].shape, list[i].probability,
				 is, list[i].quantile);
	}
	/* The two ways meet. */
	assert_true(
		fabs(limpet_gamma_quantile(9999.9, 0.975) / limpet_gamma_quantile(10000.1, 0.975) -
		     1) < 1e-4);
	assert_true(limpet_gamma_quantile(0, 0.5) == 0);
	assert_true(limpet_gamma_quantile(1e-9, 0.025) >= 0);
}

static void test_weights(void **state)
{
	struct limpet_weight weight = limpet_weight_of(1000, 0);

	(void)state;
	assert_true(weight.weight == 1 && weight.spread == 0);
	weight = limpet_weight_of(1ull << 40, 1);
	assert_true(weight.weight == 1 && weight.spread == 0);
	weight = limpet_weight_of(UINT64_MAX, 65536);
	assert_true(weight.weight == 1);
	weight = limpet_weight_of(0, 512 << 10);
	assert_true(weight.weight > 32767 && weight.weight < 32770);
	assert_true(weight.weight <= limpet_estimate_most_blocks(512 << 10) + 1);
}

static void test_add_and_remove(void **state)
{
	struct limpet_estimate estimate = {0}, parts[2] = {0}, whole = {0};
	uint64_t low, high;

	(void)state;
	for (uint64_t size = 1; size < 100000; size += 7) {
		struct limpet_weight weight = limpet_weight_of(size, 4096);

		limpet_estimate_add(&estimate, &weight, (double)size);
		limpet_estimate_add(&parts[size & 1], &weight, (double)size);
	}
	limpet_estimate_join(&whole, &parts[0]);
	limpet_estimate_join(&whole, &parts[1]);
	assert_int_equal(whole.samples, estimate.samples);
	assert_true(fabs(whole.sum / estimate.sum - 1) < 1e-12);
	assert_true(fabs(whole.variance / estimate.variance - 1) < 1e-12);
	assert_true(whole.unit == estimate.unit && whole.least == estimate.least);
	assert_true(whole.grain == estimate.grain);
	limpet_estimate_interval(&estimate, 4096, &low, &high);
	assert_true(low < limpet_estimate_value(&estimate));
	assert_true(high > limpet_estimate_value(&estimate));
	for (uint64_t size = 1; size < 100000; size += 7) {
		struct limpet_weight weight = limpet_weight_of(size, 4096);

		limpet_estimate_remove(&estimate, &weight, (double)size);
	}
	/* Exactly nothing, whatever was rounded on the way. */
	assert_int_equal(limpet_estimate_value(&estimate), 0);
	limpet_estimate_interval(&estimate, 4096, &low, &high);
	assert_int_equal(low, 0);
	assert_int_equal(high, 0);
	limpet_estimate_join(&whole, &estimate);
	assert_true(whole.least == parts[0].least || whole.least == parts[1].least);
}

static void test_nothing_is_estimated(void **state)
{
	struct limpet_weight weight = limpet_weight_of(100, 0);
	struct limpet_estimate estimate = {0};
	uint64_t low, high;

	(void)state;
	for (int i = 0; i < 1000; i++)
		limpet_estimate_add(&estimate, &weight, 100);
	assert_int_equal(limpet_estimate_value(&estimate), 100000);
	limpet_estimate_interval(&estimate, 0, &low, &high);
	assert_int_equal(low, 100000);
	assert_int_equal(high, 100000);
}

/* ------------------------------------------------------------------ a site, many times over */

#define PERIOD 4096u
#define MAX_CALLS 12000u

enum shape { SAME, SPREAD, DOUBLING, TWO };

struct site {
	const char *name;
	enum shape shape;
	uint64_t size, largest; /* SPREAD and DOUBLING: from, to */
	unsigned calls;
	/* Blocks are given back and their addresses used again: so many live at the end. */
	unsigned live;
};

static uint64_t size_of_call(const struct site *site, unsigned call)
{
	uint64_t size = site->size;

	switch (site->shape) {
	case SPREAD: /* evenly over the orders of magnitude */
		return (uint64_t)((double)size *
				  pow((double)site->largest / (double)size, random_share()));
	case DOUBLING: {
		unsigned steps = (unsigned)log2((double)site->largest / (double)size) + 1;

		return size << call % steps;
	}
	case TWO: /* nine small ones to a large one */
		return call % 10 ? size : site->largest;
	case SAME:
		break;
	}
	return size;
}

struct tally {
	double truth, sum, sum_of_squares, variances;
	uint64_t held, below_unseen;
};

static void take(struct tally *tally, const struct limpet_estimate *estimate, double truth,
		 double most, double one)
{
	uint64_t low, high;

	limpet_estimate_interval(estimate, most, &low, &high);
	/* A site without a sample is in no report; see SAMPLING.md for what that says of it. */
	if (!estimate->samples)
		high = (uint64_t)(-log((1 - LIMPET_ESTIMATE_CONFIDENCE) / 2) * one);
	tally->truth = truth;
	tally->sum += estimate->sum;
	tally->sum_of_squares += (estimate->sum - truth) * (estimate->sum - truth);
	tally->variances += estimate->variance;
	tally->held += (double)low <= truth && truth <= (double)high;
	tally->below_unseen += truth <= (double)high + limpet_estimate_unseen(most);
}

/* `hides`: it has kinds of blocks of which often no sample is taken. */
static void judge(const struct site *site, const char *what, const struct tally *tally, bool hides)
{
	double mean = tally->sum / repetitions, variance = tally->sum_of_squares / repetitions;
	double error = sqrt(variance / repetitions), held = (double)tally->held / repetitions;
	/* The share itself is a sample: six of its standard deviations. */
	double least = LIMPET_ESTIMATE_CONFIDENCE -
		       6 * sqrt(LIMPET_ESTIMATE_CONFIDENCE * (1 - LIMPET_ESTIMATE_CONFIDENCE) /
				repetitions);

	if (tally->truth == 0) {
		assert_true(tally->sum == 0);
		return;
	}
	if (fabs(mean - tally->truth) > 6 * error + 1e-6 * tally->truth)
		fail_msg("%s, %s: %.1f on the average, not %.1f (+- %.1f)", site->name, what, mean,
			 tally->truth, error);
	/* The stated variance, on the average, is the one that there is; where a miss is rare, too
	 * few were seen to say. */
	if (limpet_weight_of(site->size, PERIOD).weight > 1.1 && variance > 0 && !hides &&
	    fabs(tally->variances / repetitions / variance - 1) > 0.3)
		fail_msg("%s, %s: variance %.3g on the average, not %.3g", site->name, what,
			 tally->variances / repetitions, variance);
	if (held < least && !hides)
		fail_msg("%s, %s: the truth is in %.1f %% of the intervals", site->name, what,
			 100 * held);
	if ((double)tally->below_unseen / repetitions < least)
		fail_msg("%s, %s: above what is unseen in %u of %u cases", site->name, what,
			 repetitions - (unsigned)tally->below_unseen, repetitions);
}

static void run_site(const struct site *site, bool hides)
{
	struct tally tallies[4] = {0};
	static uint64_t sizes[MAX_CALLS];
	double bytes = 0, live_bytes = 0;
	const double most_bytes = limpet_estimate_most_bytes(PERIOD);
	const double most_blocks = limpet_estimate_most_blocks(PERIOD);

	assert_true(site->calls <= MAX_CALLS && site->live <= site->calls);
	for (unsigned i = 0; i < site->calls; i++) {
		sizes[i] = size_of_call(site, i);
		bytes += (double)sizes[i];
		live_bytes += i >= site->calls - site->live ? (double)sizes[i] : 0;
	}
	for (unsigned k = 0; k < repetitions; k++) {
		struct limpet_estimate all[2] = {0}, live[2] = {0};
		struct limpet_sample_state sampler = {0};
		double one = limpet_weight_of(site->size, PERIOD).weight;

		for (unsigned i = 0; i < site->calls; i++) {
			struct limpet_weight weight;

			if (!is_taken(&sampler, sizes[i], PERIOD))
				continue;
			weight = limpet_weight_of(sizes[i], PERIOD);
			limpet_estimate_add(&all[0], &weight, 1);
			limpet_estimate_add(&all[1], &weight, (double)sizes[i]);
			limpet_estimate_add(&live[0], &weight, 1);
			limpet_estimate_add(&live[1], &weight, (double)sizes[i]);
			if (i >= site->calls - site->live)
				continue;
			limpet_estimate_remove(&live[0], &weight, 1);
			limpet_estimate_remove(&live[1], &weight, (double)sizes[i]);
		}
		sampler_seed = limpet_sample_random(&random_state);
		take(&tallies[0], &all[0], site->calls, most_blocks, one);
		take(&tallies[1], &all[1], bytes, most_bytes, most_bytes + (double)site->size);
		take(&tallies[2], &live[0], site->live, most_blocks, one);
		take(&tallies[3], &live[1], live_bytes, most_bytes,
		     most_bytes + (double)site->size);
	}
	judge(site, "allocations", &tallies[0], hides);
	judge(site, "allocated bytes", &tallies[1], hides);
	judge(site, "live blocks", &tallies[2], hides);
	judge(site, "live bytes", &tallies[3], hides);
}

static void test_sites(void **state)
{
	static const struct site sites[] = {
		{"tiny, few", SAME, 16, 0, 300, 100},
		{"tiny, many", SAME, 16, 0, 10000, 3000},
		{"of no size", SAME, 0, 0, 2000, 500},
		{"small", SAME, 64, 0, 300, 100},
		{"page quarter, three", SAME, 1024, 0, 3, 3},
		{"page quarter", SAME, 1024, 0, 100, 30},
		{"one period, two", SAME, 4096, 0, 2, 1},
		{"one period, five", SAME, 4096, 0, 5, 3},
		{"one period", SAME, 4096, 0, 50, 20},
		{"two periods", SAME, 8192, 0, 20, 5},
		{"three periods", SAME, 12288, 0, 20, 20},
		{"four periods", SAME, 16384, 0, 50, 10},
		{"eight periods", SAME, 32768, 0, 50, 25},
		{"always taken", SAME, 1 << 20, 0, 20, 7},
		{"many sizes", SPREAD, 16, 512, 3000, 1000},
		{"sizes from tiny to large", SPREAD, 16, 16384, 3000, 1000},
		{"a growing vector", DOUBLING, 8, 65536, 140, 140},
		{"growing vectors", DOUBLING, 8, 65536, 1400, 1400},
		{"two sizes", TWO, 64, 1024, 1000, 400},
		{"two sizes far apart", TWO, 16, 4096, 1000, 1000},
		{"two sizes, many", TWO, 16, 65536, 10000, 5000},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(sites); i++)
		run_site(&sites[i], false);
}

/* One address over and over: where sampling by address would know all of it or nothing. */
static void test_churn(void **state)
{
	static const struct site sites[] = {
		{"churn, tiny", SAME, 24, 0, 10000, 0},
		{"churn, tiny, one live", SAME, 24, 0, 10000, 1},
		{"churn, a page", SAME, 4096, 0, 2000, 0},
		{"churn, large, one live", SAME, 20000, 0, 500, 1},
		{"churn, many sizes", SPREAD, 16, 2048, 5000, 0},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(sites); i++)
		run_site(&sites[i], false);
}

/* Kinds of blocks of which there is often no sample, and sites with few samples of any kind: the
 * estimates are right on the average, and the truth is below what is stated for the unseen. */
static void test_hidden_kinds(void **state)
{
	static const struct site sites[] = {
		{"ninety small ones behind ten large ones", TWO, 16, 4096, 100, 100},
		{"a few small ones behind certain ones", TWO, 64, 65536, 20, 10},
		{"many small ones behind certain ones", TWO, 64, 65536, 200, 100},
		{"few of many sizes", SPREAD, 16, 16384, 10, 5},
		{"a vector that grew once", DOUBLING, 8, 65536, 14, 14},
		{"few of small sizes", SPREAD, 16, 512, 100, 30},
		{"two tiny ones", SAME, 16, 0, 2, 2},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(sites); i++)
		run_site(&sites[i], true);
}

/* ------------------------------------------------------------------ sums of samples */

static void test_a_free_takes_off_what_its_allocation_added(void **state)
{
	struct limpet_counts counts = {0};
	struct limpet_counts whole;

	(void)state;
	for (uint64_t i = 0; i < 100000; i++) {
		const struct limpet_scaled_block share =
			limpet_scale_block(i * 37 % 9973, 1u << 19, LIMPET_SCALE_SAMPLED);

		limpet_counts_allocate(&counts, share.blocks, share.bytes);
		limpet_counts_free(&counts, share.blocks, share.bytes, false, i % 3 == 0);
	}
	assert_int_equal(limpet_counts_live(&counts), 0);
	assert_int_equal(limpet_counts_live_bytes(&counts), 0);
	whole = limpet_counts_unscaled(&counts, LIMPET_SCALE_SAMPLED);
	assert_true(whole.allocations > 100000 && whole.frees == whole.allocations);
}

static void test_certain_blocks_are_whole_in_any_scale(void **state)
{
	const struct limpet_scale scales[] = {LIMPET_SCALE_WHOLE, LIMPET_SCALE_SAMPLED};
	const struct limpet_counts counts = {1, 2, 3, 4, 1ull << 40, 6, 7, 8};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(scales); i++) {
		const struct limpet_counts scaled = limpet_counts_scaled(&counts, scales[i]);
		const struct limpet_counts again = limpet_counts_unscaled(&scaled, scales[i]);
		const struct limpet_scaled_block share = limpet_scale_block(4711, 0, scales[i]);

		assert_memory_equal(&again, &counts, sizeof(counts));
		assert_int_equal(limpet_unscaled(share.blocks, scales[i].block_bits), 1);
		assert_int_equal(limpet_unscaled(share.bytes, scales[i].byte_bits), 4711);
	}
}

static void test_each_total_has_its_place(void **state)
{
	struct limpet_totals totals = {0};
	uint64_t list[LIMPET_TOTAL_COUNT];

	(void)state;
	for (unsigned i = 0; i < LIMPET_TOTAL_COUNT; i++)
		*limpet_totals_at(&totals, i) += i + 1;
	limpet_totals_list(&totals, list);
	for (unsigned i = 0; i < LIMPET_TOTAL_COUNT; i++)
		assert_int_equal(list[i], i + 1);
}

int main(void)
{
	const char *text = getenv("ESTIMATES");
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_logarithm),
		cmocka_unit_test(test_distance),
		cmocka_unit_test(test_inclusion),
		cmocka_unit_test(test_gamma),
		cmocka_unit_test(test_weights),
		cmocka_unit_test(test_add_and_remove),
		cmocka_unit_test(test_nothing_is_estimated),
		cmocka_unit_test(test_sites),
		cmocka_unit_test(test_churn),
		cmocka_unit_test(test_hidden_kinds),
		cmocka_unit_test(test_a_free_takes_off_what_its_allocation_added),
		cmocka_unit_test(test_certain_blocks_are_whole_in_any_scale),
		cmocka_unit_test(test_each_total_has_its_place),
	};

	if (text)
		repetitions = (unsigned)strtoul(text, NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
