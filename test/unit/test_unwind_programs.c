/* Stacks of other programs, stopped and copied, as the injector sees them: Rust as its compiler
 * links it, node.js from JavaScript down, Python, threads. libdwfl, another unwinder, must agree.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/unit/skip_reason.h"
#include "test/unit/unwind_fixture.h"

enum { MAX_DEPTH = 256, MAX_MODULES = 64 };

struct program {
	pid_t pid;
	int to_stdin;
	struct limpet_unwind_module modules[MAX_MODULES];
	uint8_t *arena;
	size_t arena_bytes;
	struct limpet_walk_map map;
	uint64_t stack_high;
};

static char directory[] = "/tmp/limpet-programs-XXXXXX";

static int make_directory(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(directory));
	return 0;
}

static int remove_directory(void **state)
{
	char command[256];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", directory);
	return system(command);
}

/* Writes `source` to the directory, runs `command` there; false if its tool is not here. */
static bool build(const char *tool, const char *file, const char *source, const char *command)
{
	char line[1024];
	FILE *out;

	snprintf(line, sizeof(line), "command -v %s >/dev/null 2>&1", tool);
	if (system(line) != 0) {
		print_message("# skip reason: no %s\n", tool);
		return false;
	}
	snprintf(line, sizeof(line), "%s/%s", directory, file);
	out = fopen(line, "we");
	assert_non_null(out);
	assert_true(fputs(source, out) >= 0);
	assert_int_equal(fclose(out), 0);
	snprintf(line, sizeof(line), "cd %s && %s", directory, command);
	assert_int_equal(system(line), 0);
	return true;
}

/* Whether the thread waits in read(0, ...). */
static bool reads_stdin(pid_t pid)
{
	char path[64], text[128] = "", *rest;
	FILE *file;
	long number;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	number = strtol(text, &rest, 10); /* "running" has none */
	return rest != text && number == SYS_read && strtoul(rest, NULL, 16) == 0;
}

static void start(struct program *program, char *const arguments[])
{
	const struct timespec pause = {.tv_nsec = 5000000};
	int pipe_fds[2], status;

	memset(program, 0, sizeof(*program));
	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	program->pid = fork();
	assert_true(program->pid >= 0);
	if (program->pid == 0) {
		dup2(pipe_fds[0], 0);
		execvp(arguments[0], arguments);
		_exit(127);
	}
	close(pipe_fds[0]);
	program->to_stdin = pipe_fds[1];
	while (!reads_stdin(program->pid)) {
		if (waitpid(program->pid, &status, WNOHANG) != 0)
			fail_msg("%s does not get to its read", arguments[0]);
		nanosleep(&pause, NULL);
	}
	assert_int_equal(ptrace(PTRACE_SEIZE, program->pid, 0, 0), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, program->pid, 0, 0), 0);
	assert_int_equal(waitpid(program->pid, &status, __WALL), program->pid);
	assert_true(WIFSTOPPED(status));
}

static void finish(struct program *program)
{
	int status;

	free(program->arena);
	assert_int_equal(ptrace(PTRACE_DETACH, program->pid, 0, 0), 0);
	assert_int_equal(write(program->to_stdin, "x\n", 2), 2);
	close(program->to_stdin);
	assert_int_equal(waitpid(program->pid, &status, 0), program->pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void add_module(struct program *program, const char *path, uint64_t start, uint64_t offset)
{
	struct fixture_file file;
	struct limpet_unwind_module module;
	uint64_t bias = UINT64_MAX;
	size_t segments, bytes;

	assert_true(program->map.count < MAX_MODULES);
	assert_true(fixture_file_open(path, &file));
	assert_int_equal(elf_getphdrnum(file.elf, &segments), 0);
	for (size_t i = 0; i < segments; i++) {
		GElf_Phdr segment;

		assert_non_null(gelf_getphdr(file.elf, (int)i, &segment));
		if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) &&
		    (segment.p_offset & ~4095ull) == offset)
			bias = start - (segment.p_vaddr & ~4095ull);
	}
	assert_true(bias != UINT64_MAX);
	bytes = file.table->bytes;
	program->arena = realloc(program->arena, program->arena_bytes + bytes + 16);
	assert_non_null(program->arena);
	if (program->arena_bytes == 0)
		program->arena_bytes = 16;
	memcpy(program->arena + program->arena_bytes, file.table, bytes);
	module = file.module;
	module.start += bias;
	module.end += bias;
	module.table = program->arena_bytes;
	program->arena_bytes += bytes;
	program->modules[program->map.count++] = module;
	fixture_file_close(&file);
}

/* /proc/PID/maps is sorted, so the modules are. */
static void read_maps(struct program *program)
{
	char line[4352], last[4352] = "", name[64], *path, *rest;
	FILE *maps;

	snprintf(name, sizeof(name), "/proc/%d/maps", (int)program->pid);
	maps = fopen(name, "re");
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		uint64_t start = strtoull(line, &rest, 16);
		uint64_t end = strtoull(rest + 1, &rest, 16);
		bool executable = rest[3] == 'x';
		uint64_t offset = strtoull(rest + 5, NULL, 16);

		path = strpbrk(rest, "/[");
		if (!path)
			continue;
		path[strcspn(path, "\n")] = '\0';
		if (strcmp(path, "[stack]") == 0)
			program->stack_high = end;
		if (!executable || path[0] != '/' || strcmp(path, last) == 0)
			continue;
		strcpy(last, path);
		add_module(program, path, start, offset);
	}
	fclose(maps);
	assert_true(program->stack_high != 0);
	program->map.modules = program->modules;
	program->map.arena = program->arena;
	program->map.sorted = program->map.count;
}

struct stack {
	uint64_t pcs[MAX_DEPTH];
	const char *names[MAX_DEPTH];
	uint32_t count;
	uint32_t by_fp; /* frames found by frame pointer */
	enum limpet_walk_end end;
};

static void walk(struct program *program, struct stack *ret_stack)
{
	struct user_regs_struct registers;
	struct limpet_walk_copy copy;
	struct limpet_walk_frame frame = {.flags = LIMPET_FRAME_EXACT}, at;
	uint8_t *data;

	memset(ret_stack, 0, sizeof(*ret_stack));
	assert_int_equal(ptrace(PTRACE_GETREGS, program->pid, 0, &registers), 0);
	frame.pc = registers.rip;
	frame.sp = registers.rsp;
	frame.fp = registers.rbp;
	copy.base = frame.sp;
	copy.bytes = program->stack_high - frame.sp;
	copy.data = data = malloc(copy.bytes);
	assert_non_null(data);
	assert_int_equal(process_vm_readv(program->pid, &(struct iovec){data, copy.bytes}, 1,
					  &(struct iovec){(void *)(uintptr_t)copy.base, copy.bytes},
					  1, 0),
			 copy.bytes);
	ret_stack->count = limpet_walk(
		&program->map, NULL, limpet_walk_read_copy, &copy, frame,
		&(struct limpet_walk_result){ret_stack->pcs, MAX_DEPTH, &ret_stack->end, NULL});
	for (at = frame; limpet_walk_step(&program->map, NULL, limpet_walk_read_copy, &copy, &at) ==
			 LIMPET_WALK_MORE;)
		ret_stack->by_fp += (at.flags & LIMPET_FRAME_BY_FP) != 0;
	free(data);
}

/* ------------------------------------------------------------------ libdwfl */

struct theirs {
	uint64_t pcs[MAX_DEPTH];
	uint32_t count;
};

static int note_frame(Dwfl_Frame *frame, void *context)
{
	struct theirs *theirs = context;
	bool exact;

	if (theirs->count == MAX_DEPTH ||
	    !dwfl_frame_pc(frame, &theirs->pcs[theirs->count], &exact))
		return DWARF_CB_ABORT;
	theirs->pcs[theirs->count++] += exact;
	return DWARF_CB_OK;
}

/* Names our frames. The caller ends the session, which the names belong to. */
static Dwfl *name(struct program *program, struct stack *stack)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = dwfl_linux_proc_find_elf,
		.find_debuginfo = dwfl_standard_find_debuginfo,
	};
	Dwfl *dwfl = dwfl_begin(&callbacks);

	assert_non_null(dwfl);
	assert_int_equal(dwfl_linux_proc_report(dwfl, program->pid), 0);
	assert_int_equal(dwfl_report_end(dwfl, NULL, NULL), 0);
	for (uint32_t i = 0; i < stack->count; i++) {
		Dwfl_Module *module = dwfl_addrmodule(dwfl, stack->pcs[i] - 1);

		if (!limpet_walk_find_module(&program->map, stack->pcs[i] - 1))
			stack->names[i] = "(no module)";
		else if (module)
			stack->names[i] = dwfl_module_addrname(module, stack->pcs[i] - 1);
		if (!stack->names[i])
			stack->names[i] = "?";
	}
	return dwfl;
}

/* Holds our frames against libdwfl's own walk. Answers how many that had. */
static uint32_t compare(Dwfl *dwfl, const struct program *program, const struct stack *stack)
{
	struct theirs theirs = {.count = 0};

	assert_int_equal(dwfl_linux_proc_attach(dwfl, program->pid, true), 0);
	dwfl_getthread_frames(dwfl, program->pid, note_frame, &theirs);
	for (uint32_t i = 0; i < stack->count || i < theirs.count; i++)
		if (i >= stack->count || i >= theirs.count || stack->pcs[i] != theirs.pcs[i]) {
			print_message("# frame %u: ours %#lx %s, libdwfl %#lx\n", i,
				      i < stack->count ? (long)stack->pcs[i] : 0,
				      i < stack->count ? stack->names[i] : "",
				      i < theirs.count ? (long)theirs.pcs[i] : 0);
			break;
		}
	for (uint32_t i = 0; i < stack->count && i < theirs.count; i++)
		assert_int_equal(stack->pcs[i], theirs.pcs[i]);
	return theirs.count;
}

/* Each name must be there, in this order from the innermost on. "prefix*" is a prefix. */
static void assert_names(const struct stack *stack, const char *const *names)
{
	uint32_t at = 0;

	for (; *names; names++) {
		size_t bytes = strcspn(*names, "*");
		bool prefix = (*names)[bytes] == '*';

		while (at < stack->count && (strncmp(stack->names[at], *names, bytes) != 0 ||
					     (!prefix && stack->names[at][bytes] != '\0')))
			at++;
		if (at == stack->count) {
			for (uint32_t i = 0; i < stack->count; i++)
				print_message("#   %#lx %s\n", (long)stack->pcs[i],
					      stack->names[i]);
			fail_msg("no frame '%s' where it should be", *names);
		}
	}
}

static void check(char *const arguments[], const char *const *names, uint32_t least_by_fp)
{
	struct program program;
	struct stack stack;
	uint32_t theirs;
	Dwfl *dwfl;

	start(&program, arguments);
	read_maps(&program);
	walk(&program, &stack);
	dwfl = name(&program, &stack);
	theirs = compare(dwfl, &program, &stack);
	print_message("# %s: %u frames, %u by frame pointer, %u by libdwfl\n", arguments[0],
		      stack.count, stack.by_fp, theirs);
	assert_int_equal(stack.end, LIMPET_WALK_COMPLETE);
	assert_names(&stack, names);
	assert_string_equal(stack.names[stack.count - 1], "_start");
	assert_true(stack.by_fp >= least_by_fp);
	dwfl_end(dwfl);
	finish(&program);
}

static void test_rust(void **state)
{
	(void)state;
	static const char source[] =
		"use std::io::Read;\n"
		"#[no_mangle] #[inline(never)] pub extern \"C\" fn rust_inner(n: u32) -> u32 {\n"
		"	let mut b = [0u8; 1];\n"
		"	std::io::stdin().read_exact(&mut b).unwrap();\n"
		"	std::hint::black_box(b[0] as u32 + n) }\n"
		"#[no_mangle] #[inline(never)] pub extern \"C\" fn rust_outer(n: u32) -> u32 {\n"
		"	let v: Vec<u32> = [n].iter().map(|x| rust_inner(*x)).collect();\n"
		"	std::hint::black_box(v[0]) + 1 }\n"
		"fn main() { std::process::exit((rust_outer(1) == 0) as i32); }\n";
	static const char *const names[] = {"read", "rust_inner",         "rust_outer",
					    "main", "__libc_start_main*", NULL};
	char path[128];

	if (!build("rustc", "program.rs", source,
		   "rustc -O program.rs -o rust >rust.log 2>&1 || true"))
		skip();
	snprintf(path, sizeof(path), "%s/rust", directory);
	if (access(path, X_OK) != 0)
		limpet_skip("this rustc is too old for the program");
	check((char *[]){path, NULL}, names, 0);
}

static void test_plain_c(void **state)
{
	(void)state;
	static const char source[] = "#include <stdlib.h>\n"
				     "#include <unistd.h>\n"
				     "static int compare(const void *a, const void *b) {\n"
				     "	char c; (void)a; (void)b;\n"
				     "	return read(0, &c, 1) > 1; }\n"
				     "int main(void) { int l[2] = {2, 1};\n"
				     "	qsort(l, 2, sizeof(l[0]), compare); return 0; }\n";
	static const char *const names[] = {"read", "compare", "qsort*", "main", NULL};
	char path[128];

	if (!build("cc", "program.c", source, "cc -O2 -fomit-frame-pointer program.c -o plain"))
		skip();
	snprintf(path, sizeof(path), "%s/plain", directory);
	check((char *[]){path, NULL}, names, 0);
}

/* musl describes neither its signal restorer nor most of its code. The program waits in a handler,
 * by system calls of its own, so that musl's code is on the stack only as restorer and root. The
 * restorer is passed; what called main() keeps no frame pointer and is the end of what can be
 * known, which must not be taken for a whole stack. */
static void test_musl_signal_handler(void **state)
{
	(void)state;
	static const char source[] =
		"#include <signal.h>\n"
		"#include <sys/syscall.h>\n"
		"#include <unistd.h>\n"
		"static long call(long n, long a, long b, long c) {\n"
		"	__asm__ volatile(\"syscall\" : \"+a\"(n) : \"D\"(a), \"S\"(b), \"d\"(c)\n"
		"			 : \"rcx\", \"r11\", \"memory\");\n"
		"	return n; }\n"
		"static __attribute__((noinline)) void handler(int s) {\n"
		"	char c[2]; (void)s; call(SYS_read, 0, (long)c, 1); c[1] = c[0]; }\n"
		"__attribute__((noinline)) static long outer(int n) {\n"
		"	volatile char room[100]; room[n] = 1;\n"
		"	return call(SYS_kill, getpid(), SIGUSR1, 0) + room[n] - 1; }\n"
		"int main(void) { signal(SIGUSR1, handler); return outer(3); }\n";
	static const char *const names[] = {"handler", "outer*", "main", NULL};
	struct program program;
	struct stack stack;
	char path[128];
	Dwfl *dwfl;

	if (!build("musl-gcc", "signal.c", source,
		   "musl-gcc -O2 -fasynchronous-unwind-tables signal.c -o signal")) {
		skip();
		return;
	}
	snprintf(path, sizeof(path), "%s/signal", directory);
	start(&program, (char *[]){path, NULL});
	read_maps(&program);
	walk(&program, &stack);
	dwfl = name(&program, &stack);
	print_message("# musl: %u frames, %u by frame pointer\n", stack.count, stack.by_fp);
	assert_names(&stack, names);
	assert_int_equal(stack.count, 5);
	assert_int_equal(stack.end, LIMPET_WALK_LOST);
	dwfl_end(dwfl);
	finish(&program);
}

/* JavaScript, interpreted and compiled, between C++ and C++. */
static void test_node(void **state)
{
	(void)state;
	/* Called with functions of many kinds, `call` is compiled to machine code that calls any.
	 */
	static const char source[] =
		"const fs = require('fs');\n"
		"function call(f, n) { return f(n) + n; }\n"
		"function reader(n) { fs.readSync(0, Buffer.alloc(1)); return n; }\n"
		"const kinds = [a => a, a => a + 1, a => a * 2, a => -a, a => a | 1, a => a & 7];\n"
		"function run(last) {\n"
		"	%PrepareFunctionForOptimization(call);\n"
		"	for (let i = 0; i < 6000; i++) call(kinds[i % 6], i);\n"
		"	%OptimizeFunctionOnNextCall(call);\n"
		"	call(kinds[0], 1);\n"
		"	return call(last, 1); }\n"
		"let read = false;\n"
		"JSON.parse('[1]', () => { if (!read) { read = true; run(reader); } });\n";
	static const char *const names[] = {
		"read",        "uv_fs_read",        "Builtins_*",
		"(no module)", "Builtins_JSEntry*", "_ZN2v88internal21JsonParse*",
		"Builtins_*",  "Builtins_JSEntry*", "_ZN4node5StartEiPPc",
		NULL};
	char path[128];

	if (!build("node", "program.js", source, "true"))
		skip();
	/* A distribution's node is a small program and a stripped library. */
	if (system("node -p process.execPath | xargs nm 2>/dev/null | grep -q Builtins_") != 0)
		limpet_skip("this node has no names for its builtins");
	snprintf(path, sizeof(path), "%s/program.js", directory);
	check((char *[]){(char *)"node", (char *)"--allow-natives-syntax", path, NULL}, names, 5);
}

static void test_python(void **state)
{
	(void)state;
	static const char source[] = "import json, os\n"
				     "def hook(pairs): os.read(0, 1); return 1\n"
				     "json.loads('{\"a\": 1}', object_pairs_hook=hook)\n";
	static const char *const names[] = {"read", "_PyEval*", "Py_*Main*", NULL};
	char path[128];

	if (!build("python3", "program.py", source, "true"))
		skip();
	snprintf(path, sizeof(path), "%s/program.py", directory);
	check((char *[]){(char *)"python3", path, NULL}, names, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_c),
		cmocka_unit_test(test_rust),
		cmocka_unit_test(test_musl_signal_handler),
		cmocka_unit_test(test_node),
		cmocka_unit_test(test_python),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
