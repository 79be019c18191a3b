/* The modules of a process as they are read from outside: compared with what the loader and libelf
 * say, and with a child whose memory lies.
 *
 * time-limit: 120 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <link.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/err.h"
#include "common/family.h"
#include "injector/elf/modules.h"
#include "injector/proc/memfd.h"
#include "injector/proc/memory.h"
#include "injector/ptrace/tracee.h"
#include "injector/remote/agent_image.h"
#include "injector/remote/loader_error.h"
#include "injector/remote/loader_lock.h"
#include "test/unit/target_of.h"

/* ------------------------------------------------------------------ a child to look at */

struct child {
	pid_t pid;
	int to, from;
};

static void say(int fd)
{
	if (write(fd, "", 1) != 1)
		_exit(97);
}

static void hear(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		_exit(96);
}

/* `body` runs in the child; it says when it is ready and hears when it may go on. */
static struct child start_child(void (*body)(int from, int to, void *context), void *context)
{
	struct child child;
	int down[2], up[2];
	char byte;

	assert_int_equal(pipe2(down, O_CLOEXEC), 0);
	assert_int_equal(pipe2(up, O_CLOEXEC), 0);
	child.pid = fork();
	assert_true(child.pid >= 0);
	if (!child.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(down[1]);
		close(up[0]);
		body(down[0], up[1], context);
		_exit(0);
	}
	close(down[0]);
	close(up[1]);
	child.to = down[1];
	child.from = up[0];
	assert_int_equal(read(child.from, &byte, 1), 1);
	return child;
}

static void end_child(struct child *child)
{
	close(child->to);
	close(child->from);
	kill(child->pid, SIGKILL);
	assert_int_equal(waitpid(child->pid, NULL, 0), child->pid);
}

static void stand_still(int from, int to, void *context)
{
	(void)context;
	say(to);
	hear(from);
}

/* ------------------------------------------------------------------ against the loader */

static const struct limpet_module *with_phdr(const struct limpet_modules *modules, uint64_t phdr)
{
	for (size_t i = 0; i < modules->count; i++)
		if (modules->list[i].phdr == phdr)
			return &modules->list[i];
	return NULL;
}

struct comparison {
	const struct limpet_modules *modules;
	unsigned seen, with_build_id;
};

static void compare_build_id(const char *path, const struct limpet_module *module,
			     struct comparison *comparison)
{
	LIMPET_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	const void *build_id;
	ssize_t bytes;
	Elf *elf;

	if (fd < 0)
		return;
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	assert_non_null(elf);
	bytes = dwelf_elf_gnu_build_id(elf, &build_id);
	assert_int_equal(module->build_id_bytes, bytes < 0 ? 0 : bytes);
	if (bytes > 0)
		assert_memory_equal(module->build_id, build_id, (size_t)bytes);
	comparison->with_build_id += bytes > 0;
	elf_end(elf);
}

static int compare_entry(struct dl_phdr_info *info, size_t size, void *context)
{
	struct comparison *comparison = context;
	const struct limpet_module *module =
		with_phdr(comparison->modules, (uint64_t)(uintptr_t)info->dlpi_phdr);
	uint64_t low = UINT64_MAX, high = 0, text = 0;

	(void)size;
	if (!module)
		fail_msg("'%s' was not found", info->dlpi_name);
	assert_true(module->bias == info->dlpi_addr);
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + phdr->p_vaddr;

		switch (phdr->p_type) {
		case PT_LOAD:
			low = start < low ? start : low;
			high = start + phdr->p_memsz > high ? start + phdr->p_memsz : high;
			if (phdr->p_flags & PF_X)
				text = start;
			break;
		case PT_DYNAMIC:
			assert_int_equal(module->dynamic, start);
			assert_int_equal(module->dynamic_bytes, phdr->p_memsz);
			break;
		case PT_GNU_EH_FRAME:
			assert_int_equal(module->eh_frame_hdr, start);
			assert_int_equal(module->eh_frame_hdr_bytes, phdr->p_memsz);
			break;
		case PT_GNU_RELRO:
			assert_int_equal(module->relro_start, start);
			assert_int_equal(module->relro_end, start + phdr->p_memsz);
			break;
		default:
			break;
		}
	}
	assert_int_equal(module->start, low & ~4095ull);
	assert_true(module->end >= high && module->end - high < 65536);
	assert_in_range(text, module->text_start, module->text_end - 1);
	assert_true(module->in_list);
	assert_ptr_equal(limpet_modules_find(comparison->modules, text), module);
	if (info->dlpi_name[0] == '/')
		compare_build_id(info->dlpi_name, module, comparison);
	else if (!module->vdso)
		compare_build_id("/proc/self/exe", module, comparison);
	comparison->seen++;
	return 0;
}

static void compare_with_loader(pid_t pid)
{
	struct comparison comparison = {.seen = 0};
	struct limpet_modules modules;
	unsigned listed = 0, executables = 0, loaders = 0, vdsos = 0;

	assert_int_equal(limpet_modules_read(target_of(pid), &modules, NULL), 0);
	comparison.modules = &modules;
	dl_iterate_phdr(compare_entry, &comparison);
	assert_true(comparison.seen >= 4);
	assert_true(comparison.with_build_id >= 3);
	for (size_t i = 0; i < modules.count; i++) {
		const struct limpet_module *module = &modules.list[i];

		assert_true(!i || module->start >= modules.list[i - 1].end);
		assert_true(module->start < module->end);
		assert_false(module->agent);
		listed += module->in_list;
		executables += module->executable;
		loaders += module->loader;
		vdsos += module->vdso;
	}
	assert_int_equal(listed, comparison.seen);
	assert_int_equal(executables, 1);
	assert_int_equal(loaders, 1);
	assert_int_equal(vdsos, getauxval(AT_SYSINFO_EHDR) != 0);
	assert_null(limpet_modules_find(&modules, 0));
	assert_null(limpet_modules_find(&modules, UINT64_MAX));
	assert_null(limpet_modules_find(&modules, (uint64_t)(uintptr_t)&comparison));
	limpet_modules_done(&modules);
}

static void test_own_modules(void **state)
{
	(void)state;
	compare_with_loader(getpid());
}

static void test_modules_of_a_child(void **state)
{
	struct child child = start_child(stand_still, NULL);

	(void)state;
	compare_with_loader(child.pid);
	end_child(&child);
}

static void test_no_such_process(void **state)
{
	struct limpet_modules modules = {.target = target_of(77)};
	struct limpet_err err;
	pid_t pid = fork();

	(void)state;
	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(limpet_modules_read(target_of(pid), &modules, &err), -ESRCH);
	assert_int_equal(modules.target->pid, 77);
	assert_int_not_equal(err.message[0], 0);
}

/* ------------------------------------------------------------------ symbols and tables */

static void test_symbols(void **state)
{
	static const char *const names[] = {
		"malloc",         "calloc",       "realloc",       "free",   "posix_memalign",
		"aligned_alloc",  "mmap",         "munmap",        "mremap", "malloc_usable_size",
		"dlopen",         "dlclose",      "dlerror",       "dlsym",  "dl_iterate_phdr",
		"pthread_create", "pthread_exit", "fork",          "vfork",  "qsort",
		"environ",        "elf_begin",    "ZSTD_compress",
	};
	struct limpet_modules modules;
	unsigned found = 0;

	(void)state;
	assert_int_equal(limpet_modules_read(target_of(getpid()), &modules, NULL), 0);
	for (size_t i = 0; i < LIMPET_COUNT_OF(names); i++) {
		struct limpet_module *module = NULL;
		uint64_t address = limpet_modules_symbol(&modules, names[i], &module);

		assert_int_equal(address, (uintptr_t)dlsym(RTLD_DEFAULT, names[i]));
		if (!address)
			continue;
		found++;
		assert_ptr_equal(limpet_modules_find(&modules, address), module);
	}
	assert_true(found >= 20);
	assert_int_equal(limpet_modules_symbol(&modules, "no_such_function_anywhere", NULL), 0);
	assert_int_equal(limpet_modules_symbol(&modules, "", NULL), 0);
	assert_int_equal(limpet_modules_symbol(&modules, "mallo", NULL), 0);
	limpet_modules_done(&modules);
}

/* Sizes by section headers, which the injector does not see in memory. */
static void count_sections(const char *path, uint64_t *ret_symbols, uint64_t *ret_relocations)
{
	LIMPET_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf_Scn *section = NULL;
	Elf *elf;

	assert_true(fd >= 0);
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	assert_non_null(elf);
	*ret_symbols = *ret_relocations = 0;
	while ((section = elf_nextscn(elf, section)) != NULL) {
		GElf_Shdr head;

		assert_non_null(gelf_getshdr(section, &head));
		if (head.sh_type == SHT_DYNSYM)
			*ret_symbols = head.sh_size / head.sh_entsize;
		if (head.sh_type == SHT_RELA && head.sh_flags & SHF_ALLOC)
			*ret_relocations += head.sh_size / head.sh_entsize;
	}
	elf_end(elf);
}

static void test_tables_are_whole(void **state)
{
	struct limpet_modules modules;
	unsigned compared = 0;

	(void)state;
	assert_int_equal(limpet_modules_read(target_of(getpid()), &modules, NULL), 0);
	for (size_t i = 0; i < modules.count; i++) {
		struct limpet_module *module = &modules.list[i];
		struct limpet_slot_tables tables;
		uint64_t symbols, relocations;

		if (module->vdso ||
		    limpet_module_tables_read(target_of(getpid()), module, &tables) < 0)
			continue;
		count_sections(module->path, &symbols, &relocations);
		assert_int_equal(tables.symbol_count, symbols);
		assert_int_equal(tables.rela_count[0] + tables.rela_count[1], relocations);
		assert_int_equal(tables.strings[tables.string_bytes - 1], 0);
		limpet_module_tables_done(&tables);
		compared++;
	}
	assert_true(compared >= 4);
	limpet_modules_done(&modules);
}

/* What is mapped by no loader is in no list. */
static void test_modules_that_are_current(void **state)
{
	struct limpet_modules modules;
	uint64_t fingerprint;
	void *code, *data;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(limpet_modules_read(target_of(getpid()), &modules, NULL), 0);
	assert_int_equal(limpet_modules_fingerprint(modules.target, modules.r_debug, &fingerprint),
			 0);
	assert_true(limpet_modules_are_current(&modules, fingerprint));
	assert_false(limpet_modules_are_current(&modules, fingerprint + 1));
	data = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_true(data != MAP_FAILED);
	assert_true(limpet_modules_are_current(&modules, fingerprint));
	assert_non_null(limpet_proc_maps_find(&modules.maps, (uint64_t)(uintptr_t)data));
	code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_true(code != MAP_FAILED);
	assert_false(limpet_modules_are_current(&modules, fingerprint));
	assert_null(limpet_proc_maps_find(&modules.maps, (uint64_t)(uintptr_t)code));
	munmap(code, 4096);
	assert_true(limpet_modules_are_current(&modules, fingerprint));
	munmap(data, 4096);
	close(fd);
	limpet_modules_done(&modules);
}

static void test_fingerprint(void **state)
{
	static const char *const libraries[] = {"libresolv.so.2", "libutil.so.1", "libanl.so.1",
						"libnsl.so.1", "libBrokenLocale.so.1"};
	uint64_t before, opened, again, closed;
	struct limpet_modules modules;
	void *handle = NULL;

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(libraries) && !handle; i++) {
		if (dlopen(libraries[i], RTLD_NOW | RTLD_NOLOAD))
			continue;
		assert_int_equal(limpet_modules_read(target_of(getpid()), &modules, NULL), 0);
		assert_int_equal(
			limpet_modules_fingerprint(target_of(getpid()), modules.r_debug, &before),
			0);
		handle = dlopen(libraries[i], RTLD_NOW);
		if (!handle)
			limpet_modules_done(&modules);
	}
	assert_non_null(handle);
	assert_int_equal(limpet_modules_fingerprint(target_of(getpid()), modules.r_debug, &opened),
			 0);
	assert_int_equal(limpet_modules_fingerprint(target_of(getpid()), modules.r_debug, &again),
			 0);
	dlclose(handle);
	assert_int_equal(limpet_modules_fingerprint(target_of(getpid()), modules.r_debug, &closed),
			 0);
	assert_true(opened != before);
	assert_true(opened == again);
	assert_true(closed == before);
	assert_int_equal(limpet_modules_fingerprint(target_of(getpid()), 8, &closed), -EFAULT);
	limpet_modules_done(&modules);
}

/* ------------------------------------------------------------------ what is read of a target */

static struct {
	uint64_t calls, bytes, pieces;
} reads;

ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
				const struct iovec *remote, unsigned long remote_count,
				unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
				const struct iovec *remote, unsigned long remote_count,
				unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
				const struct iovec *remote, unsigned long remote_count,
				unsigned long flags)
{
	ssize_t got = __real_process_vm_readv(pid, local, local_count, remote, remote_count, flags);

	reads.calls++;
	reads.pieces += remote_count;
	reads.bytes += got > 0 ? (uint64_t)got : 0;
	return got;
}

/* Of all that is read, each of it once or a few times. */
#define LIE_READS 10000u
#define LIE_BYTES (4u << 20)
/* Of a table without an end, 64 MiB. */
#define CHAIN_READS 32768u
#define CHAIN_BYTES (256u << 20)

/* Since they were last set to 0. */
static void assert_few_reads(uint64_t calls, uint64_t bytes)
{
	if (reads.calls > calls || reads.bytes > bytes)
		fail_msg("%lu reads, of %lu bytes in all", (unsigned long)reads.calls,
			 (unsigned long)reads.bytes);
}

/* ------------------------------------------------------------------ a loader's list that lies */

/* All that is read of a target's modules. Must end, whatever the target says. */
static void read_everything(pid_t pid)
{
	struct limpet_modules modules;
	uint64_t fingerprint;

	if (limpet_modules_read(target_of(pid), &modules, NULL) < 0)
		return;
	if (modules.r_debug)
		limpet_modules_fingerprint(target_of(pid), modules.r_debug, &fingerprint);
	for (size_t i = 0; i < modules.count; i++) {
		struct limpet_module *module = &modules.list[i];
		struct limpet_slot_tables tables;

		limpet_modules_find(&modules, module->text_start);
		limpet_module_symbol(target_of(pid), module, "malloc", NULL);
		if (limpet_module_tables_read(target_of(pid), module, &tables) == 0)
			limpet_module_tables_done(&tables);
	}
	limpet_modules_symbol(&modules, "no_such_function_anywhere", NULL);
	limpet_modules_done(&modules);
}

enum lie { LIE_ROUND, LIE_SELF, LIE_NOWHERE, LIE_KERNEL, LIE_ADDRESSES };

static void lie_about_modules(int from, int to, void *context)
{
	enum lie lie = *(enum lie *)context;
	struct link_map *first = _r_debug.r_map, *last = first;

	while (last->l_next)
		last = last->l_next;
	switch (lie) {
	case LIE_ROUND:
		last->l_next = first;
		break;
	case LIE_SELF:
		last->l_next = last;
		break;
	case LIE_NOWHERE:
		first->l_next = (struct link_map *)0x1234;
		break;
	case LIE_KERNEL:
		first->l_next = (struct link_map *)(UINT64_MAX - 8);
		break;
	case LIE_ADDRESSES:
		for (last = first; last; last = last->l_next)
			last->l_addr = (ElfW(Addr))0xfffffffffffff000;
		break;
	}
	/* The loader is of no more use here: nothing but system calls. */
	say(to);
	hear(from);
}

static void test_lists_that_lie(void **state)
{
	(void)state;
	for (enum lie lie = LIE_ROUND; lie <= LIE_ADDRESSES; lie++) {
		struct child child = start_child(lie_about_modules, &lie);
		struct limpet_modules modules;
		int answer;

		memset(&reads, 0, sizeof(reads));
		read_everything(child.pid);
		answer = limpet_modules_read(target_of(child.pid), &modules, NULL);
		if (lie == LIE_ROUND || lie == LIE_SELF || lie == LIE_ADDRESSES)
			assert_int_equal(answer, 0);
		if (answer == 0)
			limpet_modules_done(&modules);
		assert_few_reads(LIE_READS, LIE_BYTES);
		end_child(&child);
	}
}

/* ------------------------------------------------------------------ an image that lies */

#define IMAGE_BYTES 65536u
#define DYNAMIC_AT 1024u
#define SYMBOLS_AT 4096u
#define STRINGS_AT 8192u
#define GNU_HASH_AT 12288u
#define RELOCATIONS_AT 16384u
#define NOTES_AT 20480u
#define LAST_HASH_AT 32768u /* nothing but zeroes behind it */
#define SYMBOLS 8u

struct image {
	Elf64_Ehdr head;
	Elf64_Phdr phdrs[6];
};

static struct {
	int fd;
	uint8_t *bytes; /* shared with the child, which maps it as code */
	struct image *image;
	Elf64_Dyn *dynamic;
	uint32_t *gnu_hash;
} lying;

static void set_phdr(unsigned index, uint32_t type, uint64_t at, uint64_t bytes)
{
	lying.image->phdrs[index] = (Elf64_Phdr){.p_type = type,
						 .p_flags = type == PT_LOAD ? PF_R | PF_X : PF_R,
						 .p_offset = at,
						 .p_vaddr = at,
						 .p_filesz = bytes,
						 .p_memsz = bytes,
						 .p_align = 4096};
}

/* A small library whose first defined symbol is malloc. */
static void make_image(void)
{
	static const char strings[] = "\0malloc\0free\0";
	static const uint8_t note[] = {4,    0,   0, 0,   4,   0,   0, 0,    NT_GNU_BUILD_ID,
				       0,    0,   0, 'G', 'N', 'U', 0, 0xaa, 0xbb,
				       0xcc, 0xdd};
	Elf64_Sym *symbols = (Elf64_Sym *)(void *)(lying.bytes + SYMBOLS_AT);
	Elf64_Rela *relocations = (Elf64_Rela *)(void *)(lying.bytes + RELOCATIONS_AT);
	const Elf64_Dyn dynamic[] = {
		{DT_SYMTAB, {SYMBOLS_AT}},
		{DT_STRTAB, {STRINGS_AT}},
		{DT_STRSZ, {sizeof(strings)}},
		{DT_GNU_HASH, {GNU_HASH_AT}},
		{DT_RELA, {RELOCATIONS_AT}},
		{DT_RELASZ, {2 * sizeof(Elf64_Rela)}},
		{DT_NULL, {0}},
	};

	memset(lying.bytes, 0, IMAGE_BYTES);
	lying.image->head = (Elf64_Ehdr){
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = offsetof(struct image, phdrs),
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 5,
	};
	set_phdr(0, PT_LOAD, 0, IMAGE_BYTES);
	set_phdr(1, PT_DYNAMIC, DYNAMIC_AT, sizeof(dynamic));
	set_phdr(2, PT_NOTE, NOTES_AT, sizeof(note));
	set_phdr(3, PT_GNU_RELRO, DYNAMIC_AT, 4096);
	set_phdr(4, PT_GNU_EH_FRAME, NOTES_AT, 16);
	memcpy(lying.dynamic, dynamic, sizeof(dynamic));
	memcpy(lying.bytes + STRINGS_AT, strings, sizeof(strings));
	memcpy(lying.bytes + NOTES_AT, note, sizeof(note));
	symbols[1] = (Elf64_Sym){.st_name = 1,
				 .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
				 .st_shndx = 1,
				 .st_value = 0x7000};
	for (uint32_t i = 2; i < SYMBOLS; i++)
		symbols[i] = (Elf64_Sym){.st_name = 8, .st_shndx = SHN_UNDEF};
	relocations[0] = (Elf64_Rela){0x8000, ELF64_R_INFO(1ull, R_X86_64_JUMP_SLOT), 0};
	relocations[1] = (Elf64_Rela){0x8008, ELF64_R_INFO(2ull, R_X86_64_GLOB_DAT), 0};
	/* One bucket; symbols from 1 on, the last of them marked as the chain's end. */
	lying.gnu_hash[0] = 1;
	lying.gnu_hash[1] = 1;
	lying.gnu_hash[2] = 1;
	lying.gnu_hash[6] = 1;
	lying.gnu_hash[7 + SYMBOLS - 2] = 1;
}

static void map_image(int from, int to, void *context)
{
	if (mmap(NULL, IMAGE_BYTES, PROT_READ | PROT_EXEC, MAP_SHARED, lying.fd, 0) == MAP_FAILED)
		_exit(1);
	(void)context;
	say(to);
	hear(from);
}

static int begin_lying(void **state)
{
	static struct child child;

	lying.fd = memfd_create("lying", MFD_CLOEXEC);
	assert_true(lying.fd >= 0);
	assert_int_equal(ftruncate(lying.fd, IMAGE_BYTES), 0);
	lying.bytes = mmap(NULL, IMAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, lying.fd, 0);
	assert_true(lying.bytes != MAP_FAILED);
	lying.image = (struct image *)(void *)lying.bytes;
	lying.dynamic = (Elf64_Dyn *)(void *)(lying.bytes + DYNAMIC_AT);
	lying.gnu_hash = (uint32_t *)(void *)(lying.bytes + GNU_HASH_AT);
	make_image();
	child = start_child(map_image, NULL);
	*state = &child;
	return 0;
}

static int end_lying(void **state)
{
	end_child(*state);
	munmap(lying.bytes, IMAGE_BYTES);
	close(lying.fd);
	return 0;
}

/* The image among the child's modules, or NULL. */
static struct limpet_module *find_lying(struct limpet_modules *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		if (strstr(modules->list[i].path, "memfd:lying"))
			return &modules->list[i];
	return NULL;
}

static void test_the_image_is_good_to_begin_with(void **state)
{
	const struct child *child = *state;
	struct limpet_slot_tables tables;
	struct limpet_modules modules;
	struct limpet_module *module;

	assert_int_equal(limpet_modules_read(target_of(child->pid), &modules, NULL), 0);
	module = find_lying(&modules);
	assert_non_null(module);
	assert_false(module->in_list);
	assert_int_equal(module->bias, module->start);
	assert_int_equal(module->end - module->start, IMAGE_BYTES);
	assert_int_equal(module->build_id_bytes, 4);
	assert_memory_equal(module->build_id, "\xaa\xbb\xcc\xdd", 4);
	assert_int_equal(limpet_module_symbol(target_of(child->pid), module, "malloc", NULL),
			 module->start + 0x7000);
	assert_int_equal(limpet_module_symbol(target_of(child->pid), module, "free", NULL), 0);
	assert_int_equal(limpet_module_tables_read(target_of(child->pid), module, &tables), 0);
	assert_int_equal(tables.symbol_count, SYMBOLS);
	assert_int_equal(tables.rela_count[0], 2);
	limpet_module_tables_done(&tables);
	limpet_modules_done(&modules);
}

/* No module, but no trouble either. */
static void assert_refused(pid_t pid)
{
	struct limpet_modules modules;

	assert_int_equal(limpet_modules_read(target_of(pid), &modules, NULL), 0);
	assert_null(find_lying(&modules));
	assert_true(modules.count >= 4);
	limpet_modules_done(&modules);
}

static void test_heads_that_lie(void **state)
{
	const struct child *child = *state;
	Elf64_Ehdr *head = &lying.image->head;

#define LIE(what)                           \
	do {                                \
		make_image();               \
		what;                       \
		assert_refused(child->pid); \
	} while (0)
	LIE(head->e_ident[EI_MAG0] = 0);
	LIE(head->e_ident[EI_CLASS] = ELFCLASS32);
	LIE(head->e_machine = EM_AARCH64);
	LIE(head->e_type = ET_CORE);
	LIE(head->e_phentsize = 32);
	LIE(head->e_phnum = 0);
	LIE(head->e_phnum = 0xffff);
	LIE(head->e_phoff = UINT64_MAX);
	LIE(head->e_phoff = IMAGE_BYTES - 8);
	LIE(lying.image->phdrs[0].p_type = PT_NULL);
	LIE(lying.image->phdrs[0].p_flags = PF_R);
	LIE(lying.image->phdrs[0].p_memsz = UINT64_MAX);
	LIE(lying.image->phdrs[0].p_memsz = 1ull << 62);
#undef LIE
	make_image();
}

/* Still a module, with less in it. */
static void assert_bounded(pid_t pid)
{
	struct limpet_modules modules;
	struct limpet_module *module;
	struct limpet_slot_tables tables;

	assert_int_equal(limpet_modules_read(target_of(pid), &modules, NULL), 0);
	module = find_lying(&modules);
	if (module) {
		assert_true(module->build_id_bytes <= LIMPET_BUILD_ID_MAX);
		limpet_module_symbol(target_of(pid), module, "malloc", NULL);
		if (limpet_module_tables_read(target_of(pid), module, &tables) == 0) {
			assert_true(tables.symbol_count * sizeof(Elf64_Sym) <= IMAGE_BYTES);
			assert_true(tables.string_bytes <= IMAGE_BYTES);
			assert_true((tables.rela_count[0] + tables.rela_count[1]) *
					    sizeof(Elf64_Rela) <=
				    2 * IMAGE_BYTES);
			limpet_module_tables_done(&tables);
		}
	}
	limpet_modules_done(&modules);
	read_everything(pid);
}

static void test_tables_that_lie(void **state)
{
	static const uint64_t values[] = {
		0,           1,          4,          7,          0xfff,      IMAGE_BYTES - 1,
		IMAGE_BYTES, 1ull << 20, UINT32_MAX, 1ull << 40, 1ull << 63, UINT64_MAX - 7,
		UINT64_MAX};
	const struct child *child = *state;

	for (size_t v = 0; v < LIMPET_COUNT_OF(values); v++) {
		uint64_t value = values[v];

		for (unsigned i = 0; i < 7; i++) {
			make_image();
			lying.dynamic[i].d_un.d_val = value;
			assert_bounded(child->pid);
		}
		for (unsigned i = 1; i < 5; i++) {
			make_image();
			lying.image->phdrs[i].p_vaddr = value;
			assert_bounded(child->pid);
			make_image();
			lying.image->phdrs[i].p_memsz = value;
			assert_bounded(child->pid);
		}
		for (unsigned i = 0; i < 7; i++) {
			make_image();
			lying.gnu_hash[i] = (uint32_t)value;
			assert_bounded(child->pid);
		}
		make_image();
		for (unsigned i = 0; i < 3; i++)
			((uint32_t *)(void *)(lying.bytes + NOTES_AT))[i] = (uint32_t)value;
		assert_bounded(child->pid);
		make_image();
		((Elf64_Rela *)(void *)(lying.bytes + RELOCATIONS_AT))->r_info =
			ELF64_R_INFO(value, R_X86_64_GLOB_DAT);
		assert_bounded(child->pid);
	}
	make_image();
}

/* Whose slots are unknown: that is told from a module that has none. */
static void test_relocations_that_are_not_read(void **state)
{
	static const struct {
		Elf64_Dyn dynamic;
		int error;
	} lies[] = {
		{{DT_RELASZ, {IMAGE_BYTES + sizeof(Elf64_Rela)}}, -EFBIG},
		{{DT_RELSZ, {sizeof(Elf64_Rel)}}, -EOPNOTSUPP},
		{{DT_PLTREL, {DT_REL}}, -EOPNOTSUPP},
		{{DT_PLTREL, {DT_RELA}}, 0},
		{{DT_PLTRELSZ, {sizeof(Elf64_Rela)}}, -EFBIG}, /* of no table */
	};
	const struct child *child = *state;

	for (size_t i = 0; i < LIMPET_COUNT_OF(lies); i++) {
		struct limpet_slot_tables tables;
		struct limpet_modules modules;
		struct limpet_module *module;

		make_image();
		lying.dynamic[lies[i].dynamic.d_tag == DT_RELASZ ? 5 : 3] = lies[i].dynamic;
		assert_int_equal(limpet_modules_read(target_of(child->pid), &modules, NULL), 0);
		module = find_lying(&modules);
		assert_non_null(module);
		assert_int_equal(limpet_module_tables_read(target_of(child->pid), module, &tables),
				 lies[i].error);
		if (!lies[i].error)
			limpet_module_tables_done(&tables);
		limpet_modules_done(&modules);
	}
	make_image();
}

static void test_images_of_noise(void **state)
{
	const struct child *child = *state;
	uint64_t random = 88172645463325252ull;

	for (int round = 0; round < 300; round++) {
		make_image();
		for (int k = 0; k < 1 + round % 8; k++) {
			uint32_t at;

			random = random * 6364136223846793005ull + 1442695040888963407ull;
			at = (uint32_t)(random >> 40) % (round % 2 ? 2048 : 24576);
			lying.bytes[at] = (uint8_t)(random >> 32);
		}
		assert_bounded(child->pid);
	}
	make_image();
}

/* ------------------------------------------------------------------ a page that is mapped twice */

#define PAGE 4096u
#define COPY_PAGES 16u
#define COPIES 4u

/* As small programs and plugins are linked by lld and mold: headers and code share a page of the
 * file, and so do code and data. */
static void make_compact(void)
{
	const Elf64_Phdr loads[] = {
		{.p_flags = PF_R, .p_offset = 0, .p_vaddr = 0, .p_filesz = 0xdd4},
		{.p_flags = PF_R | PF_X, .p_offset = 0xde0, .p_vaddr = 0x1de0, .p_filesz = 0x4600},
		{.p_flags = PF_R | PF_W, .p_offset = 0x53e0, .p_vaddr = 0x73e0, .p_filesz = 0x1f0},
	};

	for (size_t i = 0; i < LIMPET_COUNT_OF(loads); i++) {
		lying.image->phdrs[i] = loads[i];
		lying.image->phdrs[i].p_type = PT_LOAD;
		lying.image->phdrs[i].p_memsz = loads[i].p_filesz;
		lying.image->phdrs[i].p_align = PAGE;
	}
	lying.image->head.e_phnum = LIMPET_COUNT_OF(loads);
}

static void map_pages(uint8_t *copy, unsigned first, unsigned pages, int protection, unsigned from)
{
	if (mmap(copy + first * PAGE, pages * PAGE, protection, MAP_PRIVATE | MAP_FIXED, lying.fd,
		 from * PAGE) == MAP_FAILED)
		_exit(1);
}

static void map_compact(uint8_t *copy)
{
	map_pages(copy, 0, 1, PROT_READ, 0);
	map_pages(copy, 1, 6, PROT_READ | PROT_EXEC, 0);
	map_pages(copy, 7, 1, PROT_READ | PROT_WRITE, 5);
}

/* Loaded twice, as by dlmopen; once with the rest of its code in other memory; and once all of the
 * file by the program itself, where no program header is right. */
static void map_copies(int from, int to, void *context)
{
	uint8_t *copies = context;

	for (unsigned i = 0; i + 1 < COPIES; i++)
		map_compact(copies + i * COPY_PAGES * PAGE);
	if (mmap(copies + (2 * COPY_PAGES + 2) * PAGE, 5 * PAGE, PROT_READ | PROT_EXEC,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		_exit(1);
	map_pages(copies + 3 * COPY_PAGES * PAGE, 0, COPY_PAGES, PROT_READ | PROT_EXEC, 0);
	say(to);
	hear(from);
}

static void assert_copies(const struct limpet_modules *modules, const uint8_t *copies)
{
	unsigned seen = 0;

	for (size_t i = 0; i < modules->count; i++) {
		const struct limpet_module *module = &modules->list[i];
		const uint64_t start = (uint64_t)(uintptr_t)copies + seen * COPY_PAGES * PAGE;

		if (!strstr(module->path, "memfd:lying"))
			continue;
		assert_int_equal(module->start, start);
		assert_int_equal(module->bias, start);
		assert_int_equal(module->text_start, start + 0x1de0);
		assert_ptr_equal(limpet_modules_find(modules, start + 5 * PAGE), module);
		seen++;
	}
	assert_int_equal(seen, COPIES - 1);
}

static void test_a_page_of_headers_and_code(void **state)
{
	uint8_t *copies = mmap(NULL, COPIES * COPY_PAGES * PAGE, PROT_NONE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct limpet_modules modules;
	struct child child;

	(void)state;
	assert_true(copies != MAP_FAILED);
	make_compact();
	child = start_child(map_copies, copies);
	assert_int_equal(limpet_modules_read(target_of(child.pid), &modules, NULL), 0);
	assert_copies(&modules, copies);
	limpet_modules_done(&modules);
	assert_int_equal(limpet_modules_of_files(target_of(child.pid), &modules), 0);
	assert_copies(&modules, copies);
	limpet_modules_done(&modules);
	end_child(&child);
	munmap(copies, COPIES * COPY_PAGES * PAGE);
}

/* ------------------------------------------------------------------ a table without an end */

#define HUGE_BYTES (1ull << 38)

static void map_huge(int from, int to, void *context)
{
	(void)context;
	if (mmap(NULL, HUGE_BYTES, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_NORESERVE, lying.fd,
		 0) == MAP_FAILED)
		_exit(1);
	say(to);
	hear(from);
}

/* A quarter of a terabyte of zeroes, all of it there to be read, and the hash chain goes on through
 * all of it. */
static void test_a_hash_chain_without_end(void **state)
{
	struct limpet_modules modules;
	struct limpet_module *module;
	struct child child;

	(void)state;
	lying.fd = memfd_create("lying", MFD_CLOEXEC);
	assert_true(lying.fd >= 0);
	assert_int_equal(ftruncate(lying.fd, (off_t)HUGE_BYTES), 0);
	lying.bytes = mmap(NULL, IMAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, lying.fd, 0);
	assert_true(lying.bytes != MAP_FAILED);
	lying.image = (struct image *)(void *)lying.bytes;
	lying.dynamic = (Elf64_Dyn *)(void *)(lying.bytes + DYNAMIC_AT);
	lying.gnu_hash = (uint32_t *)(void *)(lying.bytes + LAST_HASH_AT);
	make_image();
	lying.image->phdrs[0].p_memsz = lying.image->phdrs[0].p_filesz = HUGE_BYTES;
	lying.dynamic[3].d_un.d_ptr = LAST_HASH_AT;
	lying.gnu_hash[7 + SYMBOLS - 2] = 0;
	child = start_child(map_huge, NULL);
	memset(&reads, 0, sizeof(reads));
	assert_int_equal(limpet_modules_read(target_of(child.pid), &modules, NULL), 0);
	module = find_lying(&modules);
	assert_non_null(module);
	limpet_module_symbol(target_of(child.pid), module, "malloc", NULL);
	limpet_modules_done(&modules);
	assert_few_reads(CHAIN_READS, CHAIN_BYTES);
	end_child(&child);
	munmap(lying.bytes, IMAGE_BYTES);
	close(lying.fd);
}

/* ------------------------------------------------------------------ the loader's locks */

struct ends {
	int from, to;
};

static int hold_lock(struct dl_phdr_info *info, size_t bytes, void *context)
{
	const struct ends *ends = context;

	(void)info;
	(void)bytes;
	say(ends->to);
	hear(ends->from);
	return 1;
}

/* Whose callback runs under the second of them; then free; then held again. */
static void hold_and_let_go(int from, int to, void *context)
{
	struct ends ends = {from, to};

	(void)context;
	dl_iterate_phdr(hold_lock, &ends);
	say(to);
	hear(from);
	dl_iterate_phdr(hold_lock, &ends);
}

static void test_loader_lock(void **state)
{
	struct child child = start_child(hold_and_let_go, NULL);
	struct limpet_modules modules;
	uint64_t held, released;

	(void)state;
	assert_int_equal(limpet_modules_read(target_of(child.pid), &modules, NULL), 0);
	held = limpet_loader_lock_find(&modules);
	assert_true(held);
	assert_true(limpet_loader_lock_is_held(child.pid, held, true));
	assert_false(limpet_loader_lock_is_held(child.pid, held, false)); /* it is the second */
	say(child.to);
	hear(child.from);
	released = limpet_loader_lock_find(&modules);
	assert_true(released == held);
	assert_false(limpet_loader_lock_is_held(child.pid, released, true));
	say(child.to);
	hear(child.from);
	assert_true(limpet_loader_lock_is_held(child.pid, released, true));
	assert_false(limpet_loader_lock_is_held(child.pid, 0, true));
	limpet_modules_done(&modules);
	end_child(&child);
}

/* The word is there while a message waits, and then no more. Older libcs keep it elsewhere. */
static void test_loader_error(void **state)
{
	struct limpet_modules modules;
	const uint64_t *word;
	int64_t offset;
	char *self;

	(void)state;
	assert_int_equal(limpet_modules_read(target_of(getpid()), &modules, NULL), 0);
	offset = limpet_loader_error_find(&modules);
	limpet_modules_done(&modules);
	if (!__GLIBC_PREREQ(2, 34)) {
		assert_int_equal(offset, 0);
		return;
	}
	assert_true(offset < 0);
	__asm__("mov %%fs:0, %0" : "=r"(self));
	word = (const uint64_t *)(const void *)(self + offset);
	assert_int_equal(*(const volatile uint64_t *)word, 0);
	assert_null(dlopen("/no-such-module.so", RTLD_NOW));
	assert_int_not_equal(*(const volatile uint64_t *)word, 0);
	assert_non_null(dlerror());
	assert_null(dlerror());
	assert_int_equal(*(const volatile uint64_t *)word, 0);
}

/* For each piece the kernel takes the lock of the memory, for which busy threads wait, too. */
static void test_memory_is_read_in_few_pieces(void **state)
{
	const size_t page = 4096, bytes = 256 * page, hole = 100 * page;
	uint8_t *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *copy = malloc(bytes);

	(void)state;
	assert_true(memory != MAP_FAILED && copy);
	memset(memory, 0x5a, bytes);
	memset(&reads, 0, sizeof(reads));
	assert_int_equal(
		limpet_memory_read_some(getpid(), (uint64_t)(uintptr_t)memory + 8, copy, bytes - 8),
		bytes - 8);
	assert_int_equal(reads.pieces, 1);
	assert_memory_equal(copy, memory, bytes - 8);
	/* Up to what is not there. */
	assert_int_equal(munmap(memory + hole, page), 0);
	memset(copy, 0, bytes);
	assert_int_equal(
		limpet_memory_read_some(getpid(), (uint64_t)(uintptr_t)memory + 8, copy, bytes - 8),
		hole - 8);
	assert_memory_equal(copy, memory, hole - 8);
	assert_int_equal(
		limpet_memory_read_some(getpid(), (uint64_t)(uintptr_t)memory + hole, copy, page),
		-EFAULT);
	free(copy);
	munmap(memory, bytes);
}

/* As limpet maps it: x86-64 reads it, process_vm_readv(2) does not. */
static void test_memory_of_ours(void **state)
{
	const size_t page = 4096;
	uint8_t *memory = mmap(NULL, 4 * page, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const uint64_t at = (uint64_t)(uintptr_t)memory;
	uint8_t copy[4 * 4096];

	(void)state;
	assert_true(memory != MAP_FAILED);
	memset(memory, 0x5a, 3 * page);
	assert_int_equal(mprotect(memory + page, page, PROT_EXEC), 0);
	assert_int_equal(munmap(memory + 3 * page, page), 0);
	assert_true(limpet_memory_is_forced());
	assert_int_equal(limpet_memory_read(getpid(), at, copy, 2 * page), -EFAULT);
	assert_int_equal(limpet_memory_read_own(getpid(), at + 8, copy, 3 * page - 8), 0);
	assert_int_equal(copy[0], 0x5a);
	assert_memory_equal(copy, copy + 1, 3 * page - 9);
	/* Up to what is not there. */
	assert_int_equal(limpet_memory_read_own(getpid(), at, copy, sizeof(copy)), -EFAULT);
	assert_int_equal(limpet_memory_read_own_some(getpid(), at, copy, sizeof(copy)), 3 * page);
	assert_int_equal(limpet_memory_read_own_some(getpid(), at + 3 * page, copy, page), -EFAULT);
	munmap(memory, 3 * page);
}

/* ------------------------------------------------------------------ an agent that is there */

static struct limpet_agent_info *load_agent(void **ret_handle)
{
	const struct limpet_agent_image *image;
	char path[64];
	int fd = memfd_create(LIMPET_MEMFD_AGENT, MFD_CLOEXEC);

	assert_int_equal(limpet_agent_image_get(&image), 0);
	assert_true(fd >= 0 && write(fd, image->bytes, image->size) == (ssize_t)image->size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	*ret_handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!*ret_handle)
		fail_msg("%s", dlerror());
	close(fd);
	return dlsym(*ret_handle, "limpet_agent_info");
}

static void set_value(uint64_t address, uint64_t value)
{
	uint64_t page = address & ~UINT64_C(4095);

	assert_int_equal(mprotect((void *)(uintptr_t)page, 4096, PROT_READ | PROT_WRITE), 0);
	*(uint64_t *)(uintptr_t)address = value;
	assert_int_equal(mprotect((void *)(uintptr_t)page, 4096, PROT_READ), 0);
}

static void note_place(uint64_t address, void *context)
{
	*(uint64_t *)context = address;
}

/* Where the symbol leads to a thunk, limpet reads what the hook stands for: that is where no thread
 * may be hijacked, and what a hook is made of. */
static void test_values_that_lead_to_an_agent(void **state)
{
	struct limpet_modules modules;
	struct limpet_module *libc = NULL;
	struct limpet_agent_info *info;
	uint64_t original, place = 0, bias;
	void *handle;

	(void)state;
	assert_int_equal(limpet_modules_read(target_of(getpid()), &modules, NULL), 0);
	original = limpet_modules_symbol(&modules, "posix_memalign", &libc);
	assert_non_null(libc);
	bias = libc->bias;
	limpet_module_names_of(target_of(getpid()), libc, original, LIMPET_OP_POSIX_MEMALIGN,
			       note_place, &place);
	assert_int_equal(*(uint64_t *)(uintptr_t)place, original - bias);
	limpet_modules_done(&modules);
	info = load_agent(&handle);
	assert_non_null(info);
	info->thunks = 0x7a5b1c20f000;
	((struct limpet_hook *)(uintptr_t)info->hooks)[5].original = original;
	set_value(place, info->thunks + 5 * info->thunk_bytes - bias);
	assert_int_equal(limpet_modules_read(target_of(getpid()), &modules, NULL), 0);
	assert_int_equal(limpet_modules_symbol(&modules, "posix_memalign", NULL), original);
	limpet_modules_done(&modules);
	/* Of a hook that is none nothing is known. */
	set_value(place, info->thunks + 6 * info->thunk_bytes - bias);
	assert_int_equal(limpet_modules_read(target_of(getpid()), &modules, NULL), 0);
	assert_int_equal(limpet_modules_symbol(&modules, "posix_memalign", NULL),
			 info->thunks + 6 * info->thunk_bytes);
	limpet_modules_done(&modules);
	set_value(place, original - bias);
	dlclose(handle);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_modules),
		cmocka_unit_test(test_modules_of_a_child),
		cmocka_unit_test(test_no_such_process),
		cmocka_unit_test(test_symbols),
		cmocka_unit_test(test_tables_are_whole),
		cmocka_unit_test(test_modules_that_are_current),
		cmocka_unit_test(test_fingerprint),
		cmocka_unit_test(test_lists_that_lie),
		cmocka_unit_test_setup_teardown(test_the_image_is_good_to_begin_with, begin_lying,
						end_lying),
		cmocka_unit_test_setup_teardown(test_heads_that_lie, begin_lying, end_lying),
		cmocka_unit_test_setup_teardown(test_tables_that_lie, begin_lying, end_lying),
		cmocka_unit_test_setup_teardown(test_relocations_that_are_not_read, begin_lying,
						end_lying),
		cmocka_unit_test_setup_teardown(test_images_of_noise, begin_lying, end_lying),
		cmocka_unit_test_setup_teardown(test_a_page_of_headers_and_code, begin_lying,
						end_lying),
		cmocka_unit_test(test_a_hash_chain_without_end),
		cmocka_unit_test(test_loader_lock),
		cmocka_unit_test(test_loader_error),
		cmocka_unit_test(test_memory_is_read_in_few_pieces),
		cmocka_unit_test(test_memory_of_ours),
		cmocka_unit_test(test_values_that_lead_to_an_agent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
