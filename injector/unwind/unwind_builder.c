#include "injector/unwind/unwind_builder.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

enum { MIN_BUCKET_SHIFT = 8, MAX_BUCKET_SHIFT = 16, FIRST_HASH_SLOTS = 1024 };

struct raw_row {
	uint32_t offset;
	uint16_t rule;
};

struct limpet_unwind_builder {
	uint32_t covered;
	struct raw_row *rows;
	size_t row_count, row_capacity;
	struct limpet_unwind_rule *rules;
	size_t rule_count, rule_capacity;
	uint32_t *hash; /* rule number + 1, 0 free; its size is a power of 2 */
	size_t hash_slots;
	bool failed;
};

static uint32_t hash_rule(const struct limpet_unwind_rule *rule)
{
	uint64_t words[2];

	_Static_assert(sizeof(words) == sizeof(*rule), "a rule is two words");
	memcpy(words, rule, sizeof(words));
	words[0] = (words[0] ^ words[1] * 0x9e3779b97f4a7c15ull) * 0xd6e8feb86659fd93ull;
	return (uint32_t)(words[0] >> 32);
}

static void insert(struct limpet_unwind_builder *builder, uint32_t number)
{
	size_t mask = builder->hash_slots - 1;
	size_t at = hash_rule(&builder->rules[number]) & mask;

	while (builder->hash[at])
		at = (at + 1) & mask;
	builder->hash[at] = number + 1;
}

static bool grow_hash(struct limpet_unwind_builder *builder)
{
	size_t slots = builder->hash_slots ? builder->hash_slots * 2 : FIRST_HASH_SLOTS;
	uint32_t *hash = calloc(slots, sizeof(*hash));

	if (!hash)
		return false;
	free(builder->hash);
	builder->hash = hash;
	builder->hash_slots = slots;
	for (size_t i = 0; i < builder->rule_count; i++)
		insert(builder, (uint32_t)i);
	return true;
}

int limpet_unwind_builder_new(uint64_t covered, struct limpet_unwind_builder **ret_builder)
{
	static const struct limpet_unwind_rule none = {.cfa = LIMPET_CFA_NONE};
	static const struct limpet_unwind_rule unknown = {.cfa = LIMPET_CFA_UNKNOWN};
	struct limpet_unwind_builder *builder;
	uint16_t first, second;

	/* Rounded up to a bucket, it must still fit in 32 bits. */
	if (covered > UINT32_MAX - (1u << MAX_BUCKET_SHIFT))
		return -EFBIG;
	builder = calloc(1, sizeof(*builder));
	if (!builder)
		return -ENOMEM;
	builder->covered = (uint32_t)covered;
	if (!grow_hash(builder)) {
		free(builder);
		return -ENOMEM;
	}
	first = limpet_unwind_builder_intern(builder, &none);
	second = limpet_unwind_builder_intern(builder, &unknown);
	if (builder->failed) {
		limpet_unwind_builder_free(builder);
		return -ENOMEM;
	}
	assert(first == LIMPET_UNWIND_RULE_NONE && second == LIMPET_UNWIND_RULE_UNKNOWN);
	(void)first;
	(void)second;
	*ret_builder = builder;
	return 0;
}

void limpet_unwind_builder_free(struct limpet_unwind_builder *builder)
{
	if (!builder)
		return;
	free(builder->rows);
	free(builder->rules);
	free(builder->hash);
	free(builder);
}

bool limpet_unwind_builder_failed(const struct limpet_unwind_builder *builder)
{
	return builder->failed;
}

uint32_t limpet_unwind_builder_rows(const struct limpet_unwind_builder *builder)
{
	return (uint32_t)builder->row_count;
}

uint32_t limpet_unwind_builder_rules(const struct limpet_unwind_builder *builder)
{
	return (uint32_t)builder->rule_count;
}

uint16_t limpet_unwind_builder_intern(struct limpet_unwind_builder *builder,
				      const struct limpet_unwind_rule *rule)
{
	size_t mask = builder->hash_slots - 1;
	size_t at = hash_rule(rule) & mask;

	for (; builder->hash[at]; at = (at + 1) & mask) {
		uint32_t number = builder->hash[at] - 1;

		assert(builder->rules && number < builder->rule_count);
		if (memcmp(&builder->rules[number], rule, sizeof(*rule)) == 0)
			return (uint16_t)number;
	}
	/* A hundred times as many as real modules have. */
	if (builder->rule_count == LIMPET_UNWIND_MAX_RULES)
		return LIMPET_UNWIND_RULE_UNKNOWN;
	if (limpet_reserve(&builder->rules, &builder->rule_capacity, builder->rule_count + 1,
			   sizeof(*builder->rules)) < 0 ||
	    ((builder->rule_count + 1) * 2 > builder->hash_slots && !grow_hash(builder))) {
		builder->failed = true;
		return LIMPET_UNWIND_RULE_UNKNOWN;
	}
	builder->rules[builder->rule_count] = *rule;
	insert(builder, (uint32_t)builder->rule_count);
	return (uint16_t)builder->rule_count++;
}

void limpet_unwind_builder_add_row(struct limpet_unwind_builder *builder, uint32_t offset,
				   uint16_t rule)
{
	struct raw_row *last;

	assert(offset < builder->covered);
	if (builder->row_count && builder->rows[builder->row_count - 1].offset == offset)
		builder->row_count--;
	last = builder->row_count ? &builder->rows[builder->row_count - 1] : NULL;
	assert(!last || last->offset < offset);
	if (last && last->rule == rule)
		return;
	if (limpet_reserve(&builder->rows, &builder->row_capacity, builder->row_count + 1,
			   sizeof(*builder->rows)) < 0) {
		builder->failed = true;
		return;
	}
	builder->rows[builder->row_count++] = (struct raw_row){offset, rule};
}

static size_t align_up(size_t bytes)
{
	return (bytes + LIMPET_UNWIND_ALIGN - 1) / LIMPET_UNWIND_ALIGN * LIMPET_UNWIND_ALIGN;
}

static void fill_rows(const struct limpet_unwind_builder *builder,
		      const struct limpet_unwind_table *head, uint32_t *index,
		      struct limpet_unwind_row *rows)
{
	uint32_t bucket = 0;

	for (uint32_t i = 0; i < head->row_count; i++) {
		uint32_t offset = builder->rows[i].offset;

		while (bucket <= offset >> head->bucket_shift)
			index[bucket++] = i;
		rows[i].low = (uint16_t)(offset & ((1u << head->bucket_shift) - 1));
		rows[i].rule = builder->rows[i].rule;
	}
	while (bucket <= head->bucket_count)
		index[bucket++] = head->row_count;
}

int limpet_unwind_builder_build(const struct limpet_unwind_builder *builder, void **ret_table,
				size_t *ret_bytes)
{
	struct limpet_unwind_table head = {
		.magic = LIMPET_UNWIND_MAGIC,
		.version = LIMPET_UNWIND_VERSION,
		.covered = builder->covered,
		.row_count = (uint32_t)builder->row_count,
		.rule_count = (uint32_t)builder->rule_count,
		.index_offset = sizeof(head),
	};
	size_t rules_bytes = builder->rule_count * sizeof(struct limpet_unwind_rule);
	size_t index_bytes, rows_bytes, bytes;
	unsigned shift = MIN_BUCKET_SHIFT;
	uint8_t *table;

	if (builder->failed)
		return -ENOMEM;
	if (builder->row_count > UINT32_MAX / sizeof(struct limpet_unwind_row) / 4)
		return -EFBIG;
	/* The index may take half as much memory as the rows: then a bucket holds few rows wherever
	 * code is described at all. */
	while (shift < MAX_BUCKET_SHIFT && builder->covered >> shift > builder->row_count / 2)
		shift++;
	head.bucket_shift = (uint16_t)shift;
	head.bucket_count = (builder->covered + (1u << shift) - 1) >> shift;
	index_bytes = align_up(((size_t)head.bucket_count + 1) * sizeof(uint32_t));
	rows_bytes = align_up(builder->row_count * sizeof(struct limpet_unwind_row));
	bytes = align_up(sizeof(head) + index_bytes + rows_bytes + rules_bytes);
	head.bytes = (uint32_t)bytes;
	head.rows_offset = (uint32_t)(head.index_offset + index_bytes);
	head.rules_offset = (uint32_t)(head.rows_offset + rows_bytes);

	table = calloc(1, bytes);
	if (!table)
		return -ENOMEM;
	memcpy(table, &head, sizeof(head));
	memcpy(table + head.rules_offset, builder->rules, rules_bytes);
	fill_rows(builder, &head, (uint32_t *)(void *)(table + head.index_offset),
		  (struct limpet_unwind_row *)(void *)(table + head.rows_offset));
	*ret_table = table;
	*ret_bytes = bytes;
	return 0;
}
