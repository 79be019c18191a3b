/* Telling a program's own functions from the noise around them: allocators, the C++ and Rust
 * standard libraries, libc, and what starts threads and programs. Pure functions. */
#ifndef LIMPET_ANALYZER_FOLD_H
#define LIMPET_ANALYZER_FOLD_H

#include <stdbool.h>
#include <stddef.h>

enum limpet_fold_kind {
	LIMPET_FOLD_PROGRAM = 0,
	LIMPET_FOLD_ALLOCATOR, /* malloc and its like, operator new, __rust_alloc, xmalloc... */
	LIMPET_FOLD_LIBRARY,   /* std::, alloc::, core::, libc: general-purpose code */
	LIMPET_FOLD_START      /* _start, __libc_start_main, clone3, start_thread... */
};

/* `function` is demangled, NULL if unknown; `module` is a path, NULL if there is none (JIT code);
 * `allocator`: the capture marked the module as an allocator's. */
enum limpet_fold_kind limpet_fold_classify(const char *function, const char *module,
					   bool allocator);

struct limpet_fold {
	size_t first; /* index of the first frame of the program, innermost */
	size_t shown; /* frames with keep[] set */
	/* Index of the outermost frame of the noise folded before `first`: what the program called
	 * (`strdup`, `operator new`); SIZE_MAX if nothing was folded there. */
	size_t via;
};

/* Decides for a stack, innermost first, which frames are shown: keep[i]. A stack of nothing but
 * noise is kept whole, less its outer START frames. */
struct limpet_fold limpet_fold_stack(const enum limpet_fold_kind *kinds, size_t count, bool *keep);

#endif
