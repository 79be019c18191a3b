/* Preflight: what runs is not the program but a translator, which runs translated copies of its
 * code. Functions and slots are those of the translator, and of code that is never executed. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/base_name.h"
#include "common/begins.h"
#include "injector/preflight/preflight_check.h"

static const char valgrind[] = "valgrind", qemu[] = "qemu-user", dynamorio[] = "DynamoRIO",
		  pin[] = "Pin";

/* After these QEMU's translators of programs are named, qemu-arm-static for one. Its other programs
 * (qemu-img, qemu-system-arm) are programs like others. */
static const char *const processors[] = {
	"aarch64", "alpha", "arm",  "cris", "hexagon", "hppa",  "i386", "loong", "m68k",   "micro",
	"mips",    "nios2", "or1k", "ppc",  "riscv",   "s390x", "sh4",  "sparc", "x86_64", "xtensa",
};

static const char *by_executable(const char *path)
{
	const char *base = limpet_base_name(path), *name;
	const size_t length = strlen(base);

	/* /usr/libexec/valgrind/memcheck-amd64-linux */
	if (strstr(path, "/valgrind/") && length > strlen("-linux") &&
	    !strcmp(base + length - strlen("-linux"), "-linux"))
		return valgrind;
	if (!strcmp(base, "pinbin"))
		return pin;
	if (limpet_begins(base, "libdynamorio.so"))
		return dynamorio;
	name = limpet_begins(base, "qemu-") ? base + strlen("qemu-") : "";
	for (size_t i = 0; i < LIMPET_COUNT_OF(processors); i++)
		if (limpet_begins(name, processors[i]))
			return qemu;
	return NULL;
}

/* They are in the program's own process, where its files are mapped, too. */
static const char *by_mapping(const struct limpet_map *map)
{
	const char *base = limpet_base_name(map->path);

	if (map->perms[2] != 'x' || map->path[0] != '/')
		return NULL;
	if (limpet_begins(base, "vgpreload_core"))
		return valgrind;
	if (limpet_begins(base, "libdynamorio.so"))
		return dynamorio;
	return !strcmp(base, "pinbin") ? pin : NULL;
}

static const char *find_translator(const struct limpet_check *check)
{
	char link[64], path[PATH_MAX];
	const char *name;
	ssize_t bytes;

	snprintf(link, sizeof(link), "%s/%d/exe", limpet_proc_root, check->resident);
	bytes = readlink(link, path, sizeof(path) - 1);
	path[bytes < 0 ? 0 : bytes] = '\0';
	name = by_executable(path);
	for (size_t i = 0; i < check->maps.count && !name; i++)
		name = by_mapping(&check->maps.list[i]);
	return name;
}

bool limpet_check_translator(struct limpet_check *check)
{
	const char *name = find_translator(check);

	if (!name)
		return false;
	limpet_check_refuse(check, -ENOTSUP, "translator", name,
			    "it runs under %s, which translates the program: what it allocates "
			    "does not go through code that limpet could hook",
			    name);
	limpet_check_hint(check, name == valgrind ? "valgrind has heap profilers of its own: "
						    "--tool=massif, --tool=dhat"
						  : "start the program without it");
	return true;
}
