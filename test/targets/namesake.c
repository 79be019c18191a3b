/* namesake: functions of its own that have names of allocators' functions, and other arguments.
 *
 * Commands: "run N": N items are made and released, by each of them; "quit". */
#include "test/targets/target.h"

struct item {
	int x, y, width, height, flags, kind;
	char label[64];
};

TARGET_FRAME struct item *mi_new(int x, int y, int width, int height, int flags, int kind,
				 const char *label);
TARGET_FRAME void mi_free(struct item *item);

struct item *mi_new(int x, int y, int width, int height, int flags, int kind, const char *label)
{
	struct item *item = calloc(1, sizeof(*item));

	if (!item)
		target_broken("no memory");
	*item = (struct item){x, y, width, height, flags, kind, ""};
	snprintf(item->label, sizeof(item->label), "%s", label);
	TARGET_KEEP_FRAME();
	return item;
}

void mi_free(struct item *item)
{
	free(item);
	TARGET_KEEP_FRAME();
}

TARGET_FRAME static char *tc_memalign(const char *name, int priority, long deadline)
{
	char *text = malloc(40);

	if (!text || snprintf(text, 40, "%s %d %ld", name, priority, deadline) < 0)
		target_broken("no memory");
	TARGET_KEEP_FRAME();
	return text;
}

TARGET_FRAME static char *tc_new(const char *name, int priority)
{
	char *text = malloc(40);

	if (!text || snprintf(text, 40, "%s %d", name, priority) < 0)
		target_broken("no memory");
	TARGET_KEEP_FRAME();
	return text;
}

TARGET_FRAME static void tc_delete(char *text)
{
	free(text);
	TARGET_KEEP_FRAME();
}

static void round_of(int i)
{
	struct item *item = mi_new(i, 2, 3, 4, 5, 6, "a label");
	char *text = tc_new("a task", i), *more = tc_memalign("a task", i, -1);

	if (item->x != i || item->kind != 6 || strcmp(item->label, "a label") != 0 ||
	    strncmp(text, "a task ", 7) != 0)
		target_broken("an argument was lost");
	tc_delete(text);
	tc_delete(more);
	mi_free(item);
}

int main(void)
{
	unsigned long number;
	char line[64];

	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line)) && target_word(line, "run", &number)) {
		for (unsigned long i = 0; i < number; i++)
			round_of((int)i);
		target_say("ran");
	}
	return 0;
}
