/* The frames of a node of the stack tree: inlined calls have no nodes of their own. */
#ifndef LIMPET_ANALYZER_MODEL_FRAMES_H
#define LIMPET_ANALYZER_MODEL_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/frame_filter.h"
#include "analyzer/model/model.h"

struct limpet_frame {
	const char *function; /* NULL: unknown */
	const char *file;     /* NULL: unknown */
	uint32_t line;        /* 0: unknown */
	bool inlined;         /* into the next frame */
	const char *module;   /* path; NULL: in no known module */
	bool made;            /* JIT-compiled code */
	uint64_t offset;      /* of the call in the module's file; without module: its address */
	enum limpet_frame_kind kind;
};

/* More than any symbolizer returns for one address. */
#define LIMPET_NODE_FRAMES_MAX 256
/* The name of a frame without function and module. */
const char *limpet_frame_nameless(bool made);
/* Writes the frames of one node that is not lost, innermost first, from frames[0]; returns their
 * number (>= 1). Frames beyond `room` are left out. */
size_t limpet_node_frames(const struct limpet_model *model, const struct limpet_trace_node *node,
			  struct limpet_frame *frames, size_t room);

#endif
