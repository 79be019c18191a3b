/* Reads from an ELF file what preflight checks in an executable: class, interpreter, symbol names
 * and texts. Everything in the file is hostile: each offset and count is checked and memory is
 * bounded. The file is read, not mapped: if a mapped file were truncated meanwhile, SIGBUS would
 * kill limpet. Layouts: System V ABI, chapters 4 and 5. */
#ifndef LIMPET_INJECTOR_ELF_ELF_FILE_H
#define LIMPET_INJECTOR_ELF_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct limpet_elf_file;

/* Reads the headers through `fd`, which the caller keeps, and must keep open as long as the file.
 * -ENOEXEC: not an ELF file; -EBADMSG: a broken one. A file of another class than this program's
 * (32-bit) can be opened, but has no interpreter, sections or symbols. */
int limpet_elf_file_open(int fd, struct limpet_elf_file **ret_file) LIMPET_MUST_CHECK;
void limpet_elf_file_free(struct limpet_elf_file *file);

/* Whether class, byte order and machine are those of limpet itself. */
bool limpet_elf_file_is_native(const struct limpet_elf_file *file);
unsigned limpet_elf_file_bits(const struct limpet_elf_file *file); /* 32 or 64 */
/* PT_INTERP, or NULL. */
const char *limpet_elf_file_interpreter(const struct limpet_elf_file *file);
bool limpet_elf_file_has_section(const struct limpet_elf_file *file, const char *name);
/* Address of a section in the file's own address space. False: there is none, or it is not loaded.
 */
bool limpet_elf_file_loaded_section(const struct limpet_elf_file *file, const char *name,
				    uint64_t *ret_address, uint64_t *ret_bytes);
/* One of its program headers, in the file's own address space. */
struct limpet_elf_segment {
	uint32_t type, flags;          /* PT_*, PF_* */
	uint64_t value, offset, bytes; /* bytes in the file */
};
/* The first `max` of them; returns how many there are of these, or -errno. */
int limpet_elf_file_segments(const struct limpet_elf_file *file, struct limpet_elf_segment *ret,
			     unsigned max) LIMPET_MUST_CHECK;
/* Reads a part of the file. -EBADMSG: it is not that long. */
int limpet_elf_file_read(const struct limpet_elf_file *file, uint64_t offset, void *ret,
			 size_t bytes) LIMPET_MUST_CHECK;

/* Whether the file has a .symtab: without one, a name that is not found proves nothing. */
bool limpet_elf_file_has_symtab(const struct limpet_elf_file *file);

/* Calls `visit` with the name of each defined function or object in .symtab and .dynsym, until it
 * returns false. The name is valid during the call. 0 or -errno; -EFBIG: larger than limpet reads.
 */
int limpet_elf_file_symbols(struct limpet_elf_file *file,
			    bool (*visit)(void *context, const char *name), void *context);

/* A defined function of .symtab or .dynsym; the name is valid during the call. */
struct limpet_elf_function {
	const char *name;
	uint64_t value, bytes; /* in the file's own address space; bytes 0: unknown */
	bool local, weak;
};

/* Calls `visit` with each function, until it returns false; a function that is in both tables is
 * visited twice. Returns the same as limpet_elf_file_symbols(). */
int limpet_elf_file_functions(struct limpet_elf_file *file,
			      bool (*visit)(void *context,
					    const struct limpet_elf_function *function),
			      void *context);

/* The same with each defined object, and its address in the file's own address space. */
int limpet_elf_file_objects(struct limpet_elf_file *file,
			    bool (*visit)(void *context, const char *name, uint64_t value),
			    void *context);

/* Calls `visit` for each occurrence of `needle` (at least 2 bytes) in .rodata, until it returns
 * false: `at` points to it, with `before` readable bytes before and `after` bytes from it on (at
 * least 64 of each, unless .rodata ends there). In a file without sections, the segments that are
 * not writable are searched. At most the first 256 MiB are. */
int limpet_elf_file_search(const struct limpet_elf_file *file, const char *needle,
			   bool (*visit)(void *context, const char *at, size_t before,
					 size_t after),
			   void *context);

#endif
