/* lister: a program that reads the memory of its modules, as a conservative garbage collector
 * does: it asks which there are, and reads them later.
 *
 * "load" loads the Boehm collector, which is what limpet knows such a program by; "list" notes all
 * writable memory of modules, "listed N"; "read" reads it, "read"; "work" allocates; "quit". */
#include <dlfcn.h>
#include <link.h>

#include "test/targets/target.h"

enum { MAX_PIECES = 256 };

static struct {
	const volatile uint8_t *memory;
	size_t bytes;
} pieces[MAX_PIECES];
static unsigned count;
static volatile uint8_t sum;

static int note(struct dl_phdr_info *info, size_t bytes, void *unused)
{
	(void)bytes;
	(void)unused;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *head = &info->dlpi_phdr[i];

		if (head->p_type != PT_LOAD || !(head->p_flags & PF_W))
			continue;
		if (count == MAX_PIECES)
			target_broken("too many modules");
		pieces[count].memory = (const uint8_t *)(info->dlpi_addr + head->p_vaddr);
		pieces[count++].bytes = head->p_memsz;
	}
	return 0;
}

static void read_all(void)
{
	for (unsigned i = 0; i < count; i++)
		for (size_t at = 0; at < pieces[i].bytes; at += 8)
			sum ^= pieces[i].memory[at];
}

TARGET_FRAME static void lister_work(void)
{
	free(malloc(100));
	TARGET_KEEP_FRAME();
}

int main(void)
{
	char line[64];

	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line)) && strcmp(line, "quit") != 0) {
		if (!strcmp(line, "load")) {
			if (!dlopen("libgc.so.1", RTLD_NOW | RTLD_LOCAL))
				target_broken("%s", dlerror());
			target_say("loaded");
		} else if (!strcmp(line, "list")) {
			count = 0;
			dl_iterate_phdr(note, NULL);
			target_say("listed");
		} else if (!strcmp(line, "read")) {
			read_all();
			target_say("read");
		} else if (!strcmp(line, "work")) {
			lister_work();
			target_say("worked");
		} else {
			target_broken("'%s'?", line);
		}
	}
	return 0;
}
