/* clang-format off */
/* served: a file system that need not answer (test/unit/served_fixture.h), in a mount namespace of
 * its own.
 *
 *	served DIRECTORY POINT
 *
 * Commands: "silent open" (or lookup, read, flush): from now on no such call of a program with our
 * LIMPET_RUNTIME_DIR is answered; "asked CALL" says how many came;
 * "quit". */
/* clang-format on */
#include "test/targets/target.h"
#include "test/unit/served_fixture.h"

static const struct {
	const char *name;
	unsigned call;
} calls[] = {
	{"lookup", FUSE_LOOKUP}, {"open", FUSE_OPEN}, {"read", FUSE_READ}, {"flush", FUSE_FLUSH}};

static unsigned call_of(const char *name)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!strcmp(name, calls[i].name))
			return calls[i].call;
	target_broken("no such call: %s", name);
}

int main(int argc, char **argv)
{
	struct served *served = served_new();
	const char *directory = getenv("LIMPET_RUNTIME_DIR");
	char line[256], name[16];

	if (argc != 3 || !served)
		target_broken("usage: served DIRECTORY POINT");
	/* Its own test's. */
	if (directory)
		snprintf(served->marker, sizeof(served->marker), "LIMPET_RUNTIME_DIR=%s",
			 directory);
	if (served_unshare(geteuid() != 0) < 0 || served_begin(served, argv[1], argv[2]) < 0) {
		target_say("refused");
		return 77;
	}
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (sscanf(line, "silent %15s", name) == 1) {
			served->silent |= UINT64_C(1) << call_of(name);
			target_say("silent");
		} else if (sscanf(line, "asked %15s", name) == 1) {
			target_say("asked %u", served->came[call_of(name)]);
		} else {
			break;
		}
	}
	served_end(served);
	return 0;
}
