/* Tells a program's own functions from the noise around them: allocators, the C++ and Rust standard
 * libraries, Go's runtime, libc, and code that starts threads and programs. Pure functions. */
#ifndef LIMPET_ANALYZER_MODEL_FRAME_FILTER_H
#define LIMPET_ANALYZER_MODEL_FRAME_FILTER_H

#include <stdbool.h>
#include <stddef.h>

enum limpet_frame_kind {
	LIMPET_FRAME_PROGRAM = 0,
	LIMPET_FRAME_ALLOCATOR, /* malloc and its like, operator new, __rust_alloc, xmalloc... */
	LIMPET_FRAME_LIBRARY,   /* std::, alloc::, core::, libc: general-purpose code */
	LIMPET_FRAME_START      /* _start, __libc_start_main, clone3, start_thread... */
};

/* `function` is demangled, NULL if unknown; `module` is a path, NULL if there is none (JIT code);
 * `allocator`: the capture marked the module as an allocator's. */
enum limpet_frame_kind limpet_frame_filter_classify(const char *function, const char *module,
						    bool allocator);

struct limpet_frame_filter {
	size_t first; /* index of the first frame of the program, innermost */
	size_t shown; /* frames with keep[] set */
	/* Index of the outermost frame left out before `first`: the function that the program
	 * called (`strdup`, `operator new`); SIZE_MAX if none was left out. */
	size_t via;
};

/* Decides for a stack, innermost first, which frames are shown: keep[i]. A stack without a frame of
 * the program is shown whole, except for its outer START frames. */
struct limpet_frame_filter limpet_frame_filter_stack(const enum limpet_frame_kind *kinds,
						     size_t count, bool *keep);

#endif
