/* Programs are compiled here and each address of a function is looked up, so that the test needs
 * no knowledge of the code that a compiler makes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/symbols/symbolize.h"

static char directory[] = "/tmp/limpet-symbolize.XXXXXX";

static const char c_source[] =
	"#include <stdlib.h>\n"                                       /* 1 */
	"volatile int sink;\n"                                        /* 2 */
	"static inline __attribute__((always_inline))\n"              /* 3 */
	"void *grow(int n) {\n"                                       /* 4 */
	"	return malloc(n);\n"                                  /* 5 */
	"}\n"                                                         /* 6 */
	"__attribute__((noinline)) void *leak(int n) {\n"             /* 7 */
	"	void *p = grow(n);\n"                                 /* 8 */
	"	sink++;\n"                                            /* 9 */
	"	return p;\n"                                          /* 10 */
	"}\n"                                                         /* 11 */
	"int main(void) { return leak(3) == 0; }\n"                   /* 12 */
	"asm(\".text\\n.globl bare\\nbare: nop\\nnop\\nret\\n\");\n"; /* 13 */

static const char cxx_source[] =
	"#include <vector>\n"                                                        /* 1 */
	"namespace net { struct Server {\n"                                          /* 2 */
	"	std::vector<long> all;\n"                                            /* 3 */
	"	template <class T> __attribute__((always_inline)) void add(T v) {\n" /* 4 */
	"		all.push_back(v);\n"                                         /* 5 */
	"	}\n"                                                                 /* 6 */
	"	__attribute__((noinline)) void grow(unsigned long n) {\n"            /* 7 */
	"		for (unsigned long i = 0; i < n; i++)\n"                     /* 8 */
	"			add<long>(i);\n"                                     /* 9 */
	"	}\n"                                                                 /* 10 */
	"}; }\n"                                                                     /* 11 */
	"namespace { struct Hidden { int *p; }; }\n"                                 /* 12 */
	"namespace box { template <class T> struct Box {\n"                          /* 13 */
	"	__attribute__((always_inline)) T *make(int n) {\n"                   /* 14 */
	"		return new T[n];\n"                                          /* 15 */
	"	}\n"                                                                 /* 16 */
	"}; }\n"                                                                     /* 17 */
	"__attribute__((noinline)) void *hide(int n) {\n"                            /* 18 */
	"	return box::Box<Hidden>().make(n);\n"                                /* 19 */
	"}\n"                                                                        /* 20 */
	"__attribute__((noinline)) void *lambdas(int n) {\n"                         /* 21 */
	"	auto outer = [](int k) {\n"                                          /* 22 */
	"		auto inner = [](int j) { return new int[j]; };\n"            /* 23 */
	"		return inner(k);\n"                                          /* 24 */
	"	};\n"                                                                /* 25 */
	"	return outer(n);\n"                                                  /* 26 */
	"}\n"                                                                        /* 27 */
	"#define NEW(type) [](auto k) { return (void *)new type(k); }\n"             /* 28 */
	"__attribute__((noinline)) void *both(int n) {\n"                            /* 29 */
	"	auto one = NEW(int); auto two = NEW(long);\n"                        /* 30 */
	"	void *volatile all[] = {one(n), two(n)}; return all[n > 5];\n"       /* 31 */
	"}\n"                                                                        /* 32 */
	"int main(int argc, char **) {\n"
	"	net::Server s;\n"
	"	s.grow(argc);\n"
	"	return !hide(argc) || !lambdas(argc) || !both(argc);\n"
	"}\n";

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

static const char rust_source[] = "#[inline(always)]\n"                               /* 1 */
				  "fn grow(v: &mut Vec<u64>, n: u64) {\n"             /* 2 */
				  "    v.push(n);\n"                                  /* 3 */
				  "}\n"                                               /* 4 */
				  "#[inline(never)]\n"                                /* 5 */
				  "pub fn leak(n: u64) -> Vec<u64> {\n"               /* 6 */
				  "    let mut v = Vec::new();\n"                     /* 7 */
				  "    grow(&mut v, n);\n"                            /* 8 */
				  "    v\n"                                           /* 9 */
				  "}\n"                                               /* 10 */
				  "fn main() { println!(\"{}\", leak(3).len()); }\n"; /* 11 */

/* ------------------------------------------------------------------ helpers */

__attribute__((format(printf, 1, 2))) static void run(const char *format, ...)
{
	char command[4096], all[4200];
	va_list args;
	int status;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	snprintf(all, sizeof(all), "cd %s && { %s; } >log 2>&1 || { cat log >&2; exit 1; }",
		 directory, command);
	status = system(all);
	if (status)
		fail_msg("failed: %s", command);
}

static void write_file(const char *name, const char *text)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static const char *in_directory(const char *name)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

/* Extent of the first function whose symbol contains `part`, out of an unstripped file. */
static void extent(const char *name, const char *part, uint64_t *ret_start, uint64_t *ret_end)
{
	int fd = open(in_directory(name), O_RDONLY | O_CLOEXEC);
	Elf *elf;
	Elf_Scn *section = NULL;
	bool found = false;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	assert_non_null(elf);
	while (!found && (section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		Elf_Data *data;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_SYMTAB)
			continue;
		data = elf_getdata(section, NULL);
		for (size_t i = 0; i < header.sh_size / header.sh_entsize; i++) {
			const char *symbol;
			GElf_Sym sym;

			assert_non_null(gelf_getsym(data, (int)i, &sym));
			symbol = elf_strptr(elf, header.sh_link, sym.st_name);
			if (!symbol || !strstr(symbol, part) ||
			    (GELF_ST_TYPE(sym.st_info) != STT_FUNC && strcmp(symbol, part) != 0))
				continue;
			*ret_start = sym.st_value;
			*ret_end = sym.st_value + (sym.st_size ? sym.st_size : 1);
			found = true;
			break;
		}
	}
	elf_end(elf);
	close(fd);
	assert_true(found);
}

static int try_open(const char *name, struct limpet_symbolizer **ret, struct limpet_err *err)
{
	struct limpet_symbolizer_options options = {.path = in_directory(name), .fd = -1};

	return limpet_symbolizer_open(&options, ret, err);
}

static struct limpet_symbolizer *must_open(const char *name)
{
	struct limpet_symbolizer *s = NULL;
	struct limpet_err err = {0};

	if (try_open(name, &s, &err) < 0)
		fail_msg("%s", err.message);
	return s;
}

static bool ends_with(const char *s, const char *tail)
{
	size_t n = s ? strlen(s) : 0, m = strlen(tail);

	return s && n >= m && !strcmp(s + n - m, tail);
}

/* One expected frame; file NULL: any. */
struct frame {
	const char *function, *file;
	uint32_t line;
	bool inlined;
};

/* True if somewhere in [start, end) the outermost frames are those of `want`. */
static bool seen(struct limpet_symbolizer *s, uint64_t start, uint64_t end,
		 const struct frame *want, int count)
{
	for (uint64_t at = start; at < end; at++) {
		const struct limpet_symbol *list;
		int n = limpet_symbolizer_resolve(s, at, &list);
		int i;

		for (i = 0; i < count && n >= count; i++) {
			const struct limpet_symbol *frame = &list[n - count + i];

			if (!frame->function || strcmp(frame->function, want[i].function) != 0 ||
			    frame->inlined != want[i].inlined)
				break;
			if (want[i].file &&
			    (!ends_with(frame->file, want[i].file) || frame->line != want[i].line))
				break;
		}
		if (i == count)
			return true;
	}
	return false;
}

static const struct frame c_frames[] = {{"grow", "/prog.c", 5, true},
					{"leak", "/prog.c", 8, false}};

static void check_c(struct limpet_symbolizer *s, bool lines)
{
	static const struct frame plain = {"leak", NULL, 0, false};
	const struct limpet_symbol *list;
	uint64_t start, end;

	extent("prog", "leak", &start, &end);
	if (lines)
		assert_true(seen(s, start, end, c_frames, 2));
	assert_int_equal(limpet_symbolizer_has_lines(s), lines);
	/* Every byte of the function has its name. */
	for (uint64_t at = start; at < end; at++)
		assert_true(seen(s, at, at + 1, &plain, 1));
	extent("prog", "bare", &start, &end);
	assert_int_equal(limpet_symbolizer_resolve(s, start + 1, &list), 1);
	assert_string_equal(list[0].function, "bare");
	assert_int_equal(limpet_symbolizer_resolve(s, 0x7fffffffffffull, &list), 0);
	assert_int_equal(limpet_symbolizer_resolve(s, 0, &list), 0);
}

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(directory))
		return -1;
	write_file("prog.c", c_source);
	write_file("prog.cc", cxx_source);
	write_file("prog.rs", rust_source);
	run("cc -g -O2 -Wl,--build-id -o prog prog.c");
	return 0;
}

static int teardown(void **state)
{
	char command[256];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", directory);
	return system(command);
}

/* ------------------------------------------------------------------ tests */

static void test_c_with_inlined_functions(void **state)
{
	static const char *const compilers[] = {
		"cc -gdwarf-5",
		"cc -gdwarf-4",
		"cc -g -gz",
		"cc -g -no-pie",
		"cc -g -O3 -ffunction-sections",
		"cc -g -gsplit-dwarf",
		"cc -g -flto",
		/* Addresses and strings by their numbers in tables, ranges in lists. */
		"clang -gdwarf-5",
		"clang -gdwarf-4",
		"clang -gdwarf-5 -fdebug-types-section",
		"clang -gdwarf-5 -gsplit-dwarf",
		"clang -gdwarf-5 -flto -fuse-ld=lld",
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(compilers); i++) {
		struct limpet_symbolizer *s;

		run("%s -O2 -Wl,--build-id -o prog prog.c", compilers[i]);
		s = must_open("prog");
		check_c(s, true);
		limpet_symbolizer_close(s);
	}
	run("cc -g -O2 -Wl,--build-id -o prog prog.c");
}

static void test_cxx_names(void **state)
{
	static const struct frame want[] = {
		{"net::Server::add<long>(long)", "/prog.cc", 5, true},
		{"net::Server::grow(unsigned long)", "/prog.cc", 9, false},
	};
	static const struct frame hidden[] = {
		{"box::Box<(anonymous namespace)::Hidden>::make", "/prog.cc", 15, true},
		{"hide(int)", "/prog.cc", 19, false},
	};
	/* A lambda has none either, and its type has no name. */
	static const struct frame lambdas[] = {
		{"lambdas(int)::{lambda#1}::operator()::{lambda#1}::operator()", "/prog.cc", 23,
		 true},
		{"lambdas(int)::{lambda#1}::operator()", "/prog.cc", 24, true},
		{"lambdas(int)", "/prog.cc", 26, false},
	};
	/* Two of one line, as of a macro; generic ones. */
	static const struct frame first[] = {
		{"both(int)::{lambda#1}::operator()<int>", "/prog.cc", 30, true},
		{"both(int)", "/prog.cc", 31, false},
	};
	static const struct frame second[] = {
		{"both(int)::{lambda#2}::operator()<int>", "/prog.cc", 30, true},
		{"both(int)", "/prog.cc", 31, false},
	};
	struct limpet_symbolizer *s;
	uint64_t start, end;

	(void)state;
	run("g++ -g -O2 -o cxx prog.cc");
	s = must_open("cxx");
	extent("cxx", "Server4grow", &start, &end);
	/* push_back is inlined below these two, so they are the two outermost. */
	assert_true(seen(s, start, end, want, 2));
	/* With a type of an anonymous namespace in it, a function has no linkage name. */
	extent("cxx", "4hide", &start, &end);
	assert_true(seen(s, start, end, hidden, 2));
	extent("cxx", "7lambdas", &start, &end);
	assert_true(seen(s, start, end, lambdas, 3));
	extent("cxx", "4both", &start, &end);
	assert_true(seen(s, start, end, first, 2));
	assert_true(seen(s, start, end, second, 2));
	limpet_symbolizer_close(s);
}

static void test_rust_names(void **state)
{
	static const struct frame want[] = {{"prog::grow", "prog.rs", 3, true},
					    {"prog::leak", "prog.rs", 8, false}};
	/* The compiler's own choice, and the newer scheme where that is not it. */
	static const char *const schemes[] = {"", "-C symbol-mangling-version=v0"};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(schemes); i++) {
		struct limpet_symbolizer *s;
		uint64_t start, end;

		run("rustc -g -C opt-level=2 %s -o rust prog.rs", schemes[i]);
		s = must_open("rust");
		extent("rust", "4leak", &start, &end);
		assert_true(seen(s, start, end, want, 2));
		limpet_symbolizer_close(s);
	}
}

static void test_stripped_module_is_silent(void **state)
{
	const struct limpet_symbol *list;
	struct limpet_symbolizer *s;
	uint64_t start, end;

	(void)state;
	run("cp prog bare-prog && strip bare-prog");
	s = must_open("bare-prog");
	extent("prog", "leak", &start, &end);
	/* Other symbols stand before it; none may lend its name. */
	assert_int_equal(limpet_symbolizer_resolve(s, start, &list), 0);
	limpet_symbolizer_close(s);
}

static void test_debuglink_beside(void **state)
{
	struct limpet_symbolizer *s;

	(void)state;
	for (int round = 0; round < 3; round++) {
		run("rm -rf linked .debug linked.debug; cc -g -O2 %s -o linked prog.c && "
		    "cp linked prog && objcopy --only-keep-debug linked linked.debug && "
		    "strip linked && objcopy --add-gnu-debuglink=linked.debug linked",
		    round == 1 ? "-Wl,--build-id=none" : "-Wl,--build-id");
		if (round == 2)
			run("mkdir .debug && mv linked.debug .debug/");
		s = must_open("linked");
		check_c(s, true);
		limpet_symbolizer_close(s);
	}
	/* A debug file that does not belong to it. */
	run("cc -g -O1 -DX -o other prog.c && objcopy --only-keep-debug other .debug/linked.debug");
	s = must_open("linked");
	assert_false(limpet_symbolizer_has_lines(s));
	limpet_symbolizer_close(s);
	run("rm -rf .debug linked; cc -g -O2 -Wl,--build-id -o prog prog.c");
}

static size_t prog_build_id(uint8_t *id)
{
	char line[128];
	FILE *file;
	size_t n = 0;

	run("readelf -n prog | sed -n 's/.*Build ID: //p' >id");
	file = fopen(in_directory("id"), "r");
	assert_non_null(file);
	assert_non_null(fgets(line, sizeof(line), file));
	fclose(file);
	for (const char *p = line; p[0] && p[1] && p[0] != '\n'; p += 2) {
		const char byte[3] = {p[0], p[1], '\0'};

		id[n++] = (uint8_t)strtoul(byte, NULL, 16);
	}
	return n;
}

static void test_debug_dir_by_build_id(void **state)
{
	uint8_t id[64];
	size_t id_bytes = prog_build_id(id);
	char dir[4096], gone[4096];
	const char *const dirs[] = {dir, NULL};
	struct limpet_symbolizer_options options = {
		.fd = -1, .build_id = id, .build_id_bytes = id_bytes, .debug_dirs = dirs};
	struct limpet_symbolizer *s;
	struct limpet_err err = {0};

	(void)state;
	snprintf(dir, sizeof(dir), "%s/dbg", directory);
	run("rm -rf dbg; i=$(cat id); mkdir -p dbg/.build-id/$(echo $i | cut -c1-2); objcopy "
	    "--only-keep-debug prog dbg/.build-id/$(echo $i | cut -c1-2)/$(echo $i | cut "
	    "-c3-).debug; cp prog stripped; strip stripped");
	snprintf(gone, sizeof(gone), "%s/stripped", directory);
	options.path = gone;
	assert_int_equal(limpet_symbolizer_open(&options, &s, &err), 0);
	check_c(s, true);
	limpet_symbolizer_close(s);

	/* The module is gone, its debug file is here. */
	run("rm stripped");
	assert_int_equal(limpet_symbolizer_open(&options, &s, &err), 0);
	check_c(s, true);
	limpet_symbolizer_close(s);

	/* The module itself in a directory of modules. */
	run("rm -rf dbg; mkdir dbg; cp prog dbg/stripped");
	assert_int_equal(limpet_symbolizer_open(&options, &s, &err), 0);
	check_c(s, true);
	limpet_symbolizer_close(s);
	run("rm -rf dbg");
	assert_int_equal(limpet_symbolizer_open(&options, &s, &err), -ENOENT);
	assert_non_null(strstr(err.hint, "--debug-dir"));
}

/* A library that is stripped of all but what the dynamic linker needs. */
/* libdwfl asks once more for one that it could not open. */
static void test_debug_file_that_is_none(void **state)
{
	const char *dirs[] = {in_directory("broken"), NULL};
	struct limpet_symbolizer_options options = {.fd = -1, .debug_dirs = dirs};
	struct limpet_symbolizer *s;
	struct limpet_err err = {0};
	LIMPET_FREE char *dir = strdup(dirs[0]), *path = strdup(in_directory("plain"));
	uint8_t id[64];

	(void)state;
	assert_non_null(dir);
	dirs[0] = dir;
	options.path = path;
	prog_build_id(id);
	run("d=broken/.build-id/$(cut -c1-2 id); mkdir -p $d; strip -s -o plain prog; "
	    "objcopy --only-keep-debug prog $d/$(cut -c3- id).debug; "
	    "printf '\\007' | dd of=$d/$(cut -c3- id).debug bs=1 seek=6 conv=notrunc status=none");
	assert_int_equal(limpet_symbolizer_open(&options, &s, &err), 0);
	assert_false(limpet_symbolizer_has_lines(s));
	assert_int_equal(limpet_symbolizer_failure(s), 0);
	limpet_symbolizer_close(s);
	run("rm -r broken plain");
}

static void test_dynamic_symbols(void **state)
{
	struct limpet_symbolizer *s;

	(void)state;
	run("cc -g -O2 -fPIC -shared -Wl,--build-id -o prog prog.c; cp prog shared.so; "
	    "strip shared.so; ! readelf -S shared.so | grep symtab");
	s = must_open("shared.so");
	check_c(s, false);
	limpet_symbolizer_close(s);
	run("cc -g -O2 -Wl,--build-id -o prog prog.c");
}

static void test_gnu_debugdata(void **state)
{
	struct limpet_symbolizer *s;

	(void)state;
	run("cp prog mini; strip -g -o inner prog; xz -f inner; strip mini; objcopy --add-section "
	    ".gnu_debugdata=inner.xz mini");
	s = must_open("mini");
	check_c(s, false);
	limpet_symbolizer_close(s);
}

static void test_any_name_in_a_debug_dir(void **state)
{
	const char *const dirs[] = {in_directory("heap"), NULL};
	char dir[4096];
	const char *const own_dirs[] = {dir, NULL};
	struct limpet_symbolizer_options options = {.fd = -1, .debug_dirs = own_dirs};
	struct limpet_symbolizer *s;
	struct limpet_err err = {0};
	char path[4096];

	(void)state;
	snprintf(dir, sizeof(dir), "%s", dirs[0]);
	run("rm -rf heap; mkdir heap; cp prog plain; strip plain; objcopy --only-keep-debug prog "
	    "heap/what-is-it; echo text >heap/a; mkfifo heap/fifo; mkdir heap/directory");
	snprintf(path, sizeof(path), "%s", in_directory("plain"));
	options.path = path;
	assert_int_equal(limpet_symbolizer_open(&options, &s, &err), 0);
	check_c(s, true);
	assert_null(limpet_symbolizer_refused(s));
	limpet_symbolizer_close(s);

	/* Its name and another build: not used, and said. */
	run("rm heap/what-is-it; cc -g -O1 -DX -Wl,--build-id -o other prog.c; "
	    "objcopy --only-keep-debug other heap/plain.debug; cp other heap/plain");
	assert_int_equal(limpet_symbolizer_open(&options, &s, &err), 0);
	assert_false(limpet_symbolizer_has_lines(s));
	assert_non_null(limpet_symbolizer_refused(s));
	assert_non_null(strstr(limpet_symbolizer_refused(s), "heap/plain.debug"));
	limpet_symbolizer_close(s);

	/* Without a build-id nothing but a checksum tells builds apart: a name does not. */
	run("cc -g -O2 -Wl,--build-id=none -o plain prog.c; cp plain heap/plain; strip plain; "
	    "objcopy --only-keep-debug heap/plain heap/plain.debug");
	assert_int_equal(limpet_symbolizer_open(&options, &s, &err), 0);
	assert_false(limpet_symbolizer_has_lines(s));
	limpet_symbolizer_close(s);
	run("rm plain");
	assert_int_equal(limpet_symbolizer_open(&options, &s, &err), -ENOENT);
	run("rm -rf heap");
}

/* Names that several programs share are in a file of their own, known by its build-id. */
static void test_dwz(void **state)
{
	char dir[4096], path[4096];
	const char *const dirs[] = {dir, NULL};
	struct limpet_symbolizer_options options = {.fd = -1};
	struct limpet_symbolizer *s;
	struct limpet_err err = {0};

	(void)state;
	/* Enough alike for dwz to find something to share; DWARF 5 and 4. */
	for (int version = 4; version <= 5; version++) {
		run("rm -rf dwz; mkdir dwz; cc -gdwarf-%d -O2 -Wl,--build-id -o prog prog.c; cp "
		    "prog one; cc -gdwarf-%d -O2 -DY -Wl,--build-id -o two prog.c; "
		    "cp one whole; dwz -M ../../common.alt -m dwz/common.alt one two; "
		    "readelf -S one | grep gnu_debugaltlink",
		    version, version);
		snprintf(path, sizeof(path), "%s", in_directory("one"));
		snprintf(dir, sizeof(dir), "%s", in_directory("dwz"));
		options.path = path;
		/* Found by build-id or by name in a debug directory. */
		options.debug_dirs = dirs;
		assert_int_equal(limpet_symbolizer_open(&options, &s, &err), 0);
		check_c(s, true);
		limpet_symbolizer_close(s);
		/* Beside the module, by the name in it. */
		options.debug_dirs = NULL;
		run("mkdir -p sub/sub; cp one sub/sub/one; mv dwz/common.alt .");
		snprintf(path, sizeof(path), "%s", in_directory("sub/sub/one"));
		assert_int_equal(limpet_symbolizer_open(&options, &s, &err), 0);
		check_c(s, true);
		limpet_symbolizer_close(s);
		/* Gone, or another: then there are no wrong names. */
		run("cp two.alt common.alt 2>/dev/null || cp two common.alt");
		assert_int_equal(limpet_symbolizer_open(&options, &s, &err), 0);
		/* Where nothing confines it (confine.h), libdw finds what it likes by itself. */
		if (!IS_SANITIZED) {
			assert_non_null(limpet_symbolizer_unread(s));
			assert_non_null(strstr(limpet_symbolizer_unread(s), "dwz"));
		}
		{
			const struct limpet_symbol *list;
			uint64_t start, end;

			extent("prog", "leak", &start, &end);
			for (uint64_t at = start; at < end; at++) {
				int n = limpet_symbolizer_resolve(s, at, &list);

				for (int i = 0; i < n; i++)
					assert_true(!list[i].function ||
						    !strcmp(list[i].function, "leak") ||
						    !strcmp(list[i].function, "grow"));
			}
		}
		limpet_symbolizer_close(s);
		run("rm -rf dwz common.alt sub one two whole; cc -g -O2 -Wl,--build-id -o prog "
		    "prog.c");
	}
}

static void test_split_debug_of_dwarf_5(void **state)
{
	struct limpet_symbolizer *s;

	(void)state;
	for (int version = 4; version <= 5; version++) {
		/* The parts that -gsplit-dwarf leaves beside the objects, and packed by dwp. */
		run("rm -f *.dwo; cc -gdwarf-%d -gsplit-dwarf -O2 -Wl,--build-id -c prog.c && cc "
		    "-Wl,--build-id -o prog prog.o && ls *.dwo",
		    version);
		s = must_open("prog");
		check_c(s, true);
		limpet_symbolizer_close(s);
		/* Moved, all of them together. */
		run("mkdir moved && mv prog *.dwo moved");
		s = must_open("moved/prog");
		run("mv moved/* . && rmdir moved");
		check_c(s, true);
		limpet_symbolizer_close(s);
		/* Without them the lines are still there, and no crash. */
		run("rm -f *.dwo");
		s = must_open("prog");
		limpet_symbolizer_close(s);
	}
	run("rm -f prog.o; cc -g -O2 -Wl,--build-id -o prog prog.c");
}

/* Each with what libelf does not know itself, or libdw not find. */
static void check_unread(const char *name, const char *words)
{
	struct limpet_symbolizer *s = must_open(name);
	const struct limpet_symbol *list;

	/* Not all is looked at before it is asked for. */
	for (uint64_t at = 0x1000; at < 0x1400; at += 16)
		(void)limpet_symbolizer_resolve(s, at, &list);
	assert_int_equal(limpet_symbolizer_failure(s), 0);
	if (!words)
		assert_null(limpet_symbolizer_unread(s));
	else if (!limpet_symbolizer_unread(s) || !strstr(limpet_symbolizer_unread(s), words))
		fail_msg("%s", limpet_symbolizer_unread(s) ?: "not a word");
	limpet_symbolizer_close(s);
}

/* In the file itself, in one of its own, and in parts of split debug information. */
static void test_zstd(void **state)
{
	struct limpet_symbolizer *s;

	(void)state;
	run("cp prog zprog && objcopy --compress-debug-sections=zstd zprog && "
	    "readelf -tW zprog | grep -q 'ZSTD'");
	s = must_open("zprog");
	check_c(s, true);
	limpet_symbolizer_close(s);
	check_unread("zprog", NULL);
	run("objcopy --only-keep-debug zprog zprog.debug && strip zprog && objcopy "
	    "--add-gnu-debuglink=zprog.debug zprog");
	s = must_open("zprog");
	check_c(s, true);
	limpet_symbolizer_close(s);
	check_unread("zprog", NULL);
	run("rm -f *.dwo; cc -gdwarf-5 -gsplit-dwarf -O2 -Wl,--build-id -c prog.c && cc "
	    "-Wl,--build-id -o zprog prog.o && objcopy --compress-debug-sections=zstd *.dwo && "
	    "readelf -tW *.dwo | grep -q ZSTD");
	s = must_open("zprog");
	check_c(s, true);
	limpet_symbolizer_close(s);
	check_unread("zprog", NULL);
	run("rm -f *.dwo");
	check_unread("zprog", ".dwo");
	run("rm -f prog.o zprog");
}

/* Of the first section that zstd has compressed: its header, and the bytes after it. */
static void spoil(const char *name, uint32_t type, uint64_t bytes, bool contents)
{
	int fd = open(in_directory(name), O_RDWR | O_CLOEXEC);
	Elf64_Ehdr file;
	Elf64_Shdr head;
	Elf64_Chdr compressed;
	unsigned spoilt = 0;

	assert_int_equal(pread(fd, &file, sizeof(file), 0), sizeof(file));
	for (unsigned i = 0; i < file.e_shnum; i++) {
		assert_int_equal(
			pread(fd, &head, sizeof(head), (off_t)(file.e_shoff + i * sizeof(head))),
			sizeof(head));
		if (!(head.sh_flags & SHF_COMPRESSED))
			continue;
		assert_int_equal(pread(fd, &compressed, sizeof(compressed), (off_t)head.sh_offset),
				 sizeof(compressed));
		compressed.ch_type = type;
		compressed.ch_size = bytes ? bytes : compressed.ch_size;
		assert_int_equal(pwrite(fd, &compressed, sizeof(compressed), (off_t)head.sh_offset),
				 sizeof(compressed));
		if (contents)
			assert_int_equal(
				pwrite(fd, "????", 4, (off_t)(head.sh_offset + sizeof(compressed))),
				4);
		spoilt++;
	}
	assert_true(spoilt > 0);
	close(fd);
}

static void test_what_cannot_be_read_is_said(void **state)
{
	static const char words[] = "cannot be decompressed";

	(void)state;
	run("cp prog zprog && objcopy --compress-debug-sections=zstd zprog && cp zprog kept");
	spoil("zprog", 3, 0, false);
	check_unread("zprog", words);
	run("cp kept zprog");
	spoil("zprog", 2, 0, true);
	check_unread("zprog", words);
	/* As large as they say, and far larger than any. */
	run("cp kept zprog");
	spoil("zprog", 2, 100000, false);
	check_unread("zprog", words);
	run("cp kept zprog");
	spoil("zprog", 2, 1ull << 40, false);
	check_unread("zprog", words);
	run("cp kept zprog");
	spoil("zprog", 2, UINT64_MAX, false);
	check_unread("zprog", words);
	run("cp prog zprog && objcopy --dump-section .debug_info=info zprog && printf '\\377\\377' "
	    "|"
	    " dd of=info bs=1 seek=4 conv=notrunc && objcopy --update-section .debug_info=info "
	    "zprog");
	check_unread("zprog", "libdw");
	/* Nothing is wrong with one that has none. */
	run("cp prog zprog && strip zprog");
	check_unread("zprog", NULL);
	run("rm -f zprog kept info");
}

static void test_other_build_is_refused(void **state)
{
	uint8_t id[64];
	size_t id_bytes = prog_build_id(id);
	struct limpet_symbolizer_options options = {
		.path = in_directory("prog"), .fd = -1, .build_id = id, .build_id_bytes = id_bytes};
	struct limpet_symbolizer *s = NULL;
	struct limpet_err err = {0};

	(void)state;
	id[3] ^= 1;
	assert_int_equal(limpet_symbolizer_open(&options, &s, &err), -ESTALE);
	assert_null(s);
	assert_non_null(strstr(err.message, "another build"));
	options.build_id_bytes--;
	id[3] ^= 1;
	assert_int_equal(limpet_symbolizer_open(&options, &s, &err), -ESTALE);
	options.build_id_bytes++;
	assert_int_equal(limpet_symbolizer_open(&options, &s, &err), 0);
	limpet_symbolizer_close(s);
}

static void test_descriptor_of_a_deleted_file(void **state)
{
	uint8_t id[64];
	size_t id_bytes = prog_build_id(id);
	struct limpet_symbolizer_options options = {.build_id = id, .build_id_bytes = id_bytes};
	struct limpet_symbolizer *s;
	struct limpet_err err = {0};
	char path[4096];

	(void)state;
	run("cp prog upgraded");
	options.fd = open(in_directory("upgraded"), O_RDONLY | O_CLOEXEC);
	assert_true(options.fd >= 0);
	run("rm upgraded; cc -O1 -g -DNEW -o upgraded prog.c");
	snprintf(path, sizeof(path), "%s/upgraded (deleted)", directory);
	options.path = path;
	assert_int_equal(limpet_symbolizer_open(&options, &s, &err), 0);
	check_c(s, true);
	limpet_symbolizer_close(s);
	/* Borrowed: it is still open. */
	assert_true(fcntl(options.fd, F_GETFD) >= 0);
	close(options.fd);
	options.fd = -1;
	assert_int_equal(limpet_symbolizer_open(&options, &s, &err), -ESTALE);
}

static void test_root_of_a_container(void **state)
{
	char root[4096];
	struct limpet_symbolizer_options options = {
		.path = "/only/inside/prog", .fd = -1, .root = root};
	struct limpet_symbolizer *s;
	struct limpet_err err = {0};

	(void)state;
	snprintf(root, sizeof(root), "%s/rootfs", directory);
	run("mkdir -p rootfs/only/inside && cp prog rootfs/only/inside/");
	assert_int_equal(limpet_symbolizer_open(&options, &s, &err), 0);
	check_c(s, true);
	limpet_symbolizer_close(s);
}

/* Its links lead where its own processes would get to, not to files of ours: it can make links to
 * whatever we may read. */
static void test_links_of_a_container(void **state)
{
	char root[4096];
	struct limpet_symbolizer_options options = {
		.path = "/only/inside/plain", .fd = -1, .root = root};
	struct limpet_symbolizer *s;
	struct limpet_err err = {0};
	uint8_t id[64];

	(void)state;
	options.build_id = id;
	options.build_id_bytes = prog_build_id(id);
	snprintf(root, sizeof(root), "%s/rootfs", directory);
	run("rm -rf rootfs; d=rootfs/usr/lib/debug/.build-id/$(cut -c1-2 id); mkdir -p $d "
	    "rootfs/opt "
	    "rootfs/only/inside; strip -g -o rootfs/only/inside/plain prog; "
	    "objcopy --only-keep-debug prog outside.debug; "
	    "ln -s \"$PWD/outside.debug\" $d/$(cut -c3- id).debug");
	assert_int_equal(limpet_symbolizer_open(&options, &s, &err), 0);
	check_c(s, false);
	limpet_symbolizer_close(s);
	run("mv outside.debug rootfs/opt/inside.debug; "
	    "ln -sf /opt/inside.debug rootfs/usr/lib/debug/.build-id/*/*.debug");
	assert_int_equal(limpet_symbolizer_open(&options, &s, &err), 0);
	check_c(s, true);
	limpet_symbolizer_close(s);
	/* The module itself. */
	run("ln -sf \"$PWD/prog\" rootfs/only/inside/plain; rm -r rootfs/usr");
	assert_int_equal(limpet_symbolizer_open(&options, &s, &err), -ENOENT);
	run("rm -rf rootfs");
}

static void test_not_a_module(void **state)
{
	struct limpet_symbolizer *s = NULL;
	struct limpet_err err = {0};

	(void)state;
	assert_int_equal(try_open("prog.c", &s, &err), -ENOEXEC);
	assert_int_equal(try_open("missing", &s, &err), -ENOENT);
	run("mkfifo fifo; mkdir directory; : >empty");
	assert_int_equal(try_open("fifo", &s, &err), -ENOEXEC);
	assert_int_equal(try_open("directory", &s, &err), -ENOEXEC);
	assert_int_equal(try_open("empty", &s, &err), -ENOEXEC);
	assert_null(s);
}

/* Files cut anywhere and with bytes changed: any answer will do, no crash. */
static void test_damaged_files(void **state)
{
	char *bytes;
	size_t count;
	uint64_t seed = 12345, start, end;
	FILE *file = fopen(in_directory("prog"), "r");
	struct stat st;

	(void)state;
	assert_non_null(file);
	assert_int_equal(fstat(fileno(file), &st), 0);
	count = (size_t)st.st_size;
	bytes = malloc(count);
	assert_non_null(bytes);
	extent("prog", "leak", &start, &end);
	for (int round = 0; round < 200; round++) {
		struct limpet_symbolizer *s = NULL;
		struct limpet_err err = {0};
		const struct limpet_symbol *list;
		size_t keep = count;
		FILE *out;

		rewind(file);
		assert_int_equal(fread(bytes, 1, count, file), count);
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		if (round % 2)
			keep = (size_t)(seed >> 20) % count;
		else
			for (int i = 0; i < 20; i++) {
				seed = seed * 6364136223846793005ull + 1442695040888963407ull;
				bytes[64 + (seed >> 20) % (count - 64)] = (char)(seed >> 56);
			}
		out = fopen(in_directory("damaged"), "w");
		assert_non_null(out);
		assert_int_equal(fwrite(bytes, 1, keep, out), keep);
		fclose(out);
		if (try_open("damaged", &s, &err) < 0) {
			assert_true(err.message[0] != '\0');
			continue;
		}
		for (uint64_t at = start; at < end; at++)
			assert_true(limpet_symbolizer_resolve(s, at, &list) >= 0);
		limpet_symbolizer_close(s);
	}
	fclose(file);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_c_with_inlined_functions),
		cmocka_unit_test(test_cxx_names),
		cmocka_unit_test(test_rust_names),
		cmocka_unit_test(test_stripped_module_is_silent),
		cmocka_unit_test(test_debuglink_beside),
		cmocka_unit_test(test_debug_dir_by_build_id),
		cmocka_unit_test(test_debug_file_that_is_none),
		cmocka_unit_test(test_dynamic_symbols),
		cmocka_unit_test(test_gnu_debugdata),
		cmocka_unit_test(test_any_name_in_a_debug_dir),
		cmocka_unit_test(test_dwz),
		cmocka_unit_test(test_split_debug_of_dwarf_5),
		cmocka_unit_test(test_zstd),
		cmocka_unit_test(test_what_cannot_be_read_is_said),
		cmocka_unit_test(test_other_build_is_refused),
		cmocka_unit_test(test_descriptor_of_a_deleted_file),
		cmocka_unit_test(test_root_of_a_container),
		cmocka_unit_test(test_links_of_a_container),
		cmocka_unit_test(test_not_a_module),
		cmocka_unit_test(test_damaged_files),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
