/* Another tool beside limpet: sets probes of the kernel on functions of a process, and removes
 * them.
 *
 * prober PID FILE NAME...: on these functions of the file, which the process maps. "entries",
 * "returns" and "both" set all of them, "off" removes them; "random SEED" sets and removes some
 * again and again until "calm", which answers how often, and "random-entries SEED" no returns. They
 * end with this program. */
#include "test/targets/target.h"

#include <fcntl.h>
#include <gelf.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#define MAX_NAMES 32
#define TYPE "/sys/bus/event_source/devices/uprobe/type"

enum { ON_ENTRY, ON_RETURN, WAYS };

static pid_t target;
static const char *file;
static uint32_t type;
static size_t count;
static struct function {
	uint64_t offset;
	int probes[WAYS]; /* -1: none */
} functions[MAX_NAMES];
static atomic_bool running;
static bool only_entries;
static unsigned long changes;

static void set(struct function *function, int way)
{
	struct perf_event_attr attr = {
		.type = type,
		.size = sizeof(attr),
		.config = way == ON_RETURN,
		.config1 = (uint64_t)(uintptr_t)file,
		.config2 = function->offset,
	};

	if (function->probes[way] >= 0)
		return;
	function->probes[way] =
		(int)syscall(SYS_perf_event_open, &attr, target, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (function->probes[way] < 0)
		target_broken("no probe at %#lx of %s: %s", function->offset, file,
			      strerror(errno));
}

static void take_away(struct function *function, int way)
{
	if (function->probes[way] >= 0)
		close(function->probes[way]);
	function->probes[way] = -1;
}

static void *change_at_random(void *seed)
{
	uint64_t state = (uint64_t)(uintptr_t)seed * 2 + 1;

	while (running) {
		uint64_t drawn = target_random(&state) >> 16;
		struct function *function = &functions[drawn / 8 % count];
		int way = only_entries ? ON_ENTRY : drawn & 1;

		if (function->probes[way] < 0)
			set(function, way);
		else
			take_away(function, way);
		changes++;
	}
	return NULL;
}

static uint64_t offset_in_file(Elf *elf, uint64_t address)
{
	size_t headers;
	GElf_Phdr header;

	if (elf_getphdrnum(elf, &headers) < 0)
		target_broken("%s has no program headers", file);
	for (size_t i = 0; i < headers; i++)
		if (gelf_getphdr(elf, (int)i, &header) && header.p_type == PT_LOAD &&
		    address - header.p_vaddr < header.p_filesz)
			return address - header.p_vaddr + header.p_offset;
	target_broken("%#lx is not in %s", address, file);
}

static void find(Elf *elf, const char *name)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(elf, section))) {
		Elf_Data *data = elf_getdata(section, NULL);

		if (!gelf_getshdr(section, &header) || !data || !header.sh_entsize ||
		    (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM))
			continue;
		for (size_t i = 0; i < header.sh_size / header.sh_entsize; i++) {
			GElf_Sym symbol;
			const char *its;

			if (!gelf_getsym(data, (int)i, &symbol) || !symbol.st_shndx ||
			    GELF_ST_TYPE(symbol.st_info) != STT_FUNC)
				continue;
			its = elf_strptr(elf, header.sh_link, symbol.st_name);
			if (!its || strcmp(its, name) != 0)
				continue;
			functions[count++] =
				(struct function){offset_in_file(elf, symbol.st_value), {-1, -1}};
			return;
		}
	}
	target_broken("%s has no %s", file, name);
}

static void find_all(int names, char **name)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = fd >= 0 ? elf_begin(fd, ELF_C_READ, NULL) : NULL;
	if (!elf || names > MAX_NAMES)
		target_broken("%s cannot be read", file);
	for (int i = 0; i < names; i++)
		find(elf, name[i]);
	elf_end(elf);
	close(fd);
}

static void read_type(void)
{
	FILE *from = fopen(TYPE, "re");

	if (!from || fscanf(from, "%u", &type) != 1)
		target_broken("the kernel has no uprobes");
	fclose(from);
}

static void set_all(bool entries, bool returns)
{
	for (size_t i = 0; i < count; i++) {
		if (entries)
			set(&functions[i], ON_ENTRY);
		if (returns)
			set(&functions[i], ON_RETURN);
	}
}

static void take_all_away(void)
{
	for (size_t i = 0; i < count; i++)
		for (int way = 0; way < WAYS; way++)
			take_away(&functions[i], way);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	unsigned long number;
	char line[64];

	if (argc < 4)
		target_broken("prober PID FILE NAME...");
	target = (pid_t)atoi(argv[1]);
	file = argv[2];
	read_type();
	find_all(argc - 3, argv + 3);
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line)) && !target_word(line, "quit", &number)) {
		only_entries = target_word(line, "random-entries", &number);
		if (only_entries || target_word(line, "random", &number)) {
			running = true;
			if (pthread_create(&thread, NULL, change_at_random,
					   (void *)(uintptr_t)number))
				target_broken("no thread");
			target_say("random");
		} else if (target_word(line, "calm", &number)) {
			running = false;
			pthread_join(thread, NULL);
			take_all_away();
			target_say("calm %lu", changes);
		} else if (target_word(line, "off", &number)) {
			take_all_away();
			target_say("off");
		} else {
			bool both = target_word(line, "both", &number);

			set_all(both || target_word(line, "entries", &number),
				both || target_word(line, "returns", &number));
			target_say("on");
		}
	}
	return 0;
}
