#!/usr/bin/env bats
# Every way a capture can end leaves a readable trace that says how, and a target that goes on.
# time-limit: 400

load helpers
setup() { begin; }
teardown() { end; }

# A capture of a storm that works, with a site whose count is known.
captured_storm() {
	start storm "$TARGETS/storm" --threads 2 --rate 50000 || return 1
	tell storm go going || return 1
	attach "$pid" || return 1
	tell storm hold held || return 1
	tell storm "leak 50" leaked || return 1
	tell storm go going
}

# ended_as WORD: the report says so, nothing was lost, the target works on and is clean.
ended_as() {
	good_capture || return 1
	expect '.capture.end == $word' --arg word "$1" || return 1
	same "leaks" "$(site_sum storm_leak allocations)" 50 || return 1
	nothing_of_ours "$pid" || return 1
	tell storm hold held || return 1
	tell storm "run 1000" ran || return 1
	finish storm
}

# As long as it takes to do within it what is counted then.
@test "deadline" {
	local seconds=1 early
	start storm "$TARGETS/storm" --threads 2 --rate 50000
	while :; do
		tell storm go going
		attach "$pid" --duration "${seconds}s" || ended "$limpet_job"
		tell storm hold held
		tell storm "leak 50" leaked
		# From the end of the time on it leaves, and seals.
		early=
		is_captured "$pid" || early=true
		attached 0
		[[ -n $early ]] || break
		seconds=$((seconds * 3))
	done
	tell storm go going
	ended_as duration
	expect '.capture.duration_seconds >= $seconds' --argjson seconds "$seconds"
}

# By a clock that only waiting moves (test/targets/instead.c): on a program at rest nothing else takes time.
@test "deadline: not before, and at once then" {
	start storm "$TARGETS/storm" --threads 2
	trace=$work/whole.limpet
	INSTEAD_CLOCK=waited.json LD_PRELOAD=$TARGETS/instead.so within 60 "$LIMPET" attach -q "${patiently[@]}" \
		--duration 1500ms -o "$trace" "$pid"
	# What it waits for threads, and for a dlopen, at both ends is in it.
	json_says '.milliseconds >= 1500' <waited.json || fail "it waited: $(<waited.json)"
	good_capture
	expect '.capture.end == "duration" and .capture.duration_seconds >= 1.5 and .capture.duration_seconds < 1.6'
	finish storm
}

@test "the words at the start say how it will end" {
	start storm "$TARGETS/storm" --threads 1
	attach "$pid" --duration 90m
	grep -qxF "hint: ends after 1h30m; earlier by Ctrl-C here or \`limpet stop $pid\` anywhere" "attach.$captures.err"
	stop "$pid"
	attach "$pid"
	grep -qxF "hint: Ctrl-C here or \`limpet stop $pid\` anywhere ends it" "attach.$captures.err"
	stop "$pid"
	# As a script's shell starts what runs in its background.
	env --ignore-signal=INT "$LIMPET" attach -d 50ms -o ignored.limpet "$pid" 2>ignored.err
	grep -qxF "hint: ends after 50ms; earlier by \`limpet stop $pid\` anywhere" ignored.err
	finish storm
}

@test "Ctrl-C" {
	captured_storm
	kill -INT "$limpet_job"
	attached 0
	ended_as interrupt
}

# bats test_tags=release
@test "SIGTERM" {
	captured_storm
	kill -TERM "$limpet_job"
	attached 0
	ended_as interrupt
}

# bats test_tags=release
@test "SIGHUP" {
	captured_storm
	kill -HUP "$limpet_job"
	attached 0
	ended_as interrupt
}

# bats test_tags=check
@test "limpet stop" {
	captured_storm
	stop "$pid"
	grep -qE "^limpet: stops of process $pid: attach [0-9.]+ ms, detach [0-9.]+ ms$" stop.err || fail "$(<stop.err)"
	ended_as stop
}

@test "limpet stop --all" {
	captured_storm
	see_no_others
	within 60 "${alone[@]}" "$LIMPET" stop --all
	attached 0
	ended_as stop
}

@test "many Ctrl-C in a row never cut the detach short" {
	captured_storm
	local i
	for ((i = 0; i < 50; i++)); do
		kill -INT "$limpet_job" 2>/dev/null || break
	done
	attached 0
	report
	expect '.capture.end == "interrupt" and .capture.complete and .capture.agent_unloaded'
	# Symbols may be cut short: then we are told how to add them.
	json_says .capture.sealed <report.json || grep -q 'limpet seal' "$work/attach.1.err"
	within 60 "$LIMPET" seal "$trace"
	report
	same "leaks" "$(site_sum storm_leak allocations)" 50
	nothing_of_ours "$pid"
	tell storm hold held
	finish storm
}

# page_tables PID: what it takes to map what was touched, in KiB.
page_tables() {
	sed -n 's/^VmPTE:[[:space:]]*\([0-9]*\) kB$/\1/p' "/proc/$1/status"
}

# What is there is asked for in steps of a GiB and more; to read about each page would take two hundred thousand calls, and to
# look at each a page table.
# bats test_tags=release
@test "terabytes that were never touched: left in few steps, copies put back" {
	local before counter
	[[ $(printf '%s\n' 6.7 "$(uname -r)" | sort -V | head -n 1) == 6.7 ]] ||
		skip "this kernel is older than 6.7: it cannot be asked which pages there are"
	command -v strace >/dev/null || skip "strace is not installed"
	start odd "$TARGETS/odd" --sparse 4096
	attach "$pid"
	tell odd copy copied
	tell odd "work 1000" worked
	before=$(page_tables "$pid")
	strace -f -c -o calls -p "$limpet_job" 2>strace.err 3>&- &
	counter=$!
	limpet_jobs+=("$counter")
	wait_until 30 grep -q "^TracerPid:[[:space:]]$counter\$" "/proc/$limpet_job/status"
	stop "$pid"
	exit_status_of "$counter" 30
	(($(awk '$NF == "total" { print $4 }' calls) < 100000)) || fail "$(<calls)"
	(($(page_tables "$pid") <= before + 64)) || fail "page tables: $before KiB, and now $(page_tables "$pid")"
	good_capture
	same "allocations through the table" "$(site_sum odd_work allocations)" 1000
	nothing_of_ours "$pid"
	tell odd "work 1000" worked
	finish odd
}

@test "SIGHUP and SIGINT that were ignored when it started stay ignored" {
	start storm "$TARGETS/storm" --threads 2
	trace=$work/ignored.limpet
	env --ignore-signal=INT,HUP "$LIMPET" attach "$pid" "${patiently[@]}" -o "$trace" >ignored.say 2>ignored.err \
		</dev/null 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
	wait_until 60 capturing "$pid"
	kill -HUP "$limpet_job"
	kill -INT "$limpet_job"
	tell storm "leak 3" leaked
	wait_until 60 capturing "$pid"
	stop "$pid"
	good_capture
	expect '.capture.end == "stop"'
	same "leaks" "$(site_sum storm_leak allocations)" 3
	finish storm
}

# exits COMMAND STATUS: of the exiter, whose thread allocates all the while.
exits() {
	start exiter "$TARGETS/exiter" || return 1
	attach "$pid" || return 1
	tell exiter "allocate 500" allocated || return 1
	printf '%s\n' "$1" >&"${in_of[exiter]}"
	result exiter "$2" || return 1
	attached 0 || return 1
	report || return 1
	same "blocks that stay" "$(site_sum exiter_keep allocations)" 500 || return 1
	! "$LIMPET" status "$pid" 2>/dev/null
}

@test "the target returns from main" {
	exits "return 3" 3
	expect '.capture.end == "target-exit" and .capture.complete'
	"$LIMPET" report "$trace" | grep -q "^stopped .* at attach, none at detach$"
}

# bats test_tags=release
@test "the target calls exit in another thread" {
	exits "exit-thread 4" 4
	expect '.capture.end == "target-exit" and .capture.complete'
}

@test "the target calls _exit" {
	exits "_exit 5" 5
	expect '.capture.end == "target-exit" and .capture.complete'
}

# bats test_tags=release
@test "the target aborts" {
	exits abort 134
	expect '.capture.end == "target-killed" and .capture.complete'
}

@test "the target is killed: what it did last is in the trace" {
	start exiter "$TARGETS/exiter"
	attach "$pid"
	printf 'kill 10000\n' >&"${in_of[exiter]}"
	result exiter 137
	attached 0
	report
	expect '.capture.end == "target-killed" and .capture.complete'
	same "blocks before the kill" "$(site_sum exiter_keep allocations)" 10000
}

@test "the target is killed under full load" {
	start storm "$TARGETS/storm" --threads 4 --cross
	tell storm go going
	attach "$pid"
	wait_until 30 recorded "$pid" 10000
	kill -KILL "${job_of[storm]}"
	exit_status_of "${job_of[storm]}" 10
	exit_status_of "$limpet_job" 60
	[[ $status == 0 || $status == 4 ]]
	report
	expect '.capture.end == "target-killed" and .totals.allocations > 1000'
	expect '.capture.complete == (.capture.dropped_events == 0)'
}

@test "the leader thread ends, the others go on" {
	start exiter "$TARGETS/exiter"
	attach "$pid"
	tell exiter "allocate 20" allocated
	tell exiter leader leaving
	wait_until 10 leader_ended
	stop "$pid"
	good_capture
	same "blocks that stay" "$(site_sum exiter_keep allocations)" 20
	no_agent_in_a_thread
	end_leaderless
}

leader_ended() {
	grep -q '^State:[[:space:]]Z' "/proc/$pid/status"
}
# Ended, the main thread shows nothing: the other one does.
other_thread() {
	local task
	for task in "/proc/$pid/task/"*; do
		[[ ${task##*/} == "$pid" ]] || echo "${task##*/}"
	done
}
no_agent_in_a_thread() {
	local tid
	tid=$(other_thread)
	grep -q ' /' "/proc/$tid/maps" || fail "thread $tid shows no mappings" || return 1
	nothing_of_ours "$tid" || return 1
	! "$LIMPET" status "$pid" >/dev/null 2>&1 || fail "limpet status still knows process $pid"
}
end_leaderless() {
	! ended "$pid" || fail "the exiter is gone" || return 1
	kill -TERM "$pid"
	result exiter 0
}

@test "the leader thread had ended before: attached, captured, left; and repaired after a kill" {
	start exiter "$TARGETS/exiter"
	tell exiter leader leaving
	wait_until 10 leader_ended
	"$LIMPET" doctor "$pid" | grep -q 'main thread has ended'
	attach "$pid"
	wait_until 30 recorded "$pid" 100
	stop "$pid"
	good_capture
	same "it was seen to work" "$(($(site_sum exiter_churn allocations) > 20))" 1
	expect '[.timeline[].rss_bytes // 0] | max > 100000'
	no_agent_in_a_thread
	attach "$pid"
	kill -KILL "$limpet_job"
	exit_status_of "$limpet_job" 10
	"$LIMPET" status "$pid" --json | json_says '.captures[0].state == "dormant"'
	cleaned_up "$pid"
	no_agent_in_a_thread
	end_leaderless
}

@test "the target becomes another program" {
	for how in exec exec-thread; do
		start "$how" "$TARGETS/execer"
		attach "$pid"
		wait_until 30 recorded "$pid" 10
		printf '%s\n' "$how" >&"${in_of[$how]}"
		heard "$how" second
		attached 0
		report
		expect '.capture.end == "target-exec" and .capture.complete'
		same "function of the first program" "$(($(site_sum execer_work allocations) > 0))" 1
		nothing_of_ours "$pid"
		finish "$how"
	done
}

# captured_by_nobody: an execer and a limpet of that user, in the directory $theirs.
captured_by_nobody() {
	((EUID == 0)) || skip "only root can become another user"
	make_theirs
	install -m 755 "$TARGETS/execer" "$theirs"
	start execer setpriv --reuid 65534 --regid 65534 --clear-groups "$theirs/execer"
	trace=$theirs/out.limpet
	"${as_nobody[@]}" attach "$pid" "${patiently[@]}" -o "$trace" >theirs.say 2>theirs.err </dev/null 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
	wait_until 60 capturing "$pid" "${as_nobody[@]}"
}
recorded_by_nobody() {
	local said
	ask_status "$pid" "${as_nobody[@]}"
	[[ $said =~ '"events": '([0-9]+) ]] && ((BASH_REMATCH[1] >= $1))
}

@test "the target becomes undumpable: the capture goes on, the agent stays, and only root can remove it" {
	captured_by_nobody
	tell execer undumpable "undumpable 0"
	# For longer than limpet needs to see that.
	wait_until 30 recorded_by_nobody 1000
	wait_until 30 recorded_by_nobody $((BASH_REMATCH[1] + 4000))
	same "stop" "$("${as_nobody[@]}" stop "$pid" >/dev/null 2>stop.err || echo $?)" 5
	exit_status_of "$limpet_job" 60
	same "attach" "$status" 5
	grep -qx "limpet: process $pid may no longer be traced: it has become undumpable .*" theirs.err
	grep -qx "limpet: warning: the agent stays in process $pid, switched off; .*" theirs.err
	report
	expect '.capture | .end == "stop" and .complete and (.agent_unloaded | not)'
	refused 1 "this user may not trace it: whether an agent was left there" "${as_nobody[@]}" stop "$pid"
	cleaned_up "$pid"
	finish execer
}

@test "the target becomes undumpable and loads a library: that its calls may be missed is said" {
	captured_by_nobody
	tell execer undumpable "undumpable 0"
	tell execer load "loaded 1"
	same "stop" "$("${as_nobody[@]}" stop "$pid" >/dev/null 2>stop.err || echo $?)" 5
	exit_status_of "$limpet_job" 60
	grep -q "not complete: its modules have changed since it may no longer be traced" theirs.err
	report
	expect '.capture | (.complete | not) and .incomplete_reasons == ["late-modules"]'
	cleaned_up "$pid"
	finish execer
}

@test "the target executes a set-uid program, which its user may not trace: the capture ends, and nothing is left" {
	captured_by_nobody
	wait_until 30 recorded_by_nobody 10
	chmod u+s "$theirs/execer"
	tell execer exec second
	exit_status_of "$limpet_job" 60
	same "attach" "$status" 0
	report
	expect '.capture | .end == "target-exec" and .complete and .agent_unloaded'
	nothing_of_ours "$pid"
	finish execer
}

@test "the target writes over the bytes that the kernel drew for it: it is still the same program, and is left" {
	start storm "$TARGETS/storm" --threads 2
	tell storm go going
	attach "$pid"
	wait_until 30 recorded "$pid" 10
	# AT_RANDOM
	local at
	at=$(od -An -v -td8 -w16 "/proc/$pid/auxv" | awk '$1 == 25 { print $2 }')
	printf 'these are theirs' | dd of="/proc/$pid/mem" bs=1 seek="$at" conv=notrunc status=none
	stop "$pid"
	good_capture
	nothing_of_ours "$pid"
	finish storm
}

# bats test_tags=check
@test "the collector is killed: the target goes on, the trace is readable, the next attach cleans up" {
	start storm "$TARGETS/storm" --threads 4 --cross
	tell storm go going
	attach "$pid"
	wait_until 30 so_far '.totals.allocations > 1000'
	kill -KILL "$limpet_job"
	exit_status_of "$limpet_job" 10
	same "status of the killed" "$status" 137
	tell storm hold held
	tell storm "run 20000" ran
	report
	expect '.capture.end == "collector-lost" and (.capture.complete | not)'
	expect '.totals.allocations > 1000'
	"$LIMPET" status "$pid" --json | json_says '.captures[0].state == "dormant"'
	attach "$pid"
	tell storm zero zeroed
	tell storm "leak 10" leaked
	stop "$pid"
	good_capture
	same "leaks" "$(site_sum storm_leak allocations)" 10
	nothing_of_ours "$pid"
	finish storm
}

# bats test_tags=release
@test "the collector is killed: limpet stop cleans up too" {
	start storm "$TARGETS/storm" --threads 2 --rate 50000
	tell storm go going
	attach "$pid"
	kill -KILL "$limpet_job"
	exit_status_of "$limpet_job" 10
	cleaned_up "$pid"
	tell storm hold held
	finish storm
}

# bats test_tags=release
@test "the collector is killed: limpet stop cleans up what was forked, too, and doctor counts it" {
	local child
	start forker "$TARGETS/forker"
	attach "$pid"
	tell forker keep kept
	child=${answer#kept }
	kill -KILL "$limpet_job"
	exit_status_of "$limpet_job" 10
	run "$LIMPET" doctor "$pid"
	[[ $status == 0 && $output == *"and in 1 other by"*"limpet stop $pid"* ]] || fail "$output"
	cleaned_up "$pid"
	grep -q "left in process $child" stop.err || fail "$(<stop.err)"
	nothing_of_ours "$child"
	tell forker reap reaped
	finish forker
}

@test "a full disk ends the capture, not the target" {
	if ! unshare --mount true 2>/dev/null; then
		skip "mounting a small file system is not allowed here"
	fi
	start storm "$TARGETS/storm" --threads 2 --cross
	tell storm go going
	mkdir small
	# A mount of its own: nobody else sees it, and it goes with the process.
	trace=$work/full.limpet
	unshare --mount bash -c "mount -t tmpfs -o size=256k none '$work/small' &&
		'$LIMPET' attach $pid --no-seal --attach-timeout 10m -o '$work/small/t.limpet'
		status=\$?
		cp '$work/small/t.limpet' '$trace'
		exit \$status" >full.say 2>full.err </dev/null 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
	# So small that it is full before anybody looks, or nearly so when somebody does.
	exit_status_of "$limpet_job" 60
	[[ $status == 4 ]]
	report
	expect '.capture.end == "disk-full" and (.capture.complete | not)'
	nothing_of_ours "$pid"
	tell storm hold held
	finish storm
}

# Points of the time line, in a file system that only limpet sees. The disk is looked at with each.
@test "a disk that fills up: the capture ends before it is full, lacks nothing, and says that it ended early" {
	local left events=0
	if ! unshare --mount true 2>/dev/null; then
		skip "mounting a small file system is not allowed here"
	fi
	start storm "$TARGETS/storm" --threads 2
	mkdir small
	trace=$work/low.limpet
	unshare --mount bash -c "mount -t tmpfs -o size=4m none '$work/small' &&
		'$LIMPET' attach $pid --no-seal ${patiently[*]} -o '$work/small/t.limpet'
		status=\$?
		df --output=avail -k '$work/small' | tail -n 1 >'$work/left'
		cp '$work/small/t.limpet' '$trace'
		exit \$status" >low.say 2>low.err </dev/null 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
	wait_until 60 capturing "$pid"
	# The disk is looked at now and then: a program that is looked at as often as it allocates.
	until ended "$limpet_job"; do
		tell storm "run 15000" ran
		events=$((events + 30000))
		wait_until 60 recorded "$pid" "$events"
	done
	attached 4
	report
	# Every event of its time is there; but it is not the capture that was asked for.
	expect '.capture.end == "disk-full" and (.capture.complete | not) and .capture.dropped_events == 0 and
		.capture.incomplete_because == "it ended early: the disk was full"'
	left=$(<left)
	((left > 64)) || fail "only $left KiB were left"
	(($(stat -c %s "$trace") > 1000000)) || fail "it ended too early"
	grep -q 'nearly' low.err
	nothing_of_ours "$pid"
	finish storm
}

@test "--no-seal leaves the symbols to limpet seal" {
	start storm "$TARGETS/storm" --threads 2
	attach "$pid" --no-seal
	tell storm "leak 5" leaked
	stop "$pid"
	report
	expect 'any(.sites[].stack[]; .line) | not'
	"$LIMPET" report "$trace" >text
	grep -qx 'names     not looked up: limpet seal adds them' text || fail "$(<text)" || return 1
	within 60 "$LIMPET" seal "$trace"
	"$LIMPET" report "$trace" >text
	! grep -q '^names ' text || fail "$(<text)" || return 1
	good_capture
	expect '.sites[0].stack[0] | .function == "storm_leak" and .line > 0'
	finish storm
}

@test "a collector with little to do takes the processor from nobody who runs" {
	# What its user has chosen is left alone.
	chrt --other --pid 0 "$BASHPID"
	start storm "$TARGETS/storm" --threads 1 --rate 2000
	tell storm go going
	attach "$pid"
	wait_until 30 batch "$limpet_job"
	stop "$pid"
	good_capture
	tell storm hold held
	finish storm
}

# batch PID: its main thread's policy is SCHED_BATCH.
batch() {
	local stat
	read -r stat <"/proc/$1/stat"
	read -ra stat <<<"${stat##*) }"
	((stat[38] == 3))
}

@test "a trace can be read while it is written" {
	start storm "$TARGETS/storm" --threads 2 --rate 50000
	tell storm go going
	attach "$pid"
	wait_until 30 so_far '.capture.end == "running" and .totals.allocations > 100'
	stop "$pid"
	tell storm hold held
	finish storm
}
