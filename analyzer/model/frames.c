#include "analyzer/model/frames.h"

#include <string.h>

static bool is_allocator(const struct limpet_model *model, const struct limpet_trace_module *module)
{
	/* An allocator linked into the program marks the whole program, which says nothing about a
	 * frame. */
	return module->allocator && strcmp(module->path, model->target->executable) != 0;
}

/* Where the kernel on x86-64 maps the page to which functions return that another tool watches by a
 * return probe, if nothing else is there. Their callers are not known. */
#define RETURN_PROBES UINT64_C(0x7fffffffe000)

const char *limpet_frame_nameless(bool made)
{
	return made ? "[jit]" : "(unknown code)";
}

size_t limpet_node_frames(const struct limpet_model *model, const struct limpet_trace_node *node,
			  struct limpet_frame *frames, size_t room)
{
	const struct limpet_trace_module *module = &model->modules[node->module];
	const struct limpet_model_frame *symbols = NULL;
	uint32_t count = 0;
	bool allocator;

	/* A return address may be the first byte of other code: one less is within the call. */
	frames[0] = (struct limpet_frame){.offset = node->address - 1, .made = node->made};
	allocator = node->module && is_allocator(model, module);
	count = limpet_model_symbols(model, node->module, node->address, &symbols);
	if (!count && !node->module && node->address == RETURN_PROBES)
		frames[0].function = "[uprobes]";
	if (!count && !node->module)
		return 1;
	for (uint32_t i = 0; i < count && i < room; i++)
		frames[i] = (struct limpet_frame){.function = symbols[i].function,
						  .file = symbols[i].file,
						  .line = symbols[i].line,
						  .inlined = symbols[i].inlined};
	if (!count)
		count = 1;
	if (count > room)
		count = (uint32_t)room;
	for (uint32_t i = 0; i < count; i++) {
		frames[i].module = node->module ? module->path : NULL;
		frames[i].made = node->made;
		frames[i].offset = node->address - 1 - module->bias;
		/* Names of other languages: `clone` is no start there. */
		frames[i].kind = node->made ? LIMPET_FRAME_PROGRAM
					    : limpet_frame_filter_classify(frames[i].function,
									   module->path, allocator);
	}
	return count;
}
