#!/usr/bin/env bats
# `limpet seal`: debug files, debug servers, and names of code that a program makes itself.

load helpers
setup() { begin; }
teardown() {
	end
	rm -f "${perf_map:-/nowhere/none}"
}

# A storm without symbols, and its debug file under a name that says nothing.
strip_storm() {
	mkdir debug
	cp "$TARGETS/storm" stripped
	objcopy --only-keep-debug stripped debug/7f3a
	strip stripped
	build_id=$(readelf -n stripped | sed -n 's/.*Build ID: //p')
	[[ $build_id =~ ^[0-9a-f]{40}$ ]]
}

capture_stripped() {
	strip_storm || return 1
	start storm ./stripped --threads 2 || return 1
	attach "$pid" || return 1
	tell storm "leak 40" leaked || return 1
	stop "$pid" || return 1
	finish storm
}

# named [YES]: whether the report knows function and line of the leak.
named() {
	report || return 1
	expect '([.sites[].stack[] | select(.function == "storm_leak" and .line > 0 and
		(.file | endswith("/storm.c")))] | length > 0) == $want' --argjson want "${1:-true}"
}

@test "a function without a name, below those that a stripped program exports" {
	cat >exports.c <<-'end'
		#include <stdlib.h>
		void *volatile kept[64];
		static __attribute__((noinline)) void hidden(int i) { kept[i] = malloc(10000); }
		#define CALLS(name, next) __attribute__((noinline)) void name(int i) { next(i); kept[i] = kept[i]; }
		CALLS(first, hidden)
		CALLS(second, first)
		CALLS(third, second)
		int main(void) { for (int i = 0; i < 64; i++) third(i); }
	end
	cc -O1 -rdynamic -o exports exports.c
	strip exports
	within 60 "$LIMPET" run -q -o exports.limpet -- ./exports
	"$LIMPET" report exports.limpet >text
	grep -q '^ *third' text || fail "no exported function: $(<text)"
	grep -qE '^no names  for exports \(625\.0 KiB of ' text || fail "$(<text)"
}

@test "a stripped program gets names from a debug file, by its build-id alone" {
	capture_stripped
	named false
	"$LIMPET" report "$trace" >text
	grep -qE '^no names  for stripped \(([0-9.]+ [KM]?i?B) of \1 live\): `limpet seal --debug-dir DIR` adds them from debug files$' text ||
		fail "$(<text)"
	# Its name, and another build.
	mkdir wrong
	objcopy --only-keep-debug "$TARGETS/loader" wrong/stripped.debug
	run --separate-stderr within 60 "$LIMPET" seal "$trace" --debug-dir wrong
	[[ $status == 0 && -z $output ]]
	[[ $stderr == *"wrong/stripped.debug' is of another build than the stripped captured: not used"* ]]
	named false
	run --separate-stderr within 60 "$LIMPET" seal "$trace" --debug-dir wrong --debug-dir debug
	[[ $status == 0 && $stderr != *"another build"* ]]
	named
	(($("$LIMPET" report "$trace" | grep -c '^no names') == 0)) || fail "$("$LIMPET" report "$trace")"
	# Once more: not a byte.
	local bytes
	bytes=$(stat -c %s "$trace")
	within 60 "$LIMPET" seal -q "$trace" --debug-dir debug
	same "size" "$(stat -c %s "$trace")" "$bytes"
	good_capture
	# On a machine that has nothing of it.
	rm -r debug stripped
	within 60 "$LIMPET" seal -q "$trace"
	named
}

# serve CODE: a server on the loopback in Python, which says "ready PID PORT". Sets `port`.
serve() {
	start web python3 -u -c "$1" "$work/served"
	port=$ready
	export DEBUGINFOD_CACHE_PATH=$work/cache
}

directory_server='
import functools, http.server, os, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
print("ready", os.getpid(), server.server_port)
server.serve_forever()'
silent_server='
import os, socket
server = socket.create_server(("127.0.0.1", 0))
print("ready", os.getpid(), server.getsockname()[1])
held = []
while True:
    held.append(server.accept())
    print("asked", flush=True)'

@test "DEBUGINFOD_URLS: a server is asked by build-id; without it nobody is" {
	unset DEBUGINFOD_URLS
	capture_stripped
	mkdir -p "served/buildid/$build_id"
	cp debug/7f3a "served/buildid/$build_id/debuginfo"
	serve "$directory_server"
	within 60 "$LIMPET" seal "$trace"
	DEBUGINFOD_URLS='' within 60 "$LIMPET" seal "$trace"
	[[ ! -s web.err ]] || fail "a server was asked: $(cat web.err)"
	named false
	cp "$trace" bare.limpet
	# Another program's debug file under this build-id is not believed.
	cp "$trace" fooled.limpet
	objcopy --only-keep-debug "$TARGETS/loader" "served/buildid/$build_id/debuginfo"
	DEBUGINFOD_URLS=http://127.0.0.1:$port within 60 "$LIMPET" seal fooled.limpet
	grep -q "GET /buildid/$build_id/debuginfo" web.err
	"$LIMPET" report --json fooled.limpet |
		json_says '[.sites[].stack[] | select(.module | endswith("/stripped")).function] |
			length > 0 and all(. == null)'
	rm -r cache
	cp debug/7f3a "served/buildid/$build_id/debuginfo"
	run --separate-stderr within 60 env DEBUGINFOD_URLS="http://127.0.0.1:$port" "$LIMPET" seal "$trace"
	[[ $status == 0 && $stderr == *"debuginfod: 1 debug file"* ]]
	named
	# Where the program itself is gone, too.
	rm -r stripped cache
	DEBUGINFOD_URLS=http://127.0.0.1:$port within 60 "$LIMPET" seal bare.limpet
	trace=bare.limpet
	named
}

@test "a debug server that does not answer: Ctrl-C ends it, and the rest is kept" {
	capture_stripped
	serve "$silent_server"
	DEBUGINFOD_URLS=http://127.0.0.1:$port env --default-signal=INT "$LIMPET" seal "$trace" \
		2>seal.err 3>&- &
	local job=$!
	limpet_jobs+=("$job")
	heard web asked
	kill -INT "$job"
	exit_status_of "$job" 20
	same "status" "$status" 1
	grep -q interrupted seal.err
	good_capture
	# What was not answered is asked for again; there is nobody at that port.
	run --separate-stderr within 60 env DEBUGINFOD_URLS=http://127.0.0.1:1 "$LIMPET" seal "$trace"
	[[ $status == 0 && $stderr == *"debuginfod: Connection refused"* ]]
}

made_code='
function leaky(n) {
	const kept = [];
	for (let i = 0; i < n; i++) kept.push(Buffer.allocUnsafeSlow(4096));
	return kept;
}
function dropping(n) {
	for (let i = 0; i < n; i++) Buffer.allocUnsafeSlow(4096);
}
const all = [];
console.log(`ready ${process.pid}`);
require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
	if (line === "quit") process.exit(0);
	all.push(leaky(Number(line)));
	dropping(Number(line));
	console.log("kept");
});'

knows_leaky() {
	report || return 1
	expect '[.sites[].stack[] | select(.module == null and .function == "leaky" and .line == 2)] | length > 0' || return 1
	# The page has them, too; and of the report's entry of one function no other's stack is a part, for all that they have
	# in common.
	within 60 "$LIMPET" html -o page.html "$trace" >/dev/null || return 1
	PYTHONPATH=$root/test/html python3 -c 'import page_figures, sys
figures = page_figures.of_page(open("page.html", encoding="utf-8").read())
sys.exit(not {"leaky", "dropping"} <= set(figures["strings"]))' || fail "the page has no name of them" || return 1
	# Every row: how many are above these depends on what node compiled by then.
	within 60 "$LIMPET" report "$trace" --sort allocations -n 1000000 >report.text || return 1
	grep -q '^      leaky ' report.text || fail "$(<report.text)" || return 1
	grep -q '^      dropping ' report.text || fail "$(<report.text)"
}

# track: runtime | node.js with `--perf-basic-prof` | attach | JavaScript functions have names, too
# bats test_tags=release
@test "code that node made has names, also when node is gone at the end" {
	start node node --perf-basic-prof --interpreted-frames-native-stack -e "$made_code"
	perf_map=/tmp/perf-$pid.map
	[[ -s $perf_map ]]
	attach "$pid"
	tell node 2000 kept
	stop "$pid"
	knows_leaky
	cp "$trace" before.limpet
	attach "$pid" --no-seal
	tell node 2000 kept
	stop "$pid"
	report
	expect '[.sites[].stack[] | select(.function == "leaky")] == []'
	run --separate-stderr within 60 "$LIMPET" seal "$trace"
	[[ $stderr == *"addresses in JIT-compiled code have a name"* ]]
	knows_leaky
	attach "$pid"
	tell node 2000 kept
	finish node
	attached 0
	knows_leaky
	# What is in a trace stays there.
	rm "$perf_map"
	trace=before.limpet
	within 60 "$LIMPET" seal -q "$trace"
	knows_leaky
}

# leaks_by NAME: whether the trace holds the leak by then.
leaks_by() {
	within 60 "$LIMPET" report "$trace" --json | json_says --arg name "$1" 'any(.sites[]; .live_allocations == 40 and .stack[0].function == $name)'
}

@test "names of a capture that still runs, from the files as the process sees them" {
	start storm "$TARGETS/storm" --threads 2
	attach "$pid"
	tell storm "leak 40" leaked
	wait_until 60 leaks_by storm_leak
	within 60 "$LIMPET" report "$trace" --json >running.json
	json_says '.capture.end == "running" and .capture.names == "present-files" and .capture.sealed == false' <running.json
	json_says 'any(.sites[].stack[]; .function == "storm_leak" and .line > 0)' <running.json
	within 60 "$LIMPET" report "$trace" >text
	grep -q '^names     from the files as they are now: the capture still runs$' text || fail "$(<text)"
	grep -q '^ *storm_leak  .*storm.c:' text || fail "$(<text)"
	within 60 "$LIMPET" report "$trace" --view functions >text
	grep -q '^names     from the files as they are now' text && grep -q 'storm_leak' text || fail "$(<text)"
	within 60 "$LIMPET" diff "$trace@-1ms" "$trace" >text
	(($(grep -c '^          names are from the files as they are now' text) == 2)) || fail "$(<text)"
	within 60 "$LIMPET" diff --json "$trace@-1ms" "$trace" | json_says '.old.names == "present-files" and .new.names == "present-files"'
	within 60 "$LIMPET" html "$trace" -o running.html 2>note
	"$root/test/html/figures" running.html | grep -q storm_leak && grep -q '^limpet: names are from the files as they are now' note || fail "$(<note)"
	within 60 "$LIMPET" export "$trace" --format folded -o folded 2>note
	grep -q 'storm_leak' folded && grep -q '^limpet: names are from the files as they are now' note || fail "$(<note)"
	# The trace stays as it is, and gets its own names at the end.
	stop "$pid"
	finish storm
	report
	expect '.capture.names == "trace" and .capture.sealed'
	(($("$LIMPET" report "$trace" | grep -c '^names') == 0))
}

@test "of a capture that still runs, a file that was replaced gives no names" {
	cp "$TARGETS/storm" mine
	start storm ./mine --threads 2
	attach "$pid"
	tell storm "leak 40" leaked
	wait_until 60 leaks_by storm_leak
	mv mine old
	cp "$TARGETS/loader" mine
	
	within 60 "$LIMPET" report "$trace" --json | json_says 'all(.sites[].stack[]; .function != "storm_leak")'
	stop "$pid"
	finish storm
}

@test "debug information that zstd has compressed is read; what cannot be read is said, once a module" {
	objcopy --compress-debug-sections=zstd "$TARGETS/storm" zstorm
	readelf -tW zstorm | grep -q ZSTD
	start storm ./zstorm --threads 2
	attach "$pid" --no-seal
	tell storm "leak 40" leaked
	stop "$pid"
	finish storm
	cp "$trace" whole.limpet
	run --separate-stderr within 60 "$LIMPET" seal whole.limpet
	[[ $stderr != *"could be read"* ]] || fail "$stderr"
	trace=$work/whole.limpet named
	# Its first bytes after the header of the compression, of all sections.
	while read -r offset; do
		printf '????' | dd of=zstorm bs=1 seek=$((16#$offset + 24)) conv=notrunc status=none
	done < <(readelf -SW zstorm | sed 's/\[ */[/' | awk '$2 ~ /^\.debug_/ && $8 ~ /C/ {print $5}')
	run --separate-stderr within 60 "$LIMPET" seal "$trace"
	(($(grep -c "not all debug information of '.*zstorm' could be read: a section of it cannot be decompressed" <<<"$stderr") == 1)) ||
		fail "$stderr"
}

# Two builds without build-id, of which the same address is in another function.
build_twice() {
	cat >build.c <<-'end'
		#include "test/targets/target.h"
		#include <unistd.h>
		PAD
		void *volatile kept[64];
		TARGET_FRAME void NAME(int i) { kept[i] = malloc(1000); TARGET_KEEP_FRAME(); }
		int main(void)
		{
			char line[64];
			target_say("ready %d", (int)getpid());
			while (target_listen(line, sizeof(line)) && line[0] != 'q') {
				for (int i = 0; i < 40; i++)
					NAME(i);
				target_say("leaked");
			}
		}
	end
	cc -O1 -g -I"$root" -Wl,--build-id=none -DNAME=of_this -DPAD= -o prog build.c
	cc -O1 -g -I"$root" -Wl,--build-id=none -DNAME=of_other -o other build.c \
		-DPAD='__attribute__((noinline,noipa)) int of_none(int n) { __asm__ volatile(".skip 7"); return n; }'
	cp prog kept
}

# called NAME: the forty blocks are those of this function; "": of one without a name.
called() {
	report
	expect 'any(.sites[]; .live_allocations == 40 and (.stack[0].function // "") == $name)' --arg name "$1"
}

@test "without a build-id, only the file that was captured gives names" {
	build_twice
	start prog ./prog
	attach "$pid" --no-seal
	tell prog leak leaked
	stop "$pid"
	finish prog
	mv other prog
	run --separate-stderr within 60 "$LIMPET" seal "$trace"
	[[ $stderr == *"prog (another build)"* ]] || fail "$stderr"
	called ""
	# A copy of it, stripped; its debug file is found by its checksum.
	cp kept prog
	objcopy --only-keep-debug prog prog.debug
	objcopy --strip-all --add-gnu-debuglink=prog.debug prog
	run --separate-stderr within 60 "$LIMPET" seal "$trace"
	[[ $stderr != *another* ]] || fail "$stderr"
	called of_this
}

@test "without a build-id, a file that was replaced while it ran: the capture has names of the one that runs" {
	[[ -e /proc/self/map_files ]] || skip "no map_files"
	build_twice
	start prog ./prog
	mv other prog
	attach "$pid"
	tell prog leak leaked
	stop "$pid"
	called of_this
	finish prog
}

@test "without a build-id, a file that was written to during the capture gives no names, and that is said" {
	build_twice
	start prog ./prog
	attach "$pid"
	tell prog leak leaked
	touch prog
	stop "$pid"
	called ""
	grep -q "warning: '.*/prog' is of another build than the one captured" "$work/attach.$captures.err"
	finish prog
}

@test "without a build-id, after limpet was killed: names only from a file of the same size and time" {
	build_twice
	start prog ./prog
	attach "$pid" --no-seal
	tell prog leak leaked
	wait_until 60 leaks_by of_this
	kill -KILL "$limpet_job"
	exit_status_of "$limpet_job" 10
	touch -r prog as_before
	touch prog
	run --separate-stderr within 60 "$LIMPET" seal "$trace"
	[[ $stderr == *"prog (another build)"* ]] || fail "$stderr"
	called ""
	touch -r as_before prog
	within 60 "$LIMPET" seal -q "$trace"
	called of_this
	within 60 "$LIMPET" stop -q "$pid"
	finish prog
}

hints_at_names() {
	TERM=dumb PAGER=cat script -qec "'$LIMPET' report $trace" /dev/null </dev/null | tr -d '\r' >hints
	(($(sed -n '/^hint:/,$p' hints | tr -s '\n ' '  ' | grep -c '^hint: .*`node --perf-basic-prof`') == 1))
}

@test "code that node made, without a map of it: the report says how it gets names" {
	command -v script >/dev/null || skip "script(1) is not installed"
	start node node --interpreted-frames-native-stack -e "$made_code"
	attach "$pid"
	tell node 2000 kept
	wait_until 60 hints_at_names || fail "$(<hints)"
	stop "$pid"
	report
	expect 'any(.sites[].stack[]; .jit == true and .function == null)'
	hints_at_names || fail "$(<hints)"
	finish node
}

holds_map() {
	[[ $(find "/proc/$1/fd" -lname "$perf_map" 2>/dev/null) ]]
}

# track: runtime | node.js with `--perf-basic-prof` | run
# bats test_tags=release
@test "run: code that node made has names" {
	start node "$LIMPET" run -q -o run.limpet -- node --perf-basic-prof --interpreted-frames-native-stack -e "$made_code"
	perf_map=/tmp/perf-$pid.map
	tell node 2000 kept
	# Its map is looked for again and again.
	wait_until 30 holds_map "${job_of[node]}"
	finish node
	trace=run.limpet
	knows_leaky
}

# track: container | node.js with `--perf-basic-prof` in a container | attach | its map of names is found inside
@test "code that node made in a container: its own root, its own pid" {
	unshare --mount --pid --fork true 2>/dev/null || skip "making namespaces is not allowed here"
	# shellcheck disable=SC2016
	start node unshare --mount --pid --fork --kill-child --mount-proc bash -c 'mount -t tmpfs none /tmp && exec "$@"' \
		node node --perf-basic-prof --interpreted-frames-native-stack -e "$made_code"
	same "pid inside" "$pid" 1
	pid=$(pgrep -P "${job_of[node]}")
	attach "$pid"
	tell node 2000 kept
	stop "$pid"
	knows_leaky
	finish node
}

# Code of node that it has mapped once more is a module of its own.
# That each reads its symbols once is test_symbol_reader.c's; how long it takes, test/torture/seal_limits.bats's.
@test "a process for each module of a node, however many names are asked for" {
	local blocks workers
	command -v strace >/dev/null || skip "strace is not installed"
	start node node -e "$made_code"
	for blocks in 10 5000; do
		attach "$pid" --no-seal
		tell node "$blocks" kept
		stop "$pid"
		within 60 strace -f -qq -e trace=execve -o calls "$LIMPET" seal -q "$trace"
		workers=$(grep -c '"symbol-worker"' calls)
		report
		expect '[.sites[].stack[] | select(.function | tostring | test("^node::"))] | length > 0'
		json_says --argjson workers "$workers" \
			'$workers > 0 and ([.sites[].stack[].module | select(. != null)] | unique | length) + 1 >= $workers' \
			<report.json || fail "$workers processes" || return 1
	done
	finish node
}

# Its processes are nobody's, whom it may not signal then.
@test "root without CAP_KILL: seal ends, with names" {
	((EUID == 0)) || skip "root is needed"
	start storm "$TARGETS/storm" --threads 2
	attach "$pid" --no-seal
	tell storm "run 100" ran
	stop "$pid"
	within 60 setpriv --bounding-set=-kill "$LIMPET" seal -q "$trace"
	report
	expect '[.sites[].stack[] | select(.function == "worker_main")] | length > 0'
	finish storm
}
