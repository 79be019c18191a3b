/* The frames that a node of the stack tree stands for: inlined calls have none of their own. */
#ifndef LIMPET_ANALYZER_MODEL_FRAMES_H
#define LIMPET_ANALYZER_MODEL_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/frame_filter.h"
#include "analyzer/model/model.h"

struct limpet_report_frame {
	const char *function; /* NULL: unknown */
	const char *file;     /* NULL: unknown */
	uint32_t line;        /* 0: unknown */
	bool inlined;         /* into the next frame */
	const char *module;   /* path; NULL: in no module that is known */
	bool made;            /* seen to be code that the program made itself: a JIT compiler's */
	uint64_t offset;      /* of the call in the module's file; without module: its address */
	enum limpet_frame_kind kind;
};

/* More than any symbolizer answers for one address. */
#define LIMPET_REPORT_NODE_FRAMES_MAX 256
/* What a frame without function and module is called. */
const char *limpet_report_nameless(bool made);
/* Frames of one node that is not lost, innermost first, written from frames[0]; answers their
 * number (>= 1). `room` frames fit; what is beyond is left out. */
size_t limpet_report_node_frames(const struct limpet_model *model,
				 const struct limpet_trace_node *node,
				 struct limpet_report_frame *frames, size_t room);

#endif
