#!/usr/bin/env bats
# Programs and limpets that are kept short: of descriptors, memory, file sizes, capabilities, system
# calls. A capture works, or is refused or given up with words, and the program does not notice.
# time-limit: 600

load helpers
setup() { begin; }
teardown() {
	end
	remove_groups
}

# captured NAME COMMAND...: of storm, started by COMMAND; thirty leaks are found, nothing stays.
captured() {
	local name=$1
	shift
	start "$name" "$@" "$TARGETS/storm" --threads 2 || return 1
	look "$pid" || return 1
	attach "$pid" "${options[@]}" || return 1
	tell "$name" "leak 30" leaked || return 1
	stop "$pid" || return 1
	good_capture || return 1
	same "leaks" "$(site_sum storm_leak allocations)" 30 || return 1
	unchanged "$pid" || return 1
	finish "$name"
}

# given_up PID COMMAND...: a limpet that is short of something. It may work all the same (0, 4), refuse
# (3) or give up (1); by words, never by a signal, and nothing of it stays. Sets `status`.
given_up() {
	local target=$1
	shift
	run --separate-stderr within 60 "$@" attach "$target" -o "short.$RANDOM.limpet" "${patiently[@]}" -d 50ms -q --no-seal
	rm -f short.*.limpet
	case $status in
	0 | 4) ;;
	1 | 3) [[ $stderr == limpet:* ]] || fail "status $status without words: '$stderr'" || return 1 ;;
	*) fail "status $status: $*: $stderr" || return 1 ;;
	esac
	nothing_of_ours "$target"
}

# ------------------------------------------------------------------ descriptors

# bats test_tags=release
@test "limpet itself short of descriptors, at every number of them" {
	local n worked=0
	start storm "$TARGETS/storm" --threads 2
	look "$pid"
	for n in 6 7 8 9 10 11 12 13 14 16 18 20 24 28 32 48; do
		given_up "$pid" prlimit --nofile="$n" "$LIMPET"
		[[ $status != [04] ]] || worked=1
	done
	((worked))
	unchanged "$pid"
	tell storm "run 1000" ran
	finish storm
}

# bats test_tags=release
@test "the program short of descriptors, at every number of them: captured" {
	local n
	for n in 0 1 2 3 4 5; do
		start "odd$n" "$TARGETS/odd" --few-files "$n"
		look "$pid"
		given_up "$pid" "$LIMPET"
		[[ $status == [04] ]] || fail "not captured: $stderr"
		unchanged "$pid"
		tell "odd$n" "work 100" worked
		finish "odd$n"
	done
}

# Its dynamic linker opens a file.
@test "no descriptor left, by dlopen: given up, nothing changed" {
	start odd "$TARGETS/odd" --few-files 0
	look "$pid"
	LIMPET_LOAD=dlopen refused 1 "Too many open files" "$LIMPET" attach "$pid"
	unchanged "$pid"
	finish odd
}

# A thread of limpet's for a moment is one more than it may have.
@test "the program may make no thread: given up, nothing changed" {
	start odd setpriv --reuid 54321 --clear-groups prlimit --nproc=1 "$TARGETS/odd"
	look "$pid"
	refused 1 "making a thread" "$LIMPET" attach "$pid"
	unchanged "$pid"
	tell odd "work 100" worked
	finish odd
	# It may make no thread in another pid namespace than its own.
	start apart python3 -c '
import ctypes, os, sys
assert not ctypes.CDLL(None).unshare(0x20000000)
print("ready", os.getpid(), flush=True)
while sys.stdin.readline() != "quit\n": print("heard", flush=True)'
	refused 1 "making a thread" "$LIMPET" attach "$pid"
	tell apart hello heard
	nothing_of_ours "$pid"
	finish apart
}


# ------------------------------------------------------------------ memory

@test "the program's address space is limited: refused, and with room enough captured" {
	start storm prlimit --as=$((80 << 20)) "$TARGETS/storm" --threads 1
	refused_by_both "$pid" address-space "address space"
	finish storm
	captured roomy prlimit --as=$((1 << 30))
}

@test "the program's data is limited: refused, and with room enough captured" {
	start storm prlimit --data=$((24 << 20)) "$TARGETS/storm" --threads 1
	refused_by_both "$pid" data-size "data"
	finish storm
	captured roomy prlimit --data=$((200 << 20))
}

# As much as it has itself.
@test "the program locks its memory, and may not lock much more: refused, or given up before anything is mapped" {
	local limited=(setpriv --inh-caps=-ipc_lock --bounding-set=-ipc_lock prlimit --memlock=$((8 << 20)) "$TARGETS/legal")
	start locked "${limited[@]}" locked
	refused_by_both "$pid" locked-memory "locked memory"
	finish locked
	# Nothing shows that it will lock what comes.
	start later "${limited[@]}" locked-future
	look "$pid"
	refused 1 "locks what it maps" "$LIMPET" attach -o never.limpet "$pid"
	unchanged "$pid"
	finish later
}

@test "a limit that preflight takes for enough is enough" {
	local mib
	for mib in 40 60 80 90 100 110 120 130 160 200; do
		start "odd$mib" prlimit --as=$((mib << 20)) --data=$((mib << 20)) "$TARGETS/odd"
		look "$pid"
		given_up "$pid" "$LIMPET"
		[[ $status != 1 ]] || fail "neither worked nor refused: $stderr"
		unchanged "$pid"
		tell "odd$mib" "work 1000" worked
		finish "odd$mib"
	done
}

@test "limpet itself short of memory" {
	local mib worked=0
	start storm "$TARGETS/storm" --threads 2
	look "$pid"
	for mib in 30 60 100 150 200 400 3000; do
		given_up "$pid" prlimit --as=$((mib << 20)) "$LIMPET"
		[[ $status != [04] ]] || worked=1
	done
	((worked))
	unchanged "$pid"
	finish storm
}

# make_strict NAME COMMAND...: a script that runs it as where the kernel may refuse each page.
make_strict() {
	echo 2 >strict
	cat >"$1" <<-END
		#!/bin/sh
		exec unshare -m sh -c 'mount --bind "$PWD/strict" /proc/sys/vm/overcommit_memory && exec "\$@"' sh ${*:2} "\$@"
	END
	chmod +x "$1"
}

# agent_files PID: of each of limpet's files there: its size, and how much of it has memory.
agent_files() {
	local map
	for map in "/proc/$1/map_files"/*; do
		[[ $(readlink "$map") != /memfd:limpet-* ]] || stat -Lc '%n %s %b' "$map"
	done
}

@test "strict accounting of memory: all of it is committed before a thread goes there, or nothing is changed" {
	command -v strace >/dev/null || skip "strace is not installed"
	local which file bytes blocks count=0
	start odd "$TARGETS/odd"
	look "$pid"
	# The first one is for the trace.
	for which in 2 3 4; do
		make_strict without strace -qq -o calls -e trace=fallocate -e inject=fallocate:error=ENOSPC:when="$which" "$LIMPET"
		refused 1 "vm.overcommit_memory is 2" ./without attach "$pid"
		unchanged "$pid" || return 1
	done
	make_strict with "$LIMPET"
	LIMPET="$PWD/with" attach "$pid"
	while read -r file bytes blocks; do
		((blocks * 512 >= bytes)) || fail "$file: $blocks blocks of $bytes bytes" || return 1
		count=$((count + 1))
	done < <(agent_files "$pid")
	((count >= 2)) || fail "only $count mappings of limpet's" || return 1
	stop "$pid"
	finish odd
}

@test "limpet may not write large files" {
	local kib
	start storm "$TARGETS/storm" --threads 2
	look "$pid"
	for kib in 4 40 100 1000 100000; do
		given_up "$pid" prlimit --fsize=$((kib << 10)) "$LIMPET"
	done
	unchanged "$pid"
	finish storm
	captured silent prlimit --fsize=0
}

# status_bytes PID KEY: of /proc/PID/status
status_bytes() {
	awk -v key="$2:" '$1 == key { print $2 * 1024 }' "/proc/$1/status"
}

@test "by default at most 64 MiB of the program's memory, as the report says, and nothing of it stays" {
	local before during after said shared
	start storm "$TARGETS/storm" --threads 4
	# As much as later: its own heap has grown by then.
	tell storm "run 400000" ran
	before=$(status_bytes "$pid" VmRSS)
	overload=drop attach "$pid"
	stand_still "$limpet_job" "$pid"
	# More than fits: all that there is for events is touched.
	tell storm "run 400000" ran
	during=$(status_bytes "$pid" VmRSS)
	shared=$(status_bytes "$pid" RssShmem)
	kill -CONT "$limpet_job"
	stop "$pid" 4
	report
	# Also how much of that was resident: no less than is shared, and no more than all.
	expect '.capture.agent_resident_bytes >= $shared and .capture.agent_resident_bytes <= .capture.agent_memory_bytes' \
		--argjson shared "$shared"
	expect 'any(.timeline[]; .agent_bytes >= 1000000 and .agent_bytes <= .rss_bytes and .threads >= 5)'
	said=$(jq .capture.agent_memory_bytes report.json)
	after=$(status_bytes "$pid" VmRSS)
	((during - before > 16 << 20)) || fail "only $((during - before)) bytes: nothing was measured"
	((during - before <= said)) || fail "$((during - before)) bytes, and the report says $said"
	((said <= 64 << 20)) || fail "$said bytes"
	# Of some 20 MiB; the program's heap and its pages of files come and go.
	((after - before < 4 << 20)) || fail "$((after - before)) bytes stay"
	same "shared memory" "$(status_bytes "$pid" RssShmem)" 0
	[[ $("$LIMPET" report "$trace") == *"agent     at most "*" MiB of memory in the target"* ]]
	nothing_of_ours "$pid"
	finish storm
}

# crowded THREADS: each of which allocates at many places. The same figures, and each call is recorded.
crowded() {
	local threads=$1 operations=${2:-400} before during after said
	start "crowd$threads" "$TARGETS/crowd" "$threads"
	tell "crowd$threads" "run 10" ran || return 1
	before=$(status_bytes "$pid" VmRSS)
	attach "$pid" || return 1
	tell "crowd$threads" "run $operations" ran || return 1
	during=$(status_bytes "$pid" VmRSS)
	stop "$pid" || return 1
	good_capture || return 1
	same "allocations" "$(jq .totals.allocations report.json)" $((threads * operations)) || return 1
	same "frees of the others' blocks" "$(jq .totals.foreign_frees report.json)" "$threads" || return 1
	said=$(jq .capture.agent_memory_bytes report.json)
	after=$(status_bytes "$pid" VmRSS)
	echo "# figures: $threads threads: $((during - before >> 10)) KiB, said $((said >> 10)), stay $((after - before >> 10))" >&3
	((during - before <= said)) || fail "$((during - before)) bytes, and the report says $said" || return 1
	((said <= 64 << 20)) || fail "$said bytes" || return 1
	((after - before < 2 << 20)) || fail "$((after - before)) bytes stay" || return 1
	nothing_of_ours "$pid" || return 1
	finish "crowd$threads"
}

# bats test_tags=release
@test "500 threads that allocate: at most 64 MiB, and no call is missed" {
	crowded 500
}

# bats test_tags=release
@test "2,000 threads that allocate: at most 64 MiB, and no call is missed" {
	# One chunk each: nobody has to wait for a collector among two thousand.
	crowded 2000 150
}

# With little memory there is room for fewer: the others are told, and nobody waits for good.
@test "more threads than there is room for: calls go unseen, and are counted" {
	start crowd "$TARGETS/crowd" 700
	tell crowd "run 10" ran
	attach "$pid" --memory 8M
	tell crowd "run 100" ran
	stop "$pid" 4
	report
	expect '(.capture.complete | not) and .capture.agent_unloaded and .totals.allocations >= 10000'
	expect '.totals.allocations < 70000 and .capture.agent_memory_bytes <= 8388608'
	nothing_of_ours "$pid"
	finish crowd
}

@test "no room for the unwind table of a large program: a warning names it, and the remedy" {
	command -v node >/dev/null || skip "node is not installed"
	start node node -e 'console.log("ready", process.pid); process.stdin.on("data", () => process.exit(0))'
	attach "$pid" --memory 8M
	stop "$pid"
	grep -q 'warning: there was no room for the unwind table of node.*cut short' attach.*.err || fail "$(cat attach.*.err)"
	grep -q 'hint: .*--memory' attach.*.err
	attach "$pid"
	stop "$pid"
	! grep -q 'no room' attach.2.err || fail "with the default, too"
	finish node
}

# The stub that calls dlopen writes its file first, in the program and within its limits: SIGXFSZ would end it.
@test "the program may not write files: its dlopen is not asked to load one" {
	local limit
	for limit in 0 4096; do
		start "storm$limit" prlimit --fsize=$limit "$TARGETS/storm" --threads 2
		LIMPET_LOAD=dlopen refused_by_both "$pid" agent "RLIMIT_FSIZE"
		attach "$pid"
		tell "storm$limit" "run 100" ran
		stop "$pid"
		good_capture
		finish "storm$limit"
	done
}

@test "limpet itself may not write large files: that is said before the program is touched" {
	start storm "$TARGETS/storm" --threads 2
	look "$pid"
	(
		ulimit -f 64
		refused 1 "limpet itself may not make a file as large" "$LIMPET" attach -q -o never.limpet -d 100ms "$pid"
	)
	unchanged "$pid"
	finish storm
}

@test "limpet itself has a small stack: it takes a larger one, and its command does not; refused where it may not" {
	start storm "$TARGETS/storm" --threads 2
	look "$pid"
	within 60 bash -c 'ulimit -S -s 64; exec "$@"' - "$LIMPET" attach -q -d 100ms -o short.limpet "$pid"
	within 60 bash -c 'ulimit -S -s 64; exec "$@"' - "$LIMPET" run -q -o run.limpet bash -c 'ulimit -s' >limit
	same "the command's limit in KiB" "$(head -n 1 limit)" 64
	refused 1 "needs a stack of 256 KiB; its limit is 64 KiB" bash -c 'ulimit -s 64; exec "$@"' - \
		"$LIMPET" attach -q -d 100ms -o never.limpet "$pid"
	unchanged "$pid"
	finish storm
}

# track: container | a memory cgroup with a tight limit | attach | refused while the headroom is less than twice `--memory`, which can be lowered
@test "a memory cgroup with little headroom: refused; with less for the agent, captured and not missed" {
	make_group 100
	start storm bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$TARGETS/storm" --threads 2
	refused_by_both "$pid" memory "cgroup"
	attach "$pid" --memory 16M
	tell storm "run 20000" ran
	stop "$pid"
	report
	expect '.capture.agent_unloaded and .totals.allocations > 10000'
	nothing_of_ours "$pid"
	# Nobody was killed for want of memory, nor came near it.
	grep -qE '^oom_kill 0$' "$group"/memory.{oom_control,events} 2>/dev/null
	[[ ! -e $group/memory.failcnt || $(<"$group/memory.failcnt") == 0 ]]
	finish storm
}

# track: container | a pids cgroup that is full | attach | refused: an attach needs a thread for a moment
@test "a pids cgroup that is full: refused; and left when it has become full" {
	make_limited pids max pids.max
	start storm bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$TARGETS/storm" --threads 2
	cat "$group/pids.current" >"$group/pids.max"
	refused_by_both "$pid" threads-left "pids.max"
	echo $(($(<"$group/pids.current") + 1)) >"$group/pids.max"
	attach "$pid"
	tell storm "run 100" ran
	# To leave takes none.
	cat "$group/pids.current" >"$group/pids.max"
	stop "$pid"
	good_capture
	finish storm
}

@test "limpet itself in a memory cgroup without room: killed alone, the program goes on" {
	make_group 8
	start storm "$TARGETS/storm" --threads 2
	bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" \
		"$LIMPET" attach "$pid" "${patiently[@]}" -o small.limpet -d 1m -q >small.say 2>small.err </dev/null 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
	exit_status_of "$limpet_job" 60
	[[ $status == 137 || $status == [134] ]] || fail "status $status: $(<small.err)"
	tell storm "run 1000" ran
	# It may have been killed before there was anything to remove.
	cleaned_up "$pid" 01
	tell storm "run 1000" ran
	finish storm
}

# ------------------------------------------------------------------ capabilities

# with CAPABILITIES: sets `short`, which runs a command as root with these alone.
with() {
	((EUID == 0)) || skip "only root has capabilities to give up"
	short=(setpriv --inh-caps=-all --bounding-set="-all$1" --no-new-privs)
}

@test "root without CAP_SYS_PTRACE: each rule that stands in the way by its name" {
	local short
	with ""
	limpet_command=("${short[@]}" "$LIMPET")
	start other "$TARGETS/odd" --uid 65534
	refused_by_both "$pid" permission-uid "another user"
	[[ $stderr != *ptrace_scope* ]]
	start rich "$TARGETS/storm"
	refused_by_both "$pid" permission-capabilities "capabilities that this user lacks"
	start poor "${short[@]}" "$TARGETS/odd" --not-dumpable
	refused_by_both "$pid" permission-dumpable "not dumpable"
	start equal "${short[@]}" "$TARGETS/storm"
	look "$pid"
	attach "$pid"
	stop "$pid"
	unchanged "$pid"
	finish other
	finish rich
	finish poor
	finish equal
}

# track: container | limpet with CAP_SYS_PTRACE alone | attach | with a seccomp filter, also CAP_SYS_ADMIN or `--assume-seccomp-ok`
@test "root with CAP_SYS_PTRACE and nothing else" {
	local short
	with ,+sys_ptrace
	start storm "$TARGETS/storm" --threads 2
	look "$pid"
	"${short[@]}" "$LIMPET" attach "$pid" "${patiently[@]}" -d 50ms -q -o least.limpet
	unchanged "$pid"
	finish storm
}

@test "without CAP_SYS_ADMIN a filter cannot be read: refused, unless the user knows it" {
	local short
	with ,+sys_ptrace
	limpet_command=("${short[@]}" "$LIMPET")
	start odd "$TARGETS/odd" --docker
	refused_by_both "$pid" seccomp "filter cannot be read"
	"${limpet_command[@]}" attach "$pid" "${patiently[@]}" -d 50ms -q -o known.limpet --assume-seccomp-ok
	unchanged "$pid"
	finish odd
}

# track: container | no capabilities | attach | from outside
@test "the program without any capability" {
	local short
	with ""
	captured poor "${short[@]}"
}

# ------------------------------------------------------------------ memory that may not become code

# track: container | systemd's MemoryDenyWriteExecute | attach | nothing is ever writable and executable
@test "MemoryDenyWriteExecute by systemd's filters" {
	captured filtered "$TARGETS/confined" --no-new-code
}

@test "MemoryDenyWriteExecute by prctl" {
	"$TARGETS/confined" --mdwe true 2>mdwe.err || skip "this kernel has no PR_SET_MDWE"
	captured denied "$TARGETS/confined" --mdwe
	captured both "$TARGETS/confined" --mdwe --no-new-code --docker
}

# ------------------------------------------------------------------ a slow or stopped limpet

@test "--on-overload wait: a limpet that was stopped, and then killed, holds nobody up for good" {
	start storm "$TARGETS/storm" --threads 4
	attach "$pid" --memory 8M
	stand_still "$limpet_job" "$pid"
	# Far more than fits. They wait for ten seconds, if nobody says less.
	local patience for_ever=9000000000000000000
	patience=$("$TARGETS/room" "$limpet_job" "$for_ever")
	((patience > 0))
	"$TARGETS/room" "$limpet_job" "$((patience / 50))" >replaced
	tell storm "run 60000" ran
	# Who waited again now would do so until the test is given up.
	same "their patience" "$("$TARGETS/room" "$limpet_job" "$for_ever")" "$((patience / 50))"
	tell storm "run 60000" ran
	kill -CONT "$limpet_job"
	wait_until 30 capturing "$pid"
	tell storm "leak 30" leaked
	stop "$pid" 4
	report
	expect '(.capture.complete | not) and .capture.dropped_events > 0 and .capture.agent_unloaded'
	nothing_of_ours "$pid"

	# A dead one, neither.
	attach "$pid" --memory 8M
	stand_still "$limpet_job" "$pid"
	((($("$TARGETS/room" "$limpet_job" "$for_ever")) > 0))
	kill -KILL "$limpet_job"
	tell storm "run 60000" ran
	cleaned_up "$pid"
	finish storm
}

# Each stack is described once, whatever room there is: its frames are kept by limpet, not in the program.
# bats test_tags=release
@test "twenty thousand deep stacks that have nothing in common, with little memory: none is lost" {
	start paths "$TARGETS/paths" 60
	overload='wait' attach "$pid" --memory 8MiB
	tell paths "keep 20000" kept
	tell paths "run 20000" ran
	stop "$pid"
	within 120 "$LIMPET" report "$trace" --limit 1 >report.say 2>report.err || fail "$(<report.err)"
	grep -q '^Top 1 of 20000 sites' report.say || fail "$(head -n 30 report.say)"
	grep -q '^losses *none' report.say || fail "$(head -n 30 report.say)"
	! grep -q 'stack unknown' report.say || fail "a stack is unknown"
	finish paths
}

# Beyond limpet's own memory stacks are unknown, and the trace says so; the events are all there.
@test "more stacks than limpet has memory for: the events are there, and what is unknown is told" {
	start paths "$TARGETS/paths" 60
	overload='wait' attach "$pid" --collector-memory 16MiB
	tell paths "keep 10000" kept
	stop "$pid" 4
	grep -q 'stacks of [0-9]* events are unknown: more fit with more --memory' "$work"/attach.*.err ||
		fail "$(cat "$work"/attach.*.err)"
	within 120 "$LIMPET" report "$trace" >report.say 2>report.err || fail "$(<report.err)"
	grep -q '(stack unknown)' report.say || fail "$(head -n 60 report.say)"
	report --limit 1
	expect '.totals.allocations == 10000 and .capture.dropped_events == 0 and (.capture.complete | not)'
	expect '.incomplete_reasons // .capture.incomplete_reasons | any(. == "lost-stacks")'
	finish paths
}
