/* How many blocks of each size a heap of size classes has in use. */
#ifndef LIMPET_EXPLAIN_CLASS_TALLY_H
#define LIMPET_EXPLAIN_CLASS_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Blocks beyond the largest class have sizes of their own. */
#define LIMPET_CLASS_SIZES 2048u
#define LIMPET_CLASS_SLOTS (2 * LIMPET_CLASS_SIZES)

/* Begins as all zeros. */
struct limpet_class_tally {
	uint64_t sizes[LIMPET_CLASS_SLOTS]; /* a set by open addressing, 0: none */
	uint64_t blocks[LIMPET_CLASS_SLOTS];
	size_t count;
	bool is_cut;     /* there are more blocks */
	bool is_unknown; /* nothing was counted: the heap's structures are not known */
};
void limpet_class_tally_note(struct limpet_class_tally *tally, uint64_t block_bytes,
			     uint64_t blocks);
uint64_t limpet_class_tally_blocks(const struct limpet_class_tally *tally, uint64_t block_bytes);

#endif
