#include "explain/runtimes/v8_walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "explain/runtimes/v8_sizes.h"

#define FIRST_SLOTS ((size_t)1 << 12)
/* Of a program with as many classes as this is not a page can be walked. */
#define MAPS_LIMIT ((size_t)1 << 21)
/* So many objects in a row are no coincidence. */
#define IN_A_ROW 4u

struct limpet_v8_walk {
	const struct limpet_v8 *v8;
	struct limpet_v8_sizes sizes;
	struct limpet_v8_map *slots; /* by the addresses; twice as many as there are maps */
	size_t slot_count, map_count;
	bool is_full;
};

/* ------------------------------------------------------------------ maps */

static size_t slot_of(const struct limpet_v8_walk *walk, uint64_t address)
{
	size_t slot = (size_t)((address >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 32) &
		      (walk->slot_count - 1);

	while (walk->slots[slot].address && walk->slots[slot].address != address)
		slot = (slot + 1) & (walk->slot_count - 1);
	return slot;
}

static bool grow(struct limpet_v8_walk *walk)
{
	struct limpet_v8_map *old = walk->slots;
	const size_t old_count = walk->slot_count;

	if (walk->map_count < old_count / 2)
		return true;
	if (walk->map_count >= MAPS_LIMIT)
		return false;
	walk->slots = calloc(old_count * 2, sizeof(*old));
	if (!walk->slots) {
		walk->slots = old;
		return false;
	}
	walk->slot_count = old_count * 2;
	for (size_t i = 0; i < old_count; i++)
		if (old[i].address)
			walk->slots[slot_of(walk, old[i].address)] = old[i];
	free(old);
	return true;
}

static bool read_map(const struct limpet_v8_walk *walk, uint64_t address, struct limpet_v8_map *ret)
{
	const struct limpet_v8_layout *layout = walk->v8->layout;
	struct limpet_v8_object map;
	uint8_t words;
	uint16_t type;

	if (limpet_v8_object(walk->v8, address | 1, &map) < 0 || map.type != layout->type_map ||
	    limpet_memory_reader_read(walk->v8->memory,
				      address + (uint64_t)layout->map_instance_size, &words,
				      sizeof(words)) < 0 ||
	    limpet_memory_reader_read(walk->v8->memory,
				      address + (uint64_t)layout->map_instance_type, &type,
				      sizeof(type)) < 0)
		return false;
	*ret = (struct limpet_v8_map){.address = address,
				      .type = type,
				      .words = words,
				      .rule = (uint8_t)limpet_v8_sizes_rule(&walk->sizes, type),
				      .is_free = limpet_v8_sizes_is_free(&walk->sizes, type),
				      .row = -1};
	return true;
}

struct limpet_v8_map *limpet_v8_walk_map(struct limpet_v8_walk *walk, uint64_t address)
{
	struct limpet_v8_map map;
	size_t slot = slot_of(walk, address);

	if (walk->slots[slot].address)
		return &walk->slots[slot];
	if (!address || !read_map(walk, address, &map))
		return NULL;
	if (!grow(walk)) {
		walk->is_full = true;
		return NULL;
	}
	slot = slot_of(walk, address);
	walk->slots[slot] = map;
	walk->map_count++;
	return &walk->slots[slot];
}

int limpet_v8_walk_new(const struct limpet_v8 *v8, struct limpet_v8_walk **ret)
{
	struct limpet_v8_walk *walk = calloc(1, sizeof(*walk));

	if (!walk)
		return -ENOMEM;
	walk->v8 = v8;
	walk->slot_count = FIRST_SLOTS;
	walk->slots = calloc(FIRST_SLOTS, sizeof(*walk->slots));
	limpet_v8_sizes_init(&walk->sizes, v8);
	if (!walk->slots) {
		free(walk);
		return -ENOMEM;
	}
	*ret = walk;
	return 0;
}

void limpet_v8_walk_free(struct limpet_v8_walk *walk)
{
	if (!walk)
		return;
	free(walk->slots);
	free(walk);
}

/* ------------------------------------------------------------------ objects */

static uint64_t copied_behind(const struct limpet_v8_area *area, uint64_t address)
{
	return address - area->start < area->copied_bytes
		       ? area->copied_bytes - (address - area->start)
		       : 0;
}

static uint64_t word_at(const struct limpet_v8_area *area, uint64_t address)
{
	uint64_t word;

	memcpy(&word, area->bytes + (address - area->start), sizeof(word));
	return word;
}

/* The object at an address. False: there is none, or it is not whole. */
static bool read_object(struct limpet_v8_walk *walk, const struct limpet_v8_area *area,
			uint64_t address, struct limpet_v8_walked *ret)
{
	const uint64_t room = area->end - address;
	uint64_t word;

	ret->copied_bytes = copied_behind(area, address);
	if (ret->copied_bytes < 8)
		return false;
	word = word_at(area, address);
	if ((word & 7) != 1 || !limpet_v8_address(word))
		return false;
	ret->map = limpet_v8_walk_map(walk, limpet_v8_address(word));
	if (!ret->map)
		return false;
	ret->address = address;
	ret->object = area->bytes + (address - area->start);
	ret->bytes = ret->map->words ? (uint64_t)ret->map->words * 8
				     : limpet_v8_sizes_of(&walk->sizes, ret->map->rule, ret->object,
							  ret->copied_bytes);
	return ret->bytes && ret->bytes <= room && ret->bytes % 8 == 0;
}

static const struct limpet_v8_gap *gap_at(const struct limpet_v8_area *area, uint64_t address)
{
	for (size_t i = 0; i < area->gap_count; i++)
		if (area->gaps[i].top == address && area->gaps[i].limit > address)
			return &area->gaps[i];
	return NULL;
}

/* The end of what is not in use from there on; the address itself if it is in use. Zeros are no
 * object: memory that was given out, to a thread that compiles, and not used yet. Nothing but one
 * large object is copied in part. */
static uint64_t skip_gap(const struct limpet_v8_area *area, uint64_t address)
{
	const struct limpet_v8_gap *gap = gap_at(area, address);

	if (gap)
		return area->is_young || gap->limit > area->end ? area->end : gap->limit;
	while (copied_behind(area, address) >= 8 && !word_at(area, address))
		address += 8;
	return copied_behind(area, address) >= 8 ? address : area->end;
}

int limpet_v8_walk_area(struct limpet_v8_walk *walk, const struct limpet_v8_area *area,
			uint64_t from,
			void (*visit)(void *context, const struct limpet_v8_walked *walked),
			void *context, uint64_t *ret_at)
{
	struct limpet_v8_walked walked;

	for (uint64_t at = from; at < area->end; at += walked.bytes) {
		const uint64_t in_use = skip_gap(area, at);

		walked.bytes = in_use - at;
		if (walked.bytes)
			continue;
		if (!read_object(walk, area, at, &walked)) {
			*ret_at = at;
			return walk->is_full ? -ENOMEM : -EBADMSG;
		}
		if (visit)
			visit(context, &walked);
	}
	return 0;
}

uint64_t limpet_v8_walk_next(struct limpet_v8_walk *walk, const struct limpet_v8_area *area,
			     uint64_t from)
{
	for (uint64_t first = from + 8; first < area->end; first += 8) {
		struct limpet_v8_walked walked;
		uint64_t at = first;
		unsigned in_a_row = 0;

		while (in_a_row < IN_A_ROW && at < area->end &&
		       read_object(walk, area, at, &walked)) {
			at += walked.bytes;
			in_a_row++;
		}
		if (in_a_row == IN_A_ROW || (in_a_row && at == area->end))
			return first;
	}
	return area->end;
}
