#include "injector/elf/elf_file.h"

#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file_io.h"

/* rustc with all its symbols has 60 MiB of names; this allows ten times a large program. */
#define NAMES_LIMIT_BYTES ((uint64_t)512 << 20)
#define SYMBOLS_LIMIT_BYTES ((uint64_t)256 << 20)
/* Limit of all tables together: a file may refer to the same table thousands of times. */
#define BUDGET_BYTES ((uint64_t)2 << 30)
#define SEARCH_LIMIT_BYTES ((uint64_t)256 << 20)
#define SEARCH_WINDOW_BYTES ((size_t)1 << 20)
#define SEARCH_CONTEXT_BYTES 64

struct limpet_elf_file {
	int fd;
	uint64_t bytes;
	uint64_t budget;
	ElfW(Ehdr) head;
	bool native;
	char *interpreter;
	ElfW(Shdr) * sections;
	unsigned section_count;
	char *names; /* of the sections, followed by a NUL */
	uint64_t names_bytes;
};

static int read_at(const struct limpet_elf_file *file, void *ret, size_t bytes, uint64_t offset)
{
	ssize_t got;

	if (offset > file->bytes || bytes > file->bytes - offset)
		return -EBADMSG;
	got = limpet_pread(file->fd, ret, bytes, offset);
	if (got < 0)
		return (int)got;
	return (size_t)got < bytes ? -EBADMSG : 0; /* the file has shrunk */
}

/* Reads a part of the file into malloc'ed memory, followed by a NUL. */
static int read_part(struct limpet_elf_file *file, uint64_t offset, uint64_t bytes, uint64_t limit,
		     char **ret)
{
	LIMPET_FREE char *part = NULL;
	int r;

	if (offset > file->bytes || bytes > file->bytes - offset)
		return -EBADMSG;
	if (bytes > limit || bytes > file->budget)
		return -EFBIG;
	file->budget -= bytes;
	part = malloc(bytes + 1);
	if (!part)
		return -ENOMEM;
	r = read_at(file, part, bytes, offset);
	if (r < 0)
		return r;
	part[bytes] = '\0';
	*ret = LIMPET_TAKE(part);
	return 0;
}

/* Our own executable defines what "native" is, so that no processor is named here. */
static bool is_native(const ElfW(Ehdr) * head)
{
	LIMPET_CLOSE int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ElfW(Ehdr) mine;

	if (fd < 0 || pread(fd, &mine, sizeof(mine), 0) != (ssize_t)sizeof(mine))
		/* at compile time nothing else is known */
		return head->e_ident[EI_CLASS] == (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32);
	return head->e_ident[EI_CLASS] == mine.e_ident[EI_CLASS] &&
	       head->e_ident[EI_DATA] == mine.e_ident[EI_DATA] && head->e_machine == mine.e_machine;
}

static int read_segment(const struct limpet_elf_file *file, unsigned i, ElfW(Phdr) * ret)
{
	return read_at(file, ret, sizeof(*ret), file->head.e_phoff + (uint64_t)i * sizeof(*ret));
}

static int read_interpreter(struct limpet_elf_file *file)
{
	for (unsigned i = 0; i < file->head.e_phnum; i++) {
		ElfW(Phdr) segment;
		int r;

		r = read_segment(file, i, &segment);
		if (r < 0)
			return r;
		if (segment.p_type == PT_INTERP)
			return read_part(file, segment.p_offset, segment.p_filesz, PATH_MAX,
					 &file->interpreter);
	}
	return 0;
}

static int read_sections(struct limpet_elf_file *file)
{
	const ElfW(Shdr) * names;
	char *list;
	int r;

	/* no sections (a packed program), or more than 65,279 (then the count is elsewhere):
	 * treated like a stripped program */
	if (!file->head.e_shoff || !file->head.e_shnum ||
	    file->head.e_shstrndx >= file->head.e_shnum)
		return 0;
	if (file->head.e_shentsize != sizeof(ElfW(Shdr)))
		return -EBADMSG;
	r = read_part(file, file->head.e_shoff, (uint64_t)file->head.e_shnum * sizeof(ElfW(Shdr)),
		      SYMBOLS_LIMIT_BYTES, &list);
	if (r < 0)
		return r;
	file->sections = (ElfW(Shdr) *)(void *)list;
	file->section_count = file->head.e_shnum;
	names = &file->sections[file->head.e_shstrndx];
	file->names_bytes = names->sh_size;
	return read_part(file, names->sh_offset, names->sh_size, NAMES_LIMIT_BYTES, &file->names);
}

int limpet_elf_file_open(int fd, struct limpet_elf_file **ret_file)
{
	struct limpet_elf_file *file = calloc(1, sizeof(*file));
	struct stat st;
	int r = -ENOEXEC;

	if (!file)
		return -ENOMEM;
	file->fd = fd;
	file->budget = BUDGET_BYTES;
	if (fstat(fd, &st)) {
		r = -errno;
		goto fail;
	}
	file->bytes = st.st_size > 0 ? (uint64_t)st.st_size : 0;
	if (read_at(file, file->head.e_ident, EI_NIDENT, 0) < 0 ||
	    memcmp(file->head.e_ident, ELFMAG, SELFMAG))
		goto fail;
	/* e_machine is at the same offset in both classes */
	r = read_at(file, &file->head.e_machine, sizeof(file->head.e_machine),
		    offsetof(ElfW(Ehdr), e_machine));
	if (r < 0)
		goto fail;
	file->native = is_native(&file->head);
	if (file->native) {
		r = read_at(file, &file->head, sizeof(file->head), 0);
		if (r < 0)
			goto fail;
		r = -EBADMSG;
		if (file->head.e_phnum && file->head.e_phentsize != sizeof(ElfW(Phdr)))
			goto fail;
		r = read_interpreter(file);
		if (r < 0)
			goto fail;
		r = read_sections(file);
		/* a program with a broken section table runs: only tools read it */
		if (r < 0 && r != -ENOMEM) {
			free(file->sections);
			file->sections = NULL;
			file->section_count = 0;
			r = 0;
		}
		if (r < 0)
			goto fail;
	}
	*ret_file = file;
	return 0;
fail:
	limpet_elf_file_free(file);
	return r;
}

void limpet_elf_file_free(struct limpet_elf_file *file)
{
	if (!file)
		return;
	free(file->interpreter);
	free(file->sections);
	free(file->names);
	free(file);
}

bool limpet_elf_file_is_native(const struct limpet_elf_file *file)
{
	return file->native;
}

unsigned limpet_elf_file_bits(const struct limpet_elf_file *file)
{
	return file->head.e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32;
}

const char *limpet_elf_file_interpreter(const struct limpet_elf_file *file)
{
	return file->interpreter;
}

int limpet_elf_file_segments(const struct limpet_elf_file *file, struct limpet_elf_segment *ret,
			     unsigned max)
{
	unsigned count = 0;

	if (!file->native)
		return 0;
	while (count < file->head.e_phnum && count < max) {
		ElfW(Phdr) segment;
		int error = read_segment(file, count, &segment);

		if (error)
			return error;
		ret[count++] = (struct limpet_elf_segment){segment.p_type, segment.p_flags,
							   segment.p_vaddr, segment.p_offset,
							   segment.p_filesz};
	}
	return (int)count;
}

int limpet_elf_file_read(const struct limpet_elf_file *file, uint64_t offset, void *ret,
			 size_t bytes)
{
	return read_at(file, ret, bytes, offset);
}

static const ElfW(Shdr) * find_section(const struct limpet_elf_file *file, const char *name)
{
	for (unsigned i = 0; i < file->section_count; i++)
		if (file->sections[i].sh_name < file->names_bytes &&
		    !strcmp(file->names + file->sections[i].sh_name, name))
			return &file->sections[i];
	return NULL;
}

bool limpet_elf_file_has_section(const struct limpet_elf_file *file, const char *name)
{
	return find_section(file, name) != NULL;
}

bool limpet_elf_file_loaded_section(const struct limpet_elf_file *file, const char *name,
				    uint64_t *ret_address, uint64_t *ret_bytes)
{
	const ElfW(Shdr) *section = find_section(file, name);

	if (!section || section->sh_type == SHT_NOBITS || !(section->sh_flags & SHF_ALLOC))
		return false;
	*ret_address = section->sh_addr;
	*ret_bytes = section->sh_size;
	return true;
}

bool limpet_elf_file_has_symtab(const struct limpet_elf_file *file)
{
	for (unsigned i = 0; i < file->section_count; i++)
		if (file->sections[i].sh_type == SHT_SYMTAB)
			return true;
	return false;
}

struct visitor {
	bool (*name)(void *context, const char *name);
	bool (*function)(void *context, const struct limpet_elf_function *function);
	bool (*object)(void *context, const char *name, uint64_t value);
	void *context;
};

static bool visit_symbol(const struct visitor *visitor, const char *name, const ElfW(Sym) * symbol)
{
	/* ELF32_ST_TYPE and ELF64_ST_TYPE are the same */
	unsigned type = ELF64_ST_TYPE(symbol->st_info), binding = ELF64_ST_BIND(symbol->st_info);
	struct limpet_elf_function function = {
		.name = name,
		.value = symbol->st_value,
		.bytes = symbol->st_size,
		.local = binding == STB_LOCAL,
		.weak = binding == STB_WEAK,
	};

	if (visitor->function)
		return type != STT_FUNC || visitor->function(visitor->context, &function);
	if (visitor->object)
		return type != STT_OBJECT ||
		       visitor->object(visitor->context, name, symbol->st_value);
	assert(visitor->name);
	return (type != STT_FUNC && type != STT_OBJECT && type != STT_GNU_IFUNC) ||
	       visitor->name(visitor->context, name);
}

static int visit_table(struct limpet_elf_file *file, const ElfW(Shdr) * table,
		       const struct visitor *visitor, bool *ret_more)
{
	LIMPET_FREE char *text = NULL;
	LIMPET_FREE char *names = NULL;
	const ElfW(Shdr) * strings;
	const ElfW(Sym) * symbols;
	uint64_t count;
	int r;

	if (table->sh_link >= file->section_count || table->sh_entsize != sizeof(ElfW(Sym)))
		return -EBADMSG;
	strings = &file->sections[table->sh_link];
	r = read_part(file, table->sh_offset, table->sh_size, SYMBOLS_LIMIT_BYTES, &text);
	if (r < 0)
		return r;
	r = read_part(file, strings->sh_offset, strings->sh_size, NAMES_LIMIT_BYTES, &names);
	if (r < 0)
		return r;
	symbols = (const ElfW(Sym) *)(const void *)text;
	count = table->sh_size / sizeof(*symbols);
	for (uint64_t i = 0; i < count && *ret_more; i++)
		if (symbols[i].st_shndx != SHN_UNDEF && symbols[i].st_name < strings->sh_size)
			*ret_more = visit_symbol(visitor, names + symbols[i].st_name, &symbols[i]);
	return 0;
}

static int visit_tables(struct limpet_elf_file *file, const struct visitor *visitor)
{
	bool more = true;
	int first = 0;

	for (unsigned i = 0; i < file->section_count && more; i++) {
		int r = 0;

		if (file->sections[i].sh_type == SHT_SYMTAB ||
		    file->sections[i].sh_type == SHT_DYNSYM)
			r = visit_table(file, &file->sections[i], visitor, &more);
		if (r < 0 && !first)
			first = r;
	}
	return first;
}

int limpet_elf_file_symbols(struct limpet_elf_file *file,
			    bool (*visit)(void *context, const char *name), void *context)
{
	const struct visitor visitor = {.name = visit, .context = context};

	return visit_tables(file, &visitor);
}

int limpet_elf_file_functions(struct limpet_elf_file *file,
			      bool (*visit)(void *context,
					    const struct limpet_elf_function *function),
			      void *context)
{
	const struct visitor visitor = {.function = visit, .context = context};

	return visit_tables(file, &visitor);
}

int limpet_elf_file_objects(struct limpet_elf_file *file,
			    bool (*visit)(void *context, const char *name, uint64_t value),
			    void *context)
{
	const struct visitor visitor = {.object = visit, .context = context};

	return visit_tables(file, &visitor);
}

struct searching {
	const struct limpet_elf_file *file;
	const char *needle;
	bool (*visit)(void *context, const char *at, size_t before, size_t after);
	void *context;
	char *window;
	bool ended; /* `visit` has returned false */
};

static int search_range(struct searching *searching, uint64_t offset, uint64_t left)
{
	const size_t length = strlen(searching->needle);
	char *window = searching->window;
	size_t used = 0, searched = 0;

	/* [0, searched) was searched and is context only, [searched, used) is new */
	while (left) {
		size_t part = SEARCH_WINDOW_BYTES - used, until, drop;
		char *at;
		int r;

		if (part > left)
			part = (size_t)left;
		r = read_at(searching->file, window + used, part, offset);
		if (r < 0)
			return r;
		used += part;
		offset += part;
		left -= part;
		/* a match at the very end needs the bytes that follow it */
		until = left ? used - SEARCH_CONTEXT_BYTES : used;
		while ((at = memmem(window + searched, used - searched, searching->needle,
				    length)) &&
		       at < window + until) {
			searching->ended =
				!searching->visit(searching->context, at, (size_t)(at - window),
						  used - (size_t)(at - window));
			if (searching->ended)
				return 0;
			searched = (size_t)(at - window) + 1;
		}
		drop = until > SEARCH_CONTEXT_BYTES ? until - SEARCH_CONTEXT_BYTES : 0;
		memmove(window, window + drop, used - drop);
		used -= drop;
		searched = until - drop;
	}
	return 0;
}

/* Without sections: what is mapped, and not writable. */
static int search_segments(struct searching *searching)
{
	const struct limpet_elf_file *file = searching->file;
	/* They do not overlap, unless somebody wants this to take long. */
	uint64_t left = file->bytes < SEARCH_LIMIT_BYTES ? file->bytes : SEARCH_LIMIT_BYTES;
	int error = 0;

	for (unsigned i = 0; i < file->head.e_phnum && left && !error && !searching->ended; i++) {
		ElfW(Phdr) segment;
		uint64_t bytes;

		error = read_segment(file, i, &segment);
		if (error || segment.p_type != PT_LOAD || segment.p_flags & PF_W)
			continue;
		if (segment.p_offset > file->bytes ||
		    segment.p_filesz > file->bytes - segment.p_offset)
			return -EBADMSG;
		bytes = segment.p_filesz < left ? segment.p_filesz : left;
		left -= bytes;
		error = search_range(searching, segment.p_offset, bytes);
	}
	return error;
}

int limpet_elf_file_search(const struct limpet_elf_file *file, const char *needle,
			   bool (*visit)(void *context, const char *at, size_t before,
					 size_t after),
			   void *context)
{
	const ElfW(Shdr) *rodata = find_section(file, ".rodata");
	LIMPET_FREE char *window = malloc(SEARCH_WINDOW_BYTES);
	struct searching searching = {.file = file,
				      .needle = needle,
				      .visit = visit,
				      .context = context,
				      .window = window};

	if (!window)
		return -ENOMEM;
	if (!file->native)
		return 0;
	if (!file->section_count)
		return search_segments(&searching);
	if (!rodata || rodata->sh_type == SHT_NOBITS)
		return 0;
	return search_range(&searching, rodata->sh_offset,
			    rodata->sh_size < SEARCH_LIMIT_BYTES ? rodata->sh_size
								 : SEARCH_LIMIT_BYTES);
}
