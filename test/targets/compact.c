/* compact: twenty functions in several pages, linked so that they begin in the page with the ELF
 * header, which then is mapped twice. Each calls the next one; the Nth asks malloc for 1000 + N
 * bytes, so that the size says what its caller's name is. It is a library, too (-DPLUGIN), whose
 * functions the program calls instead of its own if it is given the path.
 *
 * Commands: "call" answers "called"; "stand" answers "standing" from within the last function, and
 * "stood" to the next command; "quit" ends with 0. */
#include <dlfcn.h>

#include "test/targets/target.h"

static TARGET_FRAME void last(void (*visit)(void))
{
	if (visit)
		visit();
	TARGET_KEEP_FRAME();
}

/* With room between them: an address in one is not in another by chance. */
#define FUNCTION(n, next)                                          \
	static TARGET_FRAME void fn##n(void (*visit)(void))        \
	{                                                          \
		void *volatile block = malloc((size_t)1##n + 900); \
                                                                   \
		free(block);                                       \
		next(visit);                                       \
		__asm__ volatile(".fill 400, 1, 0x90");            \
	}

FUNCTION(19, last)
FUNCTION(18, fn19)
FUNCTION(17, fn18)
FUNCTION(16, fn17)
FUNCTION(15, fn16)
FUNCTION(14, fn15)
FUNCTION(13, fn14)
FUNCTION(12, fn13)
FUNCTION(11, fn12)
FUNCTION(10, fn11)
FUNCTION(09, fn10)
FUNCTION(08, fn09)
FUNCTION(07, fn08)
FUNCTION(06, fn07)
FUNCTION(05, fn06)
FUNCTION(04, fn05)
FUNCTION(03, fn04)
FUNCTION(02, fn03)
FUNCTION(01, fn02)
FUNCTION(00, fn01)

void compact_call(void (*visit)(void));
void compact_call(void (*visit)(void))
{
	fn00(visit);
	TARGET_KEEP_FRAME();
}

#ifndef PLUGIN
static void stand(void)
{
	char line[64];

	target_say("standing");
	target_listen(line, sizeof(line));
}

int main(int argc, char **argv)
{
	void (*call)(void (*)(void)) = compact_call;
	char line[64];

	if (argc > 1) {
		void *plugin = dlopen(argv[1], RTLD_NOW);
		void *symbol = plugin ? dlsym(plugin, "compact_call") : NULL;

		if (!symbol)
			target_broken("%s", dlerror());
		memcpy(&call, &symbol, sizeof(call));
	}
	target_say("ready %d", (int)getpid());
	while (target_listen(line, sizeof(line)) && strcmp(line, "quit") != 0) {
		const bool stands = !strcmp(line, "stand");

		call(stands ? stand : NULL);
		target_say(stands ? "stood" : "called");
	}
	return 0;
}
#endif
