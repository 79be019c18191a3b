#include "explain/pieces.h"

#include <stdlib.h>

#include "common/array.h"
#include "injector/elf/memory_owners.h"

void limpet_pieces_done(struct limpet_pieces *pieces)
{
	free(pieces->list);
	limpet_thread_stacks_done(&pieces->stacks);
	*pieces = (struct limpet_pieces){0};
}

void limpet_pieces_add(struct limpet_pieces *pieces, const struct limpet_piece *piece)
{
	struct limpet_piece *last = pieces->count ? &pieces->list[pieces->count - 1] : NULL;

	if (last && last->end == piece->start && last->account == piece->account &&
	    last->kind == piece->kind && last->owner == piece->owner) {
		last->end = piece->end;
		return;
	}
	if (!pieces->error)
		pieces->error = limpet_reserve(&pieces->list, &pieces->capacity, pieces->count + 1,
					       sizeof(*pieces->list));
	if (!pieces->error && pieces->list)
		pieces->list[pieces->count++] = *piece;
}

static int compare(const void *a, const void *b)
{
	const struct limpet_piece *left = a, *right = b;

	return left->start < right->start ? -1 : left->start > right->start;
}

static void sort(struct limpet_pieces *pieces)
{
	if (pieces->count)
		qsort(pieces->list, pieces->count, sizeof(*pieces->list), compare);
}

size_t limpet_pieces_from(const struct limpet_pieces *pieces, uint64_t address)
{
	/* cppcheck-suppress constStatement */
	return LIMPET_PARTITION_POINT(i, pieces->count, pieces->list[i].end <= address);
}

static void visit(void *context, enum limpet_memory_account account, uint64_t start, uint64_t end)
{
	limpet_pieces_add(context,
			  &(struct limpet_piece){.start = start, .end = end, .account = account});
}

int limpet_pieces_read(const struct limpet_target *target, const struct limpet_modules *modules,
		       const struct limpet_glibc_heaps *heaps, struct limpet_pieces *ret_pieces)
{
	struct limpet_pieces pieces = {0};
	struct limpet_memory_owners_options options = {.modules = modules,
						       .has_glibc = heaps->count > 0,
						       .judge_none = !heaps->count,
						       .blocks_known = heaps->mmapped_known,
						       .blocks_bytes = heaps->mmapped_bytes,
						       .visit = visit,
						       .context = &pieces,
						       .ret_stacks = &pieces.stacks};
	struct limpet_memory memory;
	int error = limpet_memory_owners_take(target, &options, &memory);

	if (!error)
		error = pieces.error;
	if (error) {
		limpet_pieces_done(&pieces);
		return error;
	}
	sort(&pieces);
	*ret_pieces = pieces;
	return 0;
}
