#!/usr/bin/env bats
# Unusual states of a process: captured all the same, and kept.
# time-limit: 400

load helpers
setup() { begin; }
teardown() { end; }

# kept OPTION...: of odd; a capture with a thousand counted blocks, and the state is the same.
kept() {
	start odd "$TARGETS/odd" "$@" || return 1
	look "$pid" || return 1
	attach "$pid" || return 1
	tell odd "work 1000" worked || return 1
	stop "$pid" || return 1
	good_capture || return 1
	same "blocks" "$(site_sum odd_work allocations)" 1000 || return 1
	unchanged "$pid" || return 1
	tell odd check kept || return 1
	finish odd
}

@test "every signal is blocked" {
	kept --signals-blocked
}

# bats test_tags=release
@test "SIGTRAP and SIGSEGV are ignored" {
	kept --trap-ignored
}

@test "SIGTRAP and SIGSEGV are blocked and ignored" {
	kept --trap-ignored --signals-blocked
}

@test "handlers of SIGTRAP and SIGSEGV never run" {
	kept --trap-handled
}

@test "blocked signals that wait, real-time ones in their order" {
	kept --signals-pending
}

@test "a seccomp filter such as containers have" {
	kept --docker
}

@test "a filter that kills for munlock, which is called only where memory is locked" {
	kept --kill munlock
}

@test "no descriptor is left: captured all the same" {
	kept --few-files 0
}

# track: container | another uid | attach | as root
@test "another user, as root" {
	((EUID == 0)) || skip "only root attaches to another user's process"
	kept --uid 65534
}

@test "a process that is not dumpable, as root" {
	((EUID == 0)) || skip "only root attaches to a process that is not dumpable"
	kept --not-dumpable
}

# stays_stopped PID: a thread that limpet leaves wakes in the kernel, which stops it again at once; until then it is "running".
stays_stopped() {
	wait_until 10 grep -q '^State:[[:space:]]T' "/proc/$1/status"
}

@test "a stopped process is captured, and is still stopped" {
	start storm "$TARGETS/storm" --threads 2
	kill -STOP "$pid"
	stays_stopped "$pid"
	attach "$pid"
	stays_stopped "$pid"
	stop "$pid"
	stays_stopped "$pid"
	kill -CONT "$pid"
	tell storm "run 1000" ran
	nothing_of_ours "$pid"
	finish storm
}

@test "a process that is stopped while it is captured is left, and is still stopped" {
	start storm "$TARGETS/storm" --threads 2
	attach "$pid"
	tell storm "leak 5" leaked
	kill -STOP "$pid"
	stays_stopped "$pid"
	stop "$pid"
	good_capture
	stays_stopped "$pid"
	nothing_of_ours "$pid"
	kill -CONT "$pid"
	tell storm "run 1000" ran
	finish storm
}

# continue_all_the_while PID: until it ends.
continue_all_the_while() {
	while kill -CONT "$1" 2>/dev/null; do :; done
}

# Each SIGCONT is news for a traced thread: it stops, and makes no thread itself.
@test "a process that is continued all the while, and was never stopped" {
	local i
	start storm "$TARGETS/storm" --threads 2
	continue_all_the_while "$pid" 3>&- &
	for ((i = 0; i < 4; i++)); do
		within 60 "$LIMPET" attach -q --no-seal -d 50ms -o "continued$i.limpet" "$pid"
		nothing_of_ours "$pid"
	done
	tell storm "run 1000" ran
	finish storm
}

@test "a thread opens files all the while: each gets the lowest number" {
	local before i
	start lowest "$TARGETS/lowest"
	for i in {1..8}; do
		tell lowest opened opened
		read -r _ before _ <<<"$answer"
		attach "$pid"
		opens_more() { local now && tell lowest opened opened && read -r _ now _ <<<"$answer" && ((now > before)); }
		wait_until 60 opens_more
		stop "$pid"
	done
	tell lowest opened opened
	same "numbers that were not the lowest" "${answer##* }" 0
	nothing_of_ours "$pid"
	finish lowest
}

# As bash takes them: a descriptor that it does not know, above the usual ones, for one of its own.
@test "a shell takes descriptors of its choice during the capture: what it writes is in its files" {
	local fd way
	for way in map dlopen; do
		start "shell-$way" bash -c 'echo "ready $$ ${TARGET_SYMBOL:-}"; while read -r line; do
			[[ $line != quit ]] || exit 0; eval "$line"; echo evaluated; done'
		LIMPET_LOAD="$way" attach "$pid"
		for fd in 10 63 {240..254}; do
			tell "shell-$way" "exec $fd>of.$fd && echo during >&$fd" evaluated
		done
		stop "$pid"
		for fd in 10 63 {240..254}; do
			tell "shell-$way" "echo after >&$fd" evaluated
			same "file $fd" "$(<"of.$fd")" "during"$'\n'"after"
		done
		nothing_of_ours "$pid"
		finish "shell-$way"
	done
}

@test "nothing of ours is among the program's descriptors during a capture" {
	local way
	for way in map dlopen; do
		start "odd-$way" "$TARGETS/odd"
		LIMPET_LOAD="$way" attach "$pid"
		tell "odd-$way" "work 100" worked
		tell "odd-$way" close "closed 0"
		stop "$pid"
		good_capture
		finish "odd-$way"
	done
}

# bats test_tags=release
@test "a program that closes all descriptors, and executes another: the trace says so" {
	start execer "$TARGETS/execer"
	attach "$pid"
	tell execer close closed
	tell execer exec second
	attached 0
	report
	expect '.capture.end == "target-exec"'
	finish execer
}

# Hooks make no system call, and nothing is called in the program any more: the agent stays, switched off.
@test "a program that locks itself in during the capture: all of it is recorded, and none of our calls is made" {
	local way
	for way in kill errno; do
		start "shut-$way" "$TARGETS/shut"
		attach "$pid"
		tell "shut-$way" "work 1000" worked
		tell "shut-$way" "shut $way" shut
		tell "shut-$way" "work 100000" worked
		tell "shut-$way" "threads 20" worked
		stop "$pid" 5
		grep -q 'seccomp filter' attach.*.err
		report
		expect '.capture.complete and (.capture.agent_unloaded | not)'
		same "allocations in shut_work" "$(site_sum shut_work allocations)" 101200
		tell "shut-$way" "work 1000" worked
		# Whoever comes later calls nothing either.
		within 60 "$LIMPET" stop "$pid" >again.say 2>&1 && fail "it was removed: $(<again.say)"
		tell "shut-$way" "threads 5" worked
		finish "shut-$way"
	done
}

@test "children in every way: fork, vfork, spawn, and with every descriptor closed" {
	start forker "$TARGETS/forker"
	attach "$pid"
	tell forker "fork 50" forked
	tell forker "vfork 50" forked
	tell forker "spawn 50" forked
	tell forker "bare 50" forked
	stop "$pid"
	good_capture
	nothing_of_ours "$pid"
	tell forker "fork 5" forked
	finish forker
}

# vforked PROGRAM: what a vfork child allocates is its parent's, in whose memory it stays.
vforked() {
	start forker "$TARGETS/$1"
	attach "$pid" || return 1
	tell forker "vwork 100" forked
	tell forker "vfork 10" forked
	stop "$pid" || return 1
	good_capture || return 1
	same "their calls" "$(site_sum forker_vwork allocations)" 1100 || return 1
	same "what they left" "$(site_sum forker_vwork live_allocations)" 100 || return 1
	nothing_of_ours "$pid" || return 1
	tell forker "vwork 10" forked
	finish forker
}

@test "children by vfork that allocate: each call counts as their parent's" {
	vforked forker
}

# bats test_tags=release
@test "children by vfork that allocate: each call counts as their parent's, where the agent is mapped" {
	load=map vforked forker
}

# bats test_tags=release
@test "children by vfork that allocate: each call counts as their parent's, in a static program" {
	vforked forker-static
}

# sealed_by WORD: the program seals what has that name in its memory, while it is captured.
sealed_by() {
	start sealer "$TARGETS/sealer" || return 1
	attach "$pid" || return 1
	tell sealer "seal $1" sealed || return 1
	[[ $answer != "sealed 0" ]] || skip "no mseal(2) here"
	tell sealer "take 1000" taken
}

stays_for_good() {
	sealed_by memfd:limpet- || return 1
	stop "$pid" 5 || return 1
	grep -q "process $pid has sealed limpet's memory by mseal(2): it stays, unused, until the program ends" attach.1.err
	! grep -h 'tries again' stop.err attach.1.err || return 1
	tell sealer "take 1000" taken
	refused 1 "process $pid has sealed limpet's memory" "$LIMPET" attach "$pid" || return 1
	finish sealer
}

@test "a program seals limpet's memory (mseal): limpet says that it stays, and never that it tries again" {
	stays_for_good
}

@test "a program seals limpet's memory (mseal): limpet says that it stays, where the agent is mapped" {
	load=map stays_for_good
}

@test "a program seals the pages of its slots (mseal): they are put back all the same" {
	sealed_by /sealer
	stop "$pid"
	good_capture
	same "its calls" "$(site_sum take allocations)" 1000
	nothing_of_ours "$pid"
	tell sealer "take 1000" taken
	finish sealer
}

# apart_from WHEN COMMAND: a thread takes a table of descriptors of its own, before the capture or during it. It sleeps,
# and so is hijacked, while the main thread runs.
apart_from() {
	local before
	start apart "$TARGETS/parted"
	[[ $1 == during ]] || tell apart "$2" apart
	tell apart descriptors descriptors
	before=$answer
	attach "$pid" || return 1
	[[ $1 == before ]] || tell apart "$2" apart
	tell apart "take 1000" taken
	stop "$pid" || return 1
	good_capture || return 1
	same "its calls" "$(site_sum take allocations)" 1000 || return 1
	nothing_of_ours "$pid" || return 1
	if [[ $2 == unshare ]]; then
		tell apart descriptors descriptors
		same "descriptors of both" "$answer" "$before" || return 1
	fi
	finish apart
}

@test "a thread with descriptors of its own is hijacked: captured, and each table is as it was" {
	apart_from before unshare
}

@test "a thread with no descriptors but the first three is hijacked: captured" {
	apart_from before narrow
}

@test "a thread takes descriptors of its own during the capture: left, and each table is as it was" {
	apart_from during unshare
}

@test "a thread closes all descriptors in a table of its own during the capture: captured, and left" {
	apart_from during narrow
}

@test "a child that lives on is clean after the capture or named, and works" {
	start forker "$TARGETS/forker"
	attach "$pid"
	tell forker keep kept
	local child=${answer#kept }
	stop "$pid"
	good_capture
	# Cleaned like its parent, or named.
	nothing_of_ours "$child" 2>/dev/null || grep -qw "$child" "$work/attach.1.err"
	tell forker reap reaped
	nothing_of_ours "$pid"
	finish forker
}

@test "a child that was forked in a signal handler, and lives there, is clean after the capture, and works" {
	local load child
	for load in "" dlopen map; do
		start "forker$load" "$TARGETS/forker"
		attach "$pid"
		tell "forker$load" "keep 1" kept
		child=${answer#kept }
		stop "$pid"
		good_capture
		nothing_of_ours "$child"
		nothing_of_ours "$pid"
		tell "forker$load" reap reaped
		finish "forker$load"
	done
}

# A thread has one tracer at a time: nothing of the child can be taken away while another has it.
@test "a child that another traces keeps the agent: limpet stop says where, and not in whom it was stopped" {
	local child tracer
	start forker "$TARGETS/forker"
	attach "$pid"
	tell forker keep kept
	child=${answer#kept }
	trace_by_another "$child"
	tracer=$answer
	stop "$pid" 5
	grep -q "the agent stays, switched off, in children of process $pid: $child;" attach.1.err
	grep -q "in process $pid or what it forked; .limpet status. lists where" stop.err
	! grep 'tries again' stop.err || return 1
	nothing_of_ours "$pid"
	end_process "$tracer" 2
	within 60 "$LIMPET" status >status.say
	grep -qw "$child" status.say
	cleaned_up "$child"
	tell forker reap reaped
	finish forker
}

# With a child every 300 microseconds some are forked while a thread is hijacked, and inherit the stub, its
# descriptors, and a lock of the loader's that nobody will let go of. One that is forked in the very middle of
# the loader's own work cannot be cleaned; it is named.
# bats test_tags=release
@test "children that are forked at every moment of attach and detach are clean or named, and work" {
	local child left named try
	# If limpet gets no processor while a thread is hijacked, all of them may be forked meanwhile.
	for try in {1..10}; do
		forked_at_every_moment "forker$try"
		((named > 100)) || break
	done
	((named <= 100)) || fail "$named children are not clean: $(<brood.err)"
	echo "# figures: ${answer#hatched } children forked meanwhile: $named not clean, and named" >&3
}

# forked_at_every_moment NAME: sets `named`, how many children were not clean.
forked_at_every_moment() {
	local name=$1
	named=0
	start "$name" "$TARGETS/forker"
	rm -f brood.limpet
	# From limpet's first call of ptrace on.
	MEDDLE_AT="p1:brood 200:$work/$name.in" LD_PRELOAD=$TARGETS/meddle.so \
		"$LIMPET" attach "$pid" "${patiently[@]}" -d 5ms -q --no-seal -o brood.limpet >brood.say 2>brood.err || ((${?} == 5))
	heard "$name" brooding
	for child in $(pgrep -P "$pid"); do
		left=$(find "/proc/$child/fd" -lname 'socket:*' -o -lname '*memfd:*')
		[[ -n $left ]] || nothing_of_ours "$child" 2>/dev/null || left=mapped
		[[ -n $left ]] || continue
		grep -qw "$child" brood.err || fail "$child has $left, and is not named: $(<brood.err)"
		named=$((named + 1))
	done
	nothing_of_ours "$pid"
	tell "$name" hatch hatched
	local hatched=$answer
	[[ $hatched != "hatched 0" ]]
	finish "$name"
	answer=$hatched
}

# Without a shell that controls jobs there is nobody to wake it, and the kernel lets Ctrl-Z pass.
# LIBRARY COMMAND...: in a process group of its own, as a shell has its jobs, and waits for its end alone.
in_a_group='import os, subprocess, sys
job = subprocess.Popen(sys.argv[2:], env=dict(os.environ, LD_PRELOAD=sys.argv[1]), preexec_fn=os.setpgrp)
open("job", "w").write(f"{job.pid}\n")
sys.exit(job.wait())'

@test "Ctrl-Z while it goes in: limpet stops when it holds no thread, and goes on" {
	local at
	start storm "$TARGETS/storm" --threads 4
	for at in p1 p3 p9 p20 40 80; do
		trace=$work/suspended.$at.limpet
		MEDDLE_STOP=$at within 120 python3 -c "$in_a_group" "$TARGETS/meddle.so" \
			"$LIMPET" attach "$pid" "${patiently[@]}" -q -o "$trace" >suspended.say 2>suspended.err 3>&- &
		limpet_job=$!
		wait_until 60 is_suspended
		! holds_one "$(<job)" "$pid" || fail "limpet stands, and holds a thread of the target: at $at" || return 1
		tell storm "run 100" ran
		kill -CONT "$(<job)"
		wait_until 60 capturing "$pid"
		stop "$pid"
		good_capture
		rm job
	done
	finish storm
}
is_suspended() {
	[[ -s job ]] && stands_still "$(<job)"
}
