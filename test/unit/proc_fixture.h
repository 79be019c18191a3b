/* A substitute /proc in a temporary directory, and ELF files made to order. Any failure to make
 * them fails the running test. */
#ifndef LIMPET_TEST_PROC_FIXTURE_H
#define LIMPET_TEST_PROC_FIXTURE_H

#include <stddef.h>
#include <sys/types.h>

/* Makes the directory and points limpet_proc_root to it; answers its path. */
const char *proc_fixture_begin(void);
/* Removes it and points limpet_proc_root back to /proc. */
void proc_fixture_end(void);

/* Writes a file below the directory; parents are made. `format` is printf's. */
void proc_fixture_write(const char *path, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void proc_fixture_write_bytes(const char *path, const void *bytes, size_t count);
void proc_fixture_link(const char *path, const char *to);
void proc_fixture_remove(const char *path);
/* The full path of something below the directory; valid until the next call. */
const char *proc_fixture_path(const char *path);

/* A whole process to which nothing is to be objected: a dynamic program with glibc, one thread, of
 * this user. Single files can be written over it. */
void proc_fixture_process(pid_t pid, const char *name);
/* Its status; `more` holds further whole lines, which win over nothing: keys must be new. */
void proc_fixture_status(pid_t pid, const char *name, char state, pid_t tgid, unsigned threads,
			 const char *more);
void proc_fixture_stat(pid_t pid, const char *name, unsigned flags, unsigned long long start);

struct proc_fixture_elf {
	unsigned class_bits;          /* 64 (0) or 32 */
	const char *interpreter;      /* NULL: none */
	const char *const *symbols;   /* defined functions, NULL-terminated; NULL: no .symtab */
	const char *const *dynamics;  /* the same in .dynsym */
	const char *const *undefined; /* undefined in .dynsym */
	const char *rodata;
	const char *section; /* an empty section of this name */
};
/* Answers malloc'ed bytes. */
void *proc_fixture_elf(const struct proc_fixture_elf *what, size_t *ret_bytes);

#endif
