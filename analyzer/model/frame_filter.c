#include "analyzer/model/frame_filter.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "common/err.h"

static const char *const allocators[] = {
	"malloc",
	"calloc",
	"realloc",
	"reallocarray",
	"free",
	"posix_memalign",
	"aligned_alloc",
	"memalign",
	"valloc",
	"pvalloc",
	"mmap",
	"mmap64",
	"mremap",
	"sbrk",
	"brk",
	/* Rust's entry points; its allocator functions proper are in alloc:: */
	"__rust_alloc",
	"__rust_alloc_zeroed",
	"__rust_realloc",
	"__rust_dealloc",
	"__rdl_alloc",
	"__rdl_alloc_zeroed",
	"__rdl_realloc",
	"__rg_alloc",
	"__rg_alloc_zeroed",
	"__rg_realloc",
	/* wrappers that only check or count */
	"xmalloc",
	"xcalloc",
	"xrealloc",
	"xzalloc",
	"xmalloc_flags",
	"g_malloc",
	"g_malloc0",
	"g_malloc_n",
	"g_malloc0_n",
	"g_realloc",
	"g_realloc_n",
	"g_try_malloc",
	"g_try_malloc0",
	"g_try_realloc",
	"uv__malloc",
	"uv__calloc",
	"uv__realloc",
	"g_slice_alloc",
	"g_slice_alloc0",
	"zmalloc",
	"zcalloc",
	"zrealloc",
	"zmalloc_usable",
	"zcalloc_usable",
	"zrealloc_usable",
	"ztrymalloc",
	"ztrycalloc",
	"ztryrealloc",
	"ztrymalloc_usable",
	"ztrycalloc_usable",
	"ztryrealloc_usable",
	"zcalloc_num",
	"ztrymalloc_usable_internal",
	"ztrycalloc_usable_internal",
	"ztryrealloc_usable_internal",
	"CRYPTO_malloc",
	"CRYPTO_zalloc",
	"CRYPTO_realloc",
	"CRYPTO_calloc",
	"sqlite3Malloc",
	"sqlite3_malloc",
	"sqlite3_malloc64",
	"sqlite3MemMalloc",
	"sqlite3MallocZero",
	"sqlite3Realloc",
	"PyObject_Malloc",
	"PyObject_Calloc",
	"PyObject_Realloc",
	"_PyObject_Malloc",
	"_PyObject_Calloc",
	"_PyObject_Realloc",
	"PyMem_Malloc",
	"PyMem_Calloc",
	"PyMem_Realloc",
	"PyMem_RawMalloc",
	"PyMem_RawCalloc",
	"PyMem_RawRealloc",
	"_PyMem_RawMalloc",
	"_PyMem_RawCalloc",
	"_PyMem_RawRealloc",
	"_PyMem_DebugRawAlloc",
	"_PyMem_DebugRawMalloc",
	"_PyMem_DebugMalloc",
	"_PyObject_Arena",
	"_PyObject_ArenaMmap",
	"new_arena",
	"pymalloc_alloc",
	"allocate_from_new_pool",
	/* GLib */
	"g_try_malloc_n",
	"g_try_realloc_n",
	/* SQLite's, per connection */
	"sqlite3DbMallocRaw",
	"sqlite3DbMallocRawNN",
	"dbMallocRawFinish",
	"sqlite3DbMallocZero",
	"sqlite3DbRealloc",
	"pcache1Alloc",
	/* Python's, of objects */
	"gc_alloc",
	"_PyObject_New",
	"_PyObject_GC_Alloc",
	"_PyObject_GC_Malloc",
	"_PyObject_GC_New",
	"_PyObject_GC_NewVar",
	"_PyType_AllocNoTrack",
	"PyType_GenericAlloc",
	/* Redis and Valkey: strings */
	"_sdsnewlen",
	"sdsnewlen",
	"sdstrynewlen",
	/* PostgreSQL */
	"palloc",
	"palloc0",
	"palloc_extended",
	"repalloc",
	"pg_malloc",
	"pg_malloc0",
	"pg_realloc",
	"MemoryContextAlloc",
	"MemoryContextAllocZero",
	"MemoryContextAllocZeroAligned",
	"MemoryContextAllocExtended",
	"MemoryContextAllocationFailure",
	"AllocSetAlloc",
	"AllocSetAllocLarge",
	"AllocSetAllocFromNewBlock",
	"AllocSetRealloc",
	"GenerationAlloc",
	"SlabAlloc",
	/* MySQL and MariaDB */
	"my_malloc",
	"my_realloc",
	"my_raw_malloc",
	"my_multi_malloc",
	"alloc_root",
	"multi_alloc_root",
	/* nginx and Apache */
	"ngx_alloc",
	"ngx_calloc",
	"ngx_memalign",
	"ngx_palloc",
	"ngx_pnalloc",
	"ngx_pcalloc",
	"ngx_palloc_block",
	"ngx_palloc_large",
	"ngx_palloc_small",
	"apr_palloc",
	"apr_pcalloc",
	/* PHP, Perl, Ruby, Lua */
	"_emalloc",
	"_ecalloc",
	"_erealloc",
	"_safe_emalloc",
	"__zend_malloc",
	"__zend_calloc",
	"__zend_realloc",
	"Perl_safesysmalloc",
	"Perl_safesyscalloc",
	"Perl_safesysrealloc",
	"ruby_xmalloc",
	"ruby_xmalloc2",
	"ruby_xcalloc",
	"ruby_xrealloc",
	"ruby_xrealloc2",
	"objspace_xmalloc0",
	"objspace_xcalloc",
	"objspace_xrealloc",
	"l_alloc",
	"luaM_malloc_",
	"luaM_realloc_",
	"luaM_saferealloc_",
	"luaM_growaux_",
	/* HotSpot */
	"os::malloc",
	"os::realloc",
	"AllocateHeap",
	"ReallocateHeap",
	/* Nim's runtime */
	"newObj",
	"newObjRC1",
	"newSeq",
	"newSeqRC1",
	"rawNewObj",
	"rawNewString",
	"nimNewObj",
	"nimNewObjUninit",
	"nimNewSeqOfCap",
	"nimNewString",
	"alignedAlloc",
	"nimRawAlloc",
};

/* What they do says more than that they allocate: labels name them, after the program's function.
 */
static const char *const copiers[] = {
	"xmemdup",       "xstrdup",       "g_memdup",    "g_memdup2",           "g_strdup",
	"CRYPTO_strdup", "CRYPTO_memdup", "g_strndup",   "sqlite3DbStrDup",     "sqlite3DbStrNDup",
	"pstrdup",       "pnstrdup",      "pg_strdup",   "MemoryContextStrdup", "my_strdup",
	"my_strndup",    "my_memdup",     "strdup_root", "memdup_root",         "apr_pstrdup",
	"apr_pstrndup",  "apr_pmemdup",   "_estrdup",    "_estrndup",
};

static const char *const starts[] = {
	"_start",
	"__libc_start_main",
	"__libc_start_main_impl",
	"__libc_start_call_main",
	"start_thread",
	"clone",
	"clone3",
	"__clone",
	"__clone3",
	"__GI___clone",
	"__libc_start_main_stage2",
};

/* Scopes of general-purpose libraries: prefixes of a qualified name. */
static const char *const library_scopes[] = {
	"std::",       "__gnu_cxx::",     "__cxxabiv1::", "alloc::", "core::",
	"hashbrown::", "boost::detail::", "system.",      "system/", "std/",
};

/* Names of modules, up to the first dot. */
static const char *const libraries[] = {
	"libc",           "ld-linux",        "ld-linux-x86-64", "ld-linux-aarch64",
	"ld-musl-x86_64", "ld-musl-aarch64", "libpthread",      "libstdc++",
	"libc++",         "libc++abi",       "libgcc_s",        "libm",
	"libffi",
};

/* Go's runtime, which is part of each of its programs. */
static const char *const go_allocators[] = {
	"runtime.mallocgc",  "runtime.newobject",     "runtime.newarray",
	"runtime.makeslice", "runtime.makeslice64",   "runtime.growslice",
	"runtime.makemap",   "runtime.makemap_small", "runtime.makechan",
	"runtime.rawstring", "runtime.rawbyteslice",  "runtime.persistentalloc",
};

static const char *const go_starts[] = {
	"runtime.main",    "runtime.goexit",  "runtime.mstart",
	"runtime.mstart0", "runtime.mstart1", "runtime.rt0_go",
};

static const char *const go_scopes[] = {"runtime.", "runtime/internal/", "internal/runtime/"};

static bool in_list(const char *word, size_t length, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (strlen(list[i]) == length && !memcmp(list[i], word, length))
			return true;
	}
	return false;
}

static bool has_prefix(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

/* Of a name as that of Go's `runtime.main.func1`, those in front of a dot, too: closures of the
 * function, or a linker's mark (.abi0). */
static bool is_of_go(const char *name, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t length = strlen(list[i]);

		if (has_prefix(name, list[i]) && (!name[length] || name[length] == '.'))
			return true;
	}
	return false;
}

static bool is_go_runtime(const char *name)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(go_scopes); i++)
		if (has_prefix(name, go_scopes[i]))
			return true;
	return false;
}

static bool in_library_scope(const char *name)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(library_scopes); i++) {
		if (has_prefix(name, library_scopes[i]))
			return true;
	}
	return false;
}

static const char *skip_type_signs(const char *s)
{
	for (;;) {
		if (*s == '&' || *s == '[' || *s == '(' || *s == ' ')
			s++;
		else if (has_prefix(s, "mut "))
			s += 4;
		else if (has_prefix(s, "dyn "))
			s += 4;
		else if (has_prefix(s, "*mut ") || has_prefix(s, "*const "))
			s = strchr(s, ' ') + 1;
		else
			return s;
	}
}

/* A type that belongs to no crate: a generic parameter (T, F1) or a primitive. */
static bool is_nobodys_type(const char *type)
{
	static const char *const primitives[] = {"u8",  "u16", "u32",  "u64",  "u128", "usize",
						 "i8",  "i16", "i32",  "i64",  "i128", "isize",
						 "f32", "f64", "bool", "char", "str"};
	size_t length =
		strspn(type, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

	if (type[length] == ':')
		return false;
	if (in_list(type, length, primitives, LIMPET_COUNT_OF(primitives)))
		return true;
	return length <= 2 && (isupper((unsigned char)type[0]) || type[0] == '_');
}

/* Rust's `<Type as Trait>::method` belongs to the type's crate, or to the trait's if the type
 * belongs to none. Methods of such a type without a trait are the language's own: no other crate
 * may define them. A trait may be within a function of another implementation, `<u8 as
 * <[_]>::to_vec_in::ConvertVec>`. */
static bool is_library_impl(const char *name)
{
	const char *type = skip_type_signs(name + 1);
	size_t depth = 1;

	if (in_library_scope(type))
		return true;
	if (!is_nobodys_type(type))
		return false;
	for (const char *s = name + 1; *s && depth; s++) {
		if (*s == '<')
			depth++;
		else if (*s == '>' && s[-1] != '-')
			depth--;
		else if (depth == 1 && has_prefix(s, " as "))
			return in_library_scope(skip_type_signs(s + 4)) ||
			       (has_prefix(s, " as <[_]>::"));
	}
	return true;
}

static bool is_library_module(const char *module)
{
	const char *base = strrchr(module, '/');
	size_t length;

	base = base ? base + 1 : module;
	length = strcspn(base, ".");
	if (in_list(base, length, libraries, LIMPET_COUNT_OF(libraries)))
		return true;
	/* libc-2.31.so, ld-2.31.so of older systems */
	return (has_prefix(base, "libc-2.") || has_prefix(base, "ld-2.") ||
		has_prefix(base, "libpthread-2."));
}

static bool is_start(const char *function, size_t length)
{
	return in_list(function, length, starts, LIMPET_COUNT_OF(starts)) ||
	       is_of_go(function, go_starts, LIMPET_COUNT_OF(go_starts)) ||
	       has_prefix(function, "std::rt::lang_start") ||
	       strstr(function, "__rust_begin_short_backtrace");
}

static bool is_allocator(const char *function, size_t length)
{
	return in_list(function, length, allocators, LIMPET_COUNT_OF(allocators)) ||
	       is_of_go(function, go_allocators, LIMPET_COUNT_OF(go_allocators)) ||
	       has_prefix(function, "operator new") || has_prefix(function, "operator delete") ||
	       has_prefix(function, "alloc::alloc::") || has_prefix(function, "__libc_malloc") ||
	       has_prefix(function, "__libc_calloc") || has_prefix(function, "__libc_realloc") ||
	       has_prefix(function, "__rustc::__r");
}

/* Of the name before parameters, and before what compilers add to a copy of a function. */
static size_t base_length(const char *function)
{
	static const char *const copies[] = {".part.", ".constprop.", ".isra.",
					     ".cold",  ".lto_priv.",  ".llvm."};
	size_t length = strcspn(function, "(");

	for (size_t i = 0; i < LIMPET_COUNT_OF(copies); i++) {
		const char *copy = strstr(function, copies[i]);

		if (copy && (size_t)(copy - function) < length)
			length = (size_t)(copy - function);
	}
	return length;
}

static bool is_library(const char *function)
{
	return in_library_scope(function) || is_go_runtime(function) ||
	       (function[0] == '<' && is_library_impl(function)) ||
	       in_list(function, base_length(function), copiers, LIMPET_COUNT_OF(copiers)) ||
	       /* libffi, which may be linked in */
	       has_prefix(function, "ffi_call") || has_prefix(function, "ffi_closure_");
}

enum limpet_frame_kind limpet_frame_filter_classify(const char *function, const char *module,
						    bool allocator)
{
	if (function) {
		size_t length = base_length(function);

		if (is_start(function, length))
			return LIMPET_FRAME_START;
		if (is_allocator(function, length))
			return LIMPET_FRAME_ALLOCATOR;
	}
	/* libc is marked, too, for its malloc: the rest of it is a library. */
	if (allocator && !(function && module && is_library_module(module)))
		return LIMPET_FRAME_ALLOCATOR;
	if (function && is_library(function))
		return LIMPET_FRAME_LIBRARY;
	if (module && is_library_module(module))
		return LIMPET_FRAME_LIBRARY;
	return LIMPET_FRAME_PROGRAM;
}

struct limpet_frame_filter limpet_frame_filter_stack(const enum limpet_frame_kind *kinds,
						     size_t count, bool *keep)
{
	struct limpet_frame_filter fold = {.first = 0, .shown = 0, .via = SIZE_MAX};
	size_t outer = count;

	while (fold.first < count && kinds[fold.first] != LIMPET_FRAME_PROGRAM)
		fold.first++;
	if (fold.first == count) {
		/* No frame of the program: show all. */
		fold.first = 0;
		while (outer > 1 && kinds[outer - 1] == LIMPET_FRAME_START)
			outer--;
		for (size_t i = 0; i < count; i++)
			keep[i] = i < outer;
		fold.shown = count ? outer : 0;
		return fold;
	}
	if (fold.first)
		fold.via = fold.first - 1;
	for (size_t i = 0; i < count; i++) {
		keep[i] = i >= fold.first && kinds[i] == LIMPET_FRAME_PROGRAM;
		fold.shown += keep[i];
	}
	return fold;
}
