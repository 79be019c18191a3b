#include "injector/unwind/module_frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "injector/elf/modules_memory.h"
#include "injector/unwind/unwind_fill.h"

/* Code without a description: at least so much, and one in so many bytes. */
#define LEAST_BYTES 512u
#define LEAST_SHARE 4u
/* Larger modules are not copied. */
#define MODULE_MAX (64u << 20)
#define TEXT_MAX (32u << 20)

struct offsets {
	uint32_t *list;
	size_t count, capacity;
	const struct limpet_module *module;
	bool failed;
};

static int find_holes(const struct limpet_module *module, const struct limpet_unwind_table *table,
		      struct limpet_frame_range **ret_holes, size_t *ret_count)
{
	return limpet_unwind_holes(table, (uint32_t)(module->text_start - module->start),
				   (uint32_t)(module->text_end - module->start), ret_holes,
				   ret_count);
}

bool limpet_module_lacks_frames(const struct limpet_module *module, uint64_t described_bytes)
{
	const uint64_t text = module->text_end - module->text_start;
	const uint64_t bytes = described_bytes < text ? text - described_bytes : 0;

	return !module->vdso && !module->agent && text <= TEXT_MAX &&
	       module->end - module->start <= MODULE_MAX && module->text_start >= module->start &&
	       bytes >= LEAST_BYTES && bytes >= text / LEAST_SHARE;
}

static void note_offset(uint64_t address, void *context)
{
	struct offsets *offsets = context;
	const struct limpet_module *module = offsets->module;

	if (address < module->text_start || address >= module->text_end || offsets->failed)
		return;
	if (limpet_reserve(&offsets->list, &offsets->capacity, offsets->count + 1,
			   sizeof(*offsets->list)) < 0)
		offsets->failed = true;
	else
		offsets->list[offsets->count++] = (uint32_t)(address - module->start);
}

/* What can be read; the rest stays zero. */
static void copy_part(const struct limpet_target *target, const struct limpet_module *module,
		      uint8_t *image, uint64_t start, uint64_t end)
{
	while (start < end) {
		const ssize_t got = limpet_module_read_some(
			target, module, start, image + (start - module->start), end - start);
		const uint64_t page = 4096;

		start = got > 0 ? start + (uint64_t)got : (start / page + 1) * page;
	}
}

static void note_pointers(const struct limpet_module *module, const uint8_t *image,
			  struct offsets *guesses)
{
	for (uint64_t at = module->text_end - module->start;
	     at + sizeof(uint64_t) <= module->end - module->start; at += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, image + at, sizeof(word));
		note_offset(word, guesses);
	}
}

int limpet_module_frames_start(const struct limpet_target *target, struct limpet_module *module,
			       const struct limpet_unwind_table *table,
			       struct limpet_frame_reader *ret)
{
	const uint64_t bytes = module->end - module->start;
	LIMPET_FREE uint8_t *image = NULL;
	LIMPET_FREE struct limpet_frame_range *holes = NULL;
	struct offsets starts = {.module = module}, guesses = {.module = module};
	struct limpet_frame_code code = {.bytes = (uint32_t)bytes};
	int error;

	if (!limpet_module_spend(module, bytes))
		return -EFBIG;
	image = calloc(1, bytes);
	error = image ? find_holes(module, table, &holes, &code.hole_count) : -ENOMEM;
	if (error)
		return error;
	copy_part(target, module, image, module->start, module->end);
	limpet_module_exports(target, module, note_offset, &starts);
	note_pointers(module, image, &guesses);
	code.image = image;
	code.holes = holes;
	code.starts = starts.list;
	code.start_count = starts.count;
	code.guesses = guesses.list;
	code.guess_count = guesses.count;
	error = starts.failed || guesses.failed ? -ENOMEM : limpet_frame_reader_start(&code, ret);
	free(starts.list);
	free(guesses.list);
	return error;
}
