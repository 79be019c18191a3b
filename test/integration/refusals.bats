#!/usr/bin/env bats
# Bad input: one clear line, one hint, the documented exit status, and the target is untouched.

load helpers
setup() { begin; }
teardown() { end; }

USAGE=2
REFUSED=3
FAILED=1

# untouched PID STATUS REGEX COMMAND...: fails, and the process is the same afterwards.
untouched() {
	local target=$1
	shift
	look "$target" || return 1
	refused "$@" || return 1
	unchanged "$target"
}

# A pid that nobody has, nor will have: the kernel gives lower ones.
nobody() {
	cat /proc/sys/kernel/pid_max
}

@test "no such process" {
	local pid
	pid=$(nobody)
	refused $FAILED "$pid" "$LIMPET" attach "$pid"
	refused $FAILED "$pid" "$LIMPET" doctor "$pid"
}

@test "a pid that is no number, or not a sensible one" {
	refused $USAGE "" "$LIMPET" attach zero
	refused $USAGE "" "$LIMPET" attach -- -1
	refused $USAGE "" "$LIMPET" attach 0
	refused $USAGE "" "$LIMPET" attach 12x
	refused $USAGE "" "$LIMPET" attach 99999999999999999999
	refused $USAGE "" "$LIMPET" attach ''
}

@test "limpet itself, and no pid at all" {
	# exec: the shell's pid becomes limpet's own.
	refused $REFUSED "itself|own" bash -c 'exec "$0" attach $$' "$LIMPET"
	refused $USAGE "" "$LIMPET" attach
}

@test "a kernel thread" {
	[[ -r /proc/2/status ]] && grep -q '^Name:[[:space:]]kthreadd' /proc/2/status ||
		skip "no kernel thread is seen from here"
	refused_by_both 2 kernel-thread "kernel thread"
}

@test "a thread of a process" {
	start storm "$TARGETS/storm" --threads 2
	local threads=("/proc/$pid/task/"*)
	refused_by_both "${threads[-1]##*/}" thread "the number of a thread of process $pid"
	finish storm
}

@test "a zombie" {
	# The child ends, and nobody waits for it as long as its parent sleeps.
	python3 -c "
import os, signal
pid = os.fork()
if pid == 0:
    os.setuid(65534)
    os._exit(0)
print(pid, flush=True)
signal.pause()
" >zombie.pid </dev/null 3>&- &
	job_of[zombie]=$!
	wait_until 10 test -s zombie.pid
	local zombie
	zombie=$(<zombie.pid)
	wait_until 10 grep -q '^State:[[:space:]]Z' "/proc/$zombie/status"
	refused_by_both "$zombie" zombie "zombie"
	# To others and to its own user alike.
	local command
	make_theirs
	for command in explain pages; do
		refused 1 "process $zombie is a zombie: .* its parent \\(${job_of[zombie]}\\) has not" \
			"${limpet_command[@]}" "$command" "$zombie"
		refused 1 "process $zombie is a zombie: " "${as_nobody[@]}" "$command" "$zombie"
	done
}

# A job is this shell until it executes its program.
executes_or_ended() {
	ended "$1" || [[ $(readlink "/proc/$1/exe") == */$2 ]]
}

# track: other | 32-bit | refused run-refused | by that name
@test "a 32-bit program" {
	"$TARGETS/tiny32" 3>&- &
	job_of[tiny]=$!
	wait_until 60 executes_or_ended "${job_of[tiny]}" tiny32
	! ended "${job_of[tiny]}" || skip "the kernel runs no 32-bit programs"
	refused_by_both "${job_of[tiny]}" elf-class "32-bit"
	refused 125 "32-bit" "$LIMPET" run -o never.limpet -- "$TARGETS/tiny32"
}

# track: libc | static and stripped | refused run-refused | nothing is left by which its allocator could be found
@test "a fully static program without names" {
	start static "$TARGETS/static-stripped"
	refused_by_both "$pid" static "static"
	tell static "run 100" ran
	finish static
	refused 125 "static" "$LIMPET" run -o never.limpet -- "$TARGETS/static-stripped"
}

# go_rests PID: each of its threads waits in futex() or read(). Go starts threads, with all signals blocked, as long
# as one of them finds work.
go_rests() {
	! grep -hEv '^(0|202) ' "/proc/$1/task/"*/syscall
}

# track: go | Go without cgo | refused run-refused | Go's own profiler is named
@test "a Go program without C code: Go's own profiler is named" {
	start go "$TARGETS/plain-go"
	wait_until 10 go_rests "$pid"
	refused_by_both "$pid" static "Go program without C code"
	[[ $("$LIMPET" doctor "$pid") == *"go tool pprof"* ]]
	"$LIMPET" doctor >list.say
	grep -qE "^ *$pid .* no: Go without C code$" list.say || fail "$(grep " $pid " list.say)"
	finish go
	refused 125 "Go program without C code" "$LIMPET" run -o never.limpet -- "$TARGETS/plain-go"
}

# by_name NAME COMMAND...: what runs under a file of that name.
by_name() {
	local name=$1
	shift
	start "$name" "$@"
	refused_by_both "$pid" translator "it runs under $translator,"
	tell "$name" "run 10" ran
	finish "$name"
}

# track: other | under valgrind, qemu-user, DynamoRIO or Pin | refused | by that name: translated code is not the program's
@test "what runs is a translator: it is named" {
	local translator
	cp "$TARGETS/storm" qemu-aarch64-static
	translator=qemu-user by_name qemu "$work/qemu-aarch64-static"
	cp "$TARGETS/storm" pinbin
	translator=Pin by_name pin "$work/pinbin"
	cp "$TARGETS/plugin.so" libdynamorio.so
	translator=DynamoRIO by_name dynamorio env LD_PRELOAD="$work/libdynamorio.so" "$TARGETS/storm"
	cp "$TARGETS/plugin.so" vgpreload_core-amd64-linux.so
	translator=valgrind by_name preload env LD_PRELOAD="$work/vgpreload_core-amd64-linux.so" "$TARGETS/storm"
	# The names of other programs are not.
	cp "$TARGETS/storm" qemu-img
	start other "$work/qemu-img"
	"$LIMPET" doctor "$pid" >doctor.text
	finish other
}

@test "valgrind itself is named" {
	local tool
	tool=$(command -v valgrind) || skip "no valgrind here"
	# A static program, in which it loads nothing of its own.
	for program in storm static; do
		start "$program" "$tool" -q --tool=none "$TARGETS/$program" --threads 1
		refused_by_both "$pid" translator "it runs under valgrind"
		tell "$program" "run 10" ran
		finish "$program"
	done
}

@test "a program without a C library" {
	echo 'void _start(void) { for (;;) __asm__ volatile("syscall" : : "a"(34) : "rcx", "r11", "memory"); }' >bare.c
	gcc -nostdlib -o bare bare.c
	./bare 3>&- &
	job_of[bare]=$!
	wait_until 60 executes_or_ended "${job_of[bare]}" bare
	refused_by_both "${job_of[bare]}" calls "no C library is loaded"
}

# track: allocator | jemalloc, linked in, stripped, under names of its own | refused run-refused | `--partial` captures the rest and says what share of RSS is unseen
@test "an allocator inside the program is named; --partial overrides and says what is unseen" {
	start own "$TARGETS/rjem-stripped"
	tell own go going
	tell own hold held
	refused_by_both "$pid" allocator "jemalloc"
	attach "$pid" --partial
	tell own "leak 1000" leaked
	stop "$pid"
	# After verdict and findings, which tell of mappings of jemalloc's, the first line is about it, in per cent of RSS.
	"$LIMPET" report "$trace" | sed -n '/^partial /,$p' >report.text
	[[ $(head -n 1 report.text) =~ [0-9]+(\.[0-9]+)?\ ?% ]] || fail "$(<report.text)"
	# Its third names the allocator, which is not among those that were followed.
	[[ $(sed -n 3p report.text) == "unseen    jemalloc in rjem-stripped cannot be followed"* ]] || fail "$(<report.text)"
	! grep -q 'every event of .*jemalloc.* is in' report.text || fail "$(<report.text)"
	grep -q '; nothing of jemalloc in rjem-stripped$' report.text || fail "$(<report.text)"
	report
	expect '.unfollowed.names == "jemalloc in rjem-stripped" and .unfollowed.bytes == null'
	expect '(.target.allocators | test("jemalloc") | not)'
	"$LIMPET" doctor "$pid" --json >doctor.json || (($? == 3))
	json_says '.unfollowed == "jemalloc in rjem-stripped" and (.allocators | test("jemalloc") | not)' <doctor.json
	tell own quit '{'
	result own 0
	refused 125 "jemalloc" "$LIMPET" run -o never.limpet -- "$TARGETS/rjem-stripped"
}

# track: container | a seccomp filter that kills for one of limpet's calls | refused | the filter is evaluated first
@test "a seccomp filter that would kill" {
	for call in clone close_range memfd_create mmap; do
		start "$call" "$TARGETS/odd" --kill "$call"
		refused_by_both "$pid" seccomp "seccomp.*$call"
		finish "$call"
	done
}

# As Linux before 5.9 answers.
@test "a kernel without close_range: refused, with its version" {
	command -v strace >/dev/null || skip "strace is not installed"
	start storm "$TARGETS/storm"
	limpet_command=(strace -f -qq -o calls -e trace=close_range -e inject=close_range:error=ENOSYS "$LIMPET")
	refused_by_both "$pid" kernel "this kernel \($(uname -r)\) has no close_range.* requires Linux 5\.9"
	finish storm
}

@test "no permission: another user's process; sudo is the first advice" {
	((EUID == 0)) || skip "only root can become two other users"
	start storm "$TARGETS/storm"
	look "$pid"
	make_theirs
	limpet_command=("${as_nobody[@]}")
	refused_by_both "$pid" permission-uid "user|uid"
	refused $REFUSED "" "${as_nobody[@]}" attach "$pid"
	[[ ${stderr_lines[1]} =~ sudo ]]
	[[ ! $stderr =~ ptrace_scope ]]
	finish storm
}

@test "Yama: the setting is named, and never to be lowered" {
	[[ -r /proc/sys/kernel/yama/ptrace_scope ]] || skip "this kernel has no Yama"
	((EUID == 0 && $(</proc/sys/kernel/yama/ptrace_scope) == 1)) ||
		skip "only root can become another user under ptrace_scope 1"
	start odd "$TARGETS/odd" --uid 65534
	make_theirs
	refused $REFUSED "Yama" "${as_nobody[@]}" attach -o /dev/null "$pid"
	[[ ${stderr_lines[1]} =~ sudo ]]
	finish odd
}

@test "already traced by another" {
	local tracer
	start storm "$TARGETS/storm"
	trace_by_another "$pid"
	tracer=$answer
	refused_by_both "$pid" traced "traced.*$tracer"
	end_process "$tracer" 2
	tell storm "run 100" ran
	finish storm
}

@test "already captured by limpet" {
	start storm "$TARGETS/storm"
	attach "$pid"
	refused_by_both "$pid" captured "captured"
	tell storm "leak 4" leaked
	stop "$pid"
	good_capture
	same "leaks" "$(site_sum storm_leak allocations)" 4
	finish storm
}

@test "an output that cannot be written" {
	start storm "$TARGETS/storm"
	untouched "$pid" $FAILED "No such file or directory" "$LIMPET" attach "$pid" -o none/x.limpet
	touch there.limpet
	untouched "$pid" $FAILED "exists" "$LIMPET" attach "$pid" -o there.limpet
	[[ ! -s there.limpet ]]
	ln -s elsewhere link.limpet
	untouched "$pid" $FAILED "" "$LIMPET" attach "$pid" -o link.limpet
	[[ ! -e elsewhere ]]
	finish storm
}

@test "traces that are none: missing, empty, foreign, a directory" {
	refused $FAILED "No such file" "$LIMPET" report missing.limpet
	: >empty.limpet
	refused $FAILED "empty|not a (limpet )?trace|truncated" "$LIMPET" report empty.limpet
	head -c 100000 /bin/bash >foreign.limpet
	refused $FAILED "not a (limpet )?trace" "$LIMPET" report foreign.limpet
	refused $FAILED "" "$LIMPET" report .
}

@test "traces that were cut short or damaged are read up to there, and never crash the reader" {
	start storm "$TARGETS/storm" --threads 2
	attach "$pid"
	tell storm "run 20000" ran
	stop "$pid"
	finish storm
	local bytes i good=0
	bytes=$(stat -c %s "$trace")
	for i in 1 2 5 10 50 90 99; do
		head -c $((bytes * i / 100)) "$trace" >cut.limpet
		run --separate-stderr within 30 "$LIMPET" report cut.limpet --json
		[[ $status == 0 || $status == 1 ]]
		if [[ $status == 0 ]]; then
			good=$((good + 1))
			json_says '.capture.complete | not' <<<"$output"
		fi
		cp "$trace" bad.limpet
		printf '\xff\x00\xa5\x5a' |
			dd of=bad.limpet bs=1 seek=$((bytes * i / 100)) conv=notrunc status=none
		run --separate-stderr within 30 "$LIMPET" report bad.limpet --json
		[[ $status == 0 || $status == 1 ]]
	done
	((good > 0))
}

@test "wrong options and durations" {
	start storm "$TARGETS/storm"
	refused $USAGE "--nonsense" "$LIMPET" attach --nonsense "$pid"
	refused $USAGE "fortnight" "$LIMPET" attach -d fortnight "$pid"
	refused $USAGE "" "$LIMPET" attach -d -5 "$pid"
	refused $USAGE "" "$LIMPET" attach -d 10parsecs "$pid"
	refused $USAGE "" "$LIMPET" attach --sample lots "$pid"
	refused $USAGE "" "$LIMPET" attach "$pid" "$pid"
	refused $USAGE "" "$LIMPET" report
	refused $USAGE "colour" "$LIMPET" report x.limpet --sort colour
	refused $USAGE "atach" "$LIMPET" atach "$pid"
	refused $USAGE "" "$LIMPET"
	finish storm
}

@test "stop and status of a process that is not captured" {
	start storm "$TARGETS/storm"
	refused $FAILED "not (being )?captured|no capture" "$LIMPET" stop "$pid"
	run --separate-stderr "$LIMPET" status "$pid"
	[[ $status == 1 ]]
	see_no_others
	run --separate-stderr "${alone[@]}" "$LIMPET" status --json
	[[ $status == 0 ]]
	json_says '.captures == []' <<<"$output"
	finish storm
}

@test "functions that the user names, and that are not there" {
	printf '%s\n' 'allocator none' 'none_take malloc(size)' 'none_give free(p)' >none.list
	start storm "$TARGETS/storm"
	refused_by_both "$pid" alloc-functions "none_take" --alloc-functions none.list
	finish storm
}

# Where a refusal cannot be had here, or not of a process that another limpet can look at.
elsewhere='executable hidepid kernel libc mappings own-process permission-lsm permission-yama shadow-stack zombie-leader'

@test "every refusal is held against attach and doctor by a test" {
	local id tests
	tests=$(cat "$root"/test/integration/*.bats)
	while read -r id; do
		[[ " $elsewhere " == *" $id "* || $tests =~ (refused_by_both|is_refused)\ [^$'\n']*\ "$id"\  ]] || fail "$id"
	done < <(sed -n 's/^\t{"\([a-z-]*\)", LIMPET_FINDING_REFUSE},$/\1/p' "$root/injector/preflight/preflight.c")
}
