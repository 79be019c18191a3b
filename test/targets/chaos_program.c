/* Programs of chaos: the table of what can be done; drawing, reading and writing them. */
#include <ctype.h>

#include "test/targets/chaos.h"
#include "test/targets/target.h"

#define KIND(name, weight, flags, known, ...)                                \
	{                                                                    \
#name, chaos_op_##name, {__VA_ARGS__ }, weight, flags, known \
	}

/* What is known to fail has its reason here; when the cause is mended the reason goes (NULL). */
/* clang-format off */
const struct chaos_kind chaos_kinds[] = {
	KIND(malloc, 12, 0, NULL, {0, 15}, {1, 4000}),
	KIND(calloc, 4, 0, NULL, {0, 15}, {1, 4000}),
	KIND(realloc, 6, 0, NULL, {0, 15}, {1, 9000}),
	KIND(aligned, 4, 0, NULL, {0, 15}, {1, 4000}, {4, 12}),
	KIND(free, 8, 0, NULL, {0, 15}),
	KIND(look, 3, 0, NULL, {0, 15}),
	KIND(map, 4, 0, NULL, {0, 3}, {1, 40}),
	KIND(remap, 3, 0, NULL, {0, 3}, {1, 40}),
	KIND(protect, 2, 0, NULL, {0, 3}),
	KIND(take, 2, CHAOS_LESS, NULL, {0, 3}),
	KIND(call, 4, CHAOS_LESS, NULL, {0, 3}, {1, 2000}),
	KIND(take_packed, 2, CHAOS_LESS, "copies that are not aligned are not put back", {0, 3}),
	KIND(take_sealed, 2, CHAOS_LESS, "copies in pages made read-only are not put back", {0, 3}),
	KIND(maps, 1, CHAOS_ONCE, NULL, {10, 2000}),
	KIND(growsdown, 2, 0, "what limpet maps may stop a stack that grows", {1, 20}),
	KIND(thread, 3, 0, NULL, {0, 9}, {1, 3000}),
	KIND(detach, 2, 0, NULL, {0, 9}, {1, 3000}),
	KIND(cancel, 2, 0, NULL, {0, 9}),
	KIND(raw_thread, 3, 0, "a thread that glibc does not know of borrows another's thread pointer", {1, 3000}),
	KIND(raw_process, 2, 0, "what shares the memory only is in no list of threads", {1, 3000}),
	KIND(raise, 5, 0, NULL, {0, 2}, {0, 3}),
	KIND(kick, 3, 0, NULL, {0, 5}, {0, 2}),
	KIND(window, 3, 0, NULL, {1, 3000}, {0, 3}),
	KIND(altstack, 2, 0, NULL, {0, 1}),
	KIND(altstack_frame, 2, 0, "an alternate stack above the frame that was interrupted", {0, 0}),
	KIND(coroutine, 4, 0, NULL, {1, 4}, {1, 2000}),
	KIND(spin, 3, 0, NULL, {1, 20000}),
	KIND(fork, 1, 0, NULL, {0, 9}, {1, 3000}),
	KIND(vfork, 1, 0, NULL, {0, 9}),
	KIND(spawn, 1, CHAOS_MORE, NULL, {0, 9}),
	KIND(dlopen, 2, CHAOS_MORE | CHAOS_LESS, NULL, {1, 9}),
	KIND(dlerror, 2, CHAOS_MORE, NULL, {0, 9}),
	KIND(filter, 1, CHAOS_ONCE | CHAOS_EARLY, NULL, {1, 255}, {0, 1}),
	KIND(late_filter, 1, CHAOS_ONCE, "a filter that comes after the attach meets our calls", {1, 255}, {0, 1}),
	KIND(close_all, 1, CHAOS_ONCE, NULL, {0, 0}),
	KIND(dup_over, 1, CHAOS_ONCE, NULL, {1, 900}),
	KIND(few_descriptors, 1, CHAOS_ONCE, NULL, {64, 200}),
	KIND(lowest, 3, 0, NULL, {1, 20}),
	KIND(scan, 1, CHAOS_MORE, NULL, {0, 1}),
	KIND(probed, 1, CHAOS_ONCE, NULL, {1, 30}, {0, 3}),
	KIND(lock_memory, 1, CHAOS_ONCE, "mlockall(MCL_FUTURE) makes what is mapped resident", {0, 0}),
	KIND(read, 3, 0, NULL, {1, 60000}, {0, 800}),
	KIND(write, 3, 0, "a limpet that is killed in a write may leave a short number", {70000, 400000}, {0, 800}),
	KIND(receive, 3, 0, "what a local socket receives is not finished after a stop", {1000, 60000}, {0, 800}),
	KIND(accept, 2, 0, NULL, {0, 3000}),
	KIND(nanosleep, 3, 0, NULL, {1, 5000}),
	KIND(poll, 3, 0, NULL, {0, 5}),
	KIND(futex, 3, 0, NULL, {0, 3000}),
	KIND(futex_timed, 3, 0, NULL, {1, 5000}),
};
/* clang-format on */
const unsigned chaos_kind_count = sizeof(chaos_kinds) / sizeof(chaos_kinds[0]);

void chaos_program_list(void)
{
	for (unsigned i = 0; i < chaos_kind_count; i++)
		target_say("%s %u %s", chaos_kinds[i].name, chaos_kinds[i].flags,
			   chaos_kinds[i].known ? chaos_kinds[i].known : "");
}

static bool is_named(const char *names, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = names; (at = strstr(at, name)); at += n) {
		if ((at == names || at[-1] == ',') && (!at[n] || at[n] == ','))
			return true;
	}
	return false;
}

static const struct chaos_kind *draw_kind(uint64_t *random, bool once, const char *with,
					  const char *only)
{
	const struct chaos_kind *kind;

	for (;;) {
		kind = &chaos_kinds[target_random(random) % chaos_kind_count];
		if (kind->known && !is_named(with, kind->name) && !is_named(only, kind->name))
			continue;
		if (*only && !is_named(only, kind->name))
			continue;
		if (!!(kind->flags & CHAOS_ONCE) == once &&
		    target_random(random) % 12 < kind->weight)
			return kind;
	}
}

static bool has_once(const char *with, const char *only)
{
	for (unsigned i = 0; i < chaos_kind_count; i++) {
		const struct chaos_kind *kind = &chaos_kinds[i];

		if (!(kind->flags & CHAOS_ONCE) || (*only && !is_named(only, kind->name)))
			continue;
		if (!kind->known || is_named(with, kind->name) || is_named(only, kind->name))
			return true;
	}
	return false;
}

static void write_line(uint64_t *random, unsigned machine, const struct chaos_kind *kind)
{
	char line[160], *at = line;

	at += sprintf(at, "%u", machine);
	if (kind->flags & CHAOS_ONCE)
		at += sprintf(at, " @%lu",
			      (unsigned long)(kind->flags & CHAOS_EARLY
						      ? 0
						      : target_random(random) % CHAOS_PHASES));
	at += sprintf(at, " %s", kind->name);
	for (unsigned i = 0; i < CHAOS_NUMBERS; i++) {
		unsigned long span = kind->ranges[i].most - kind->ranges[i].least + 1;

		if (kind->ranges[i].most)
			at += sprintf(at, " %lu",
				      kind->ranges[i].least +
					      (unsigned long)(target_random(random) % span));
	}
	target_say("%s", line);
}

void chaos_program_draw(uint64_t seed, const char *with, const char *only)
{
	uint64_t random = (seed + 1) * 0x9e3779b97f4a7c15u;
	unsigned machines = 1 + (unsigned)(target_random(&random) % (CHAOS_MACHINES - 1));
	unsigned once = has_once(with, only) ? (unsigned)(target_random(&random) % 3) : 0;

	for (unsigned i = 0; i < machines; i++) {
		for (unsigned n = 2 + (unsigned)(target_random(&random) % 9); n; n--)
			write_line(&random, i, draw_kind(&random, false, with, only));
	}
	for (; once; once--)
		write_line(&random, (unsigned)(target_random(&random) % machines),
			   draw_kind(&random, true, with, only));
}

static const struct chaos_kind *kind_of(const char *name)
{
	for (unsigned i = 0; i < chaos_kind_count; i++) {
		if (!strcmp(chaos_kinds[i].name, name))
			return &chaos_kinds[i];
	}
	target_broken("no operation '%s'", name);
}

static void read_line(char *line)
{
	char *save = NULL, *word = strtok_r(line, " \n", &save);
	unsigned index = word ? (unsigned)atoi(word) : CHAOS_MACHINES;
	struct chaos_machine *machine = &chaos_machines[index % CHAOS_MACHINES];
	struct chaos_operation *operation = &machine->operations[machine->count];

	if (index >= CHAOS_MACHINES || machine->count == CHAOS_OPERATIONS)
		target_broken("too much in a program");
	operation->phase = -1;
	word = strtok_r(NULL, " \n", &save);
	if (word && *word == '@') {
		operation->phase = atoi(word + 1);
		word = strtok_r(NULL, " \n", &save);
	}
	operation->kind = kind_of(word ? word : "");
	for (unsigned i = 0; i < CHAOS_NUMBERS && (word = strtok_r(NULL, " \n", &save)); i++)
		operation->numbers[i] = strtoul(word, NULL, 10);
	machine->count++;
	if (index >= chaos_machine_count)
		chaos_machine_count = index + 1;
}

void chaos_program_read(const char *path)
{
	FILE *file = fopen(path, "re");
	char line[256];

	if (!file)
		target_broken("cannot read %s", path);
	chaos_machine_count = 1;
	while (fgets(line, sizeof(line), file))
		read_line(line);
	fclose(file);
}
