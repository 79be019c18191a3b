#include "test/unit/proc_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "injector/proc/proc.h"

static char root[64];

const char *proc_fixture_begin(void)
{
	strcpy(root, "/tmp/limpet-proc-XXXXXX");
	assert_non_null(mkdtemp(root));
	/* a test may look with another user's eyes */
	assert_int_equal(chmod(root, 0755), 0);
	limpet_proc_root = root;
	return root;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *walk)
{
	(void)st;
	(void)type;
	(void)walk;
	return remove(path);
}

void proc_fixture_end(void)
{
	limpet_proc_root = "/proc";
	assert_int_equal(nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

const char *proc_fixture_path(const char *path)
{
	static char full[PATH_MAX];

	snprintf(full, sizeof(full), "%s/%s", root, path);
	return full;
}

static void make_parents(const char *path)
{
	char full[PATH_MAX];

	snprintf(full, sizeof(full), "%s", proc_fixture_path(path));
	for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		if (mkdir(full, 0755) < 0)
			assert_int_equal(errno, EEXIST);
		*at = '/';
	}
}

void proc_fixture_write_bytes(const char *path, const void *bytes, size_t count)
{
	FILE *file;

	make_parents(path);
	unlink(proc_fixture_path(path));
	file = fopen(proc_fixture_path(path), "w");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, count, file), count);
	assert_int_equal(fclose(file), 0);
}

void proc_fixture_write(const char *path, const char *format, ...)
{
	va_list args;
	char *text;
	int length;

	va_start(args, format);
	length = vasprintf(&text, format, args);
	va_end(args);
	assert_true(length >= 0);
	proc_fixture_write_bytes(path, text, (size_t)length);
	free(text);
}

void proc_fixture_link(const char *path, const char *to)
{
	make_parents(path);
	unlink(proc_fixture_path(path));
	assert_int_equal(symlink(to, proc_fixture_path(path)), 0);
}

void proc_fixture_remove(const char *path)
{
	assert_int_equal(remove(proc_fixture_path(path)), 0);
}

/* ------------------------------------------------------------------ processes */

void proc_fixture_status(pid_t pid, const char *name, char state, pid_t tgid, unsigned threads,
			 const char *more)
{
	static const char format[] =
		"Name:\t%s\nUmask:\t0022\nState:\t%c (words)\nTgid:\t%d\nPid:\t%d\nPPid:\t1\n"
		"Uid:\t%u\t%u\t%u\t%u\nGid:\t%u\t%u\t%u\t%u\nFDSize:\t64\n"
		"VmSize:\t   20480 kB\nVmRSS:\t   10240 kB\nThreads:\t%u\n%s";
	char path[64];

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), i ? "%d/task/%d/status" : "%d/status", pid, pid);
		proc_fixture_write(path, format, name, state, tgid, pid, getuid(), getuid(),
				   getuid(), getuid(), getgid(), getgid(), getgid(), getgid(),
				   threads, more);
	}
}

void proc_fixture_stat(pid_t pid, const char *name, unsigned flags, unsigned long long start)
{
	char path[64];

	snprintf(path, sizeof(path), "%d/task/%d/stat", pid, pid);
	proc_fixture_write(path,
			   "%d (%s) S 1 1 1 0 -1 %u 5 0 0 0 1 2 0 0 20 0 1 0 %llu 20971520 2560 "
			   "18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n",
			   pid, name, flags, start);
}

void proc_fixture_process(pid_t pid, const char *name)
{
	static const char *const dynamics[] = {"main", NULL};
	struct proc_fixture_elf what = {.interpreter = "/lib64/ld-linux-x86-64.so.2",
					.dynamics = dynamics};
	char path[64];
	size_t bytes;
	void *elf = proc_fixture_elf(&what, &bytes);

	proc_fixture_status(pid, name, 'S', pid, 1, "TracerPid:\t0\nSeccomp:\t0\n");
	proc_fixture_stat(pid, name, 0x400100, 4711);
	snprintf(path, sizeof(path), "%d/exe", pid);
	proc_fixture_write_bytes(path, elf, bytes);
	free(elf);
	snprintf(path, sizeof(path), "%d/maps", pid);
	proc_fixture_write(path,
			   "555555554000-555555556000 r-xp 00000000 fe:00 11 /usr/bin/%s\n"
			   "7ffff7dd5000-7ffff7df7000 r--p 00000000 fe:00 12 "
			   "/usr/lib/x86_64-linux-gnu/libc.so.6\n",
			   "program");
	snprintf(path, sizeof(path), "%d/mem", pid);
	proc_fixture_write(path, "%s", "");
	snprintf(path, sizeof(path), "%d/root", pid);
	proc_fixture_link(path, "/");
	snprintf(path, sizeof(path), "%d/limits", pid);
	proc_fixture_write(
		path, "%s",
		"Limit                     Soft Limit           Hard Limit           Units"
		"     \n"
		"Max address space         unlimited            unlimited            bytes"
		"     \n"
		"Max open files            1024                 1048576              files"
		"     \n");
}

/* ------------------------------------------------------------------ ELF files */

enum { SECTION_NULL, SECTION_NAMES, SECTION_RODATA, SECTION_EXTRA, SECTION_FIRST_TABLE };

struct writer {
	unsigned char *bytes;
	size_t used;
};

static size_t put(struct writer *w, const void *bytes, size_t count)
{
	size_t at = (w->used + 7) & ~(size_t)7;

	w->bytes = realloc(w->bytes, at + count + 8);
	assert_non_null(w->bytes);
	memset(w->bytes + w->used, 0, at - w->used);
	memcpy(w->bytes + at, bytes, count);
	w->used = at + count;
	return at;
}

/* Writes a symbol table and its names as two sections, the names second. */
static void put_symbols(struct writer *w, Elf64_Shdr *table, unsigned type, unsigned own_index,
			const char *const *defined, const char *const *undefined)
{
	Elf64_Sym symbols[64] = {0};
	char names[4096] = "";
	size_t used = 1, count = 1;

	for (int pass = 0; pass < 2; pass++) {
		const char *const *list = pass ? undefined : defined;

		for (; list && *list; list++, count++) {
			assert_true(count < 64 && used + strlen(*list) + 1 < sizeof(names));
			symbols[count].st_name = (Elf64_Word)used;
			symbols[count].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
			symbols[count].st_shndx = pass ? SHN_UNDEF : SECTION_RODATA;
			symbols[count].st_value = 0x1000;
			strcpy(names + used, *list);
			used += strlen(*list) + 1;
		}
	}
	table[0].sh_type = type;
	table[0].sh_offset = put(w, symbols, count * sizeof(symbols[0]));
	table[0].sh_size = count * sizeof(symbols[0]);
	table[0].sh_entsize = sizeof(symbols[0]);
	table[0].sh_link = own_index + 1;
	table[1].sh_type = SHT_STRTAB;
	table[1].sh_offset = put(w, names, used);
	table[1].sh_size = used;
}

void *proc_fixture_elf(const struct proc_fixture_elf *what, size_t *ret_bytes)
{
	Elf64_Shdr sections[SECTION_FIRST_TABLE + 4] = {0};
	Elf64_Phdr interpreter = {.p_type = PT_INTERP};
	struct writer w = {0};
	char names[128] = "";
	unsigned count = SECTION_FIRST_TABLE;
	Elf64_Ehdr head, own;
	FILE *self = fopen("/proc/self/exe", "re");

	/* as native as this test */
	assert_non_null(self);
	assert_int_equal(fread(&own, sizeof(own), 1, self), 1);
	fclose(self);
	memset(&head, 0, sizeof(head));
	memcpy(head.e_ident, own.e_ident, EI_NIDENT);
	head.e_machine = own.e_machine;
	if (what->class_bits == 32)
		head.e_ident[EI_CLASS] = ELFCLASS32;
	head.e_type = ET_DYN;
	head.e_ehsize = sizeof(head);
	head.e_phentsize = sizeof(interpreter);
	head.e_shentsize = sizeof(sections[0]);
	put(&w, &head, sizeof(head));

	if (what->interpreter) {
		interpreter.p_offset = put(&w, what->interpreter, strlen(what->interpreter) + 1);
		interpreter.p_filesz = strlen(what->interpreter) + 1;
		head.e_phoff = put(&w, &interpreter, sizeof(interpreter));
		head.e_phnum = 1;
	}
	memcpy(names + 1, ".rodata", 8);
	memcpy(names + 16, ".shstrtab", 10);
	snprintf(names + 32, 64, "%s", what->section ? what->section : ".other");
	sections[SECTION_RODATA].sh_name = 1;
	sections[SECTION_RODATA].sh_type = SHT_PROGBITS;
	sections[SECTION_RODATA].sh_size = what->rodata ? strlen(what->rodata) : 0;
	sections[SECTION_RODATA].sh_offset =
		put(&w, what->rodata ? what->rodata : "", sections[SECTION_RODATA].sh_size);
	sections[SECTION_EXTRA].sh_name = 32;
	sections[SECTION_EXTRA].sh_type = SHT_PROGBITS;
	sections[SECTION_NAMES].sh_name = 16;
	sections[SECTION_NAMES].sh_type = SHT_STRTAB;
	sections[SECTION_NAMES].sh_size = sizeof(names);
	sections[SECTION_NAMES].sh_offset = put(&w, names, sizeof(names));
	if (what->symbols) {
		put_symbols(&w, &sections[count], SHT_SYMTAB, count, what->symbols, NULL);
		count += 2;
	}
	if (what->dynamics || what->undefined) {
		put_symbols(&w, &sections[count], SHT_DYNSYM, count, what->dynamics,
			    what->undefined);
		count += 2;
	}
	head.e_shstrndx = SECTION_NAMES;
	head.e_shnum = (Elf64_Half)count;
	head.e_shoff = put(&w, sections, count * sizeof(sections[0]));
	memcpy(w.bytes, &head, sizeof(head));
	*ret_bytes = w.used;
	return w.bytes;
}
