/* turns MODULE...: has one of the modules loaded at a time, all at the same address.
 *
 * Commands: "put N": module N (from 0) in the place of what was there; "take N": N allocations
 * under its function; "quick N": module 0, N allocations, module 1, twice as many, without a pause;
 * "made N": N allocations under code that it makes itself; "again N": N allocations under a second
 * mapping of its own code; "remove N": the file of module N; "quit". */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <sys/mman.h>

#include "test/targets/target.h"

typedef void *turn_function(void *(*function)(uint64_t), uint64_t argument);

static void *module;
static turn_function *entry, *first_entry;

TARGET_FRAME static void *take(uint64_t bytes)
{
	void *block = malloc(bytes);

	if (!block)
		target_broken("no memory");
	free(block);
	TARGET_KEEP_FRAME();
	return NULL;
}

static void put(const char *path)
{
	if (module && dlclose(module))
		target_broken("%s", dlerror());
	module = dlopen(path, RTLD_NOW);
	entry = module ? (turn_function *)dlsym(module, "turn_entry") : NULL;
	if (!entry)
		target_broken("%s: %s", path, dlerror());
	if (!first_entry)
		first_entry = entry;
	if (entry != first_entry)
		target_broken("%s lies elsewhere", path);
}

TARGET_FRAME static void take_many(unsigned long count)
{
	while (count--)
		entry(take, 100);
}

/* As a JIT compiler does: push rbp; mov rbp, rsp; mov edi, 100; mov rax, take; call rax; pop rbp;
 * ret. */
static void make_code(unsigned long count)
{
	static const uint8_t head[] = {0x55, 0x48, 0x89, 0xe5, 0xbf, 100, 0, 0, 0, 0x48, 0xb8};
	static const uint8_t tail[] = {0xff, 0xd0, 0x5d, 0xc3};
	static uint8_t *code;
	void *(*const function)(uint64_t) = take;
	void (*made)(void);

	if (!code) {
		code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (code == MAP_FAILED)
			target_broken("no memory");
		memcpy(code, head, sizeof(head));
		memcpy(code + sizeof(head), &function, sizeof(function));
		memcpy(code + sizeof(head) + sizeof(function), tail, sizeof(tail));
		if (mprotect(code, 4096, PROT_READ | PROT_EXEC))
			target_broken("no code");
	}
	memcpy(&made, &code, sizeof(made));
	while (count--)
		made();
}

/* Position-independent but for the function that it is given. */
__attribute__((noinline, aligned(64))) static void call_often(void *(*function)(uint64_t),
							      unsigned long count)
{
	while (count--)
		function(100);
	TARGET_KEEP_FRAME();
}

/* Offset in the file, of an address of the program. */
static int find_offset(struct dl_phdr_info *info, size_t bytes, void *context)
{
	uint64_t *place = context;

	(void)bytes;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *phdr = &info->dlpi_phdr[i];
		const uint64_t offset = *place - info->dlpi_addr - phdr->p_vaddr;

		if (phdr->p_type == PT_LOAD && offset < phdr->p_filesz) {
			*place = phdr->p_offset + offset;
			return 1;
		}
	}
	return -1;
}

/* As V8 does: code of the file is mapped once more. */
static void call_again(unsigned long count)
{
	static char *code;
	uint64_t offset = (uintptr_t)call_often;
	void (*again)(void *(*)(uint64_t), unsigned long);
	char *function;

	if (dl_iterate_phdr(find_offset, &offset) < 0)
		target_broken("no such segment");
	if (!code) {
		int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

		code = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, file,
			    (off_t)(offset & ~UINT64_C(4095)));
		close(file);
	}
	if (code == MAP_FAILED)
		target_broken("no second mapping");
	function = code + offset % 4096;
	memcpy(&again, &function, sizeof(again));
	again(take, count);
}

int main(int argc, char *argv[])
{
	char line[128];
	unsigned long n;

	if (argc < 3)
		target_broken("usage: turns MODULE...");
	/* What is made once only is made before, and does not come between. */
	for (int i = 0; i < 3; i++)
		put(argv[1 + i % 2]);
	target_say("ready %d", (int)getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "put", &n) && n + 1 < (unsigned long)argc) {
			put(argv[n + 1]);
			target_say("there");
		} else if (target_word(line, "take", &n)) {
			take_many(n);
			target_say("taken");
		} else if (target_word(line, "quick", &n)) {
			put(argv[1]);
			take_many(n);
			put(argv[2]);
			take_many(2 * n);
			target_say("taken");
		} else if (target_word(line, "made", &n)) {
			make_code(n);
			target_say("made");
		} else if (target_word(line, "again", &n)) {
			call_again(n);
			target_say("called");
		} else if (target_word(line, "remove", &n)) {
			if (unlink(argv[n + 1]))
				target_broken("%s stays", argv[n + 1]);
			target_say("removed");
		} else if (target_word(line, "quit", &n)) {
			return 0;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	return 0;
}
