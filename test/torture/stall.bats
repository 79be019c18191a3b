#!/usr/bin/env bats
# The collector stands still under full load, by SIGSTOP: nobody waits for it, what is lost is counted, and it
# recovers. STALL_ROUNDS: how often in each capture.
#
# That nobody waits is counted: meanwhile test/torture/waits.c sees each system call of each thread that
# allocates, and all of them go on. For how long they do wait, and how fast they go on, is measured by
# `make torture` (stall_limits.bats).
# time-limit: 400

load ../integration/helpers
load stall
setup() { begin; }
teardown() { end; }

: "${STALL_ROUNDS:=1}"
: "${TORTURE:=$root/build/torture}"
MEMORY=8MiB
# More than it holds; and, of each thread, once it is full.
FILLING=1500000
FULL=20000

# The collector has read all that there was: the program is held, and no more comes. It answers once after each time
# that it looked.
caught_up() {
	local events
	events=$("$LIMPET" status "$pid" --json 2>/dev/null | jq '.captures[0].events') || return 1
	[[ $events == [0-9]* ]] || return 1
	[[ $events == "$seen_events" ]] || same_answers=0
	seen_events=$events
	((++same_answers >= 4))
}
catch_up() {
	local seen_events=none same_answers=0
	wait_until 60 caught_up
}

# stalled MODE: a capture in which the collector is stopped STALL_ROUNDS times. Leaves `books`,
# what the program did until then, `before_capture`, `waits`, the waits of its threads in all the stalls, and
# `calls`, the most of their system calls in one.
stalled() {
	local i
	start stall nice -n 5 "$TARGETS/stall" --threads 2 --plain || return 1
	tell stall go going || return 1
	operate fewest 1000 || return 1
	tell stall hold held || return 1
	tell stall "count" '{' || return 1
	before_capture=$answer
	overload=$1 attach "$pid" --memory $MEMORY || return 1
	tell stall "keep before 300" kept || return 1
	tell stall go going || return 1
	waits=0 calls=0
	for ((i = 1; i <= STALL_ROUNDS; i++)); do
		operate fewest 1000 || return 1
		start "waits$i" "$TORTURE/waits" "$pid" "$limpet_job" || return 1
		same "threads that are watched" "$ready" 2 || return 1
		pid=${pid_of[stall]}
		tell "waits$i" stop stopped || return 1
		"stall_of_$1" "waits$i" || return 1
		tell "waits$i" count '{' || return 1
		((waits += $(of waits "$answer"))) || true
		((calls >= $(of calls "$answer"))) || calls=$(of calls "$answer")
		finish "waits$i" || return 1
		tell stall hold held || return 1
		catch_up || return 1
		# Full recording again.
		tell stall "keep after 300" kept || return 1
		tell stall go going || return 1
	done
	tell stall hold held || return 1
	tell stall count '{' || return 1
	books=$answer
}

# All that there is room for is filled, and everybody goes on.
stall_of_drop() {
	operate operations $FILLING || return 1
	operate fewest $FULL || return 1
	tell stall "keep during 20000" kept || return 1
	tell "$1" count '{'
}
stall_of_sample() {
	stall_of_drop "$1"
}
# Until nobody gets on any more.
stall_of_wait() {
	stood=''
	wait_until 60 all_stand
}
all_stand() {
	local before=$stood
	tell stall count '{' && stood=$answer && [[ $stood == "$before" ]]
}

# Neither for the collector, nor for each other; and what they call does not grow with what they allocate.
went_on() {
	echo "# figures: $1: $STALL_ROUNDS stalls, $waits waits, at most $calls system calls in $((FILLING + 2 * FULL)) operations" >&3
	same "waits while the collector stood still" "$waits" 0 || return 1
	((calls <= FULL / 20)) || fail "$calls system calls"
}

# What the threads did before the capture is not in it.
in_capture() {
	jq --argjson before "$before_capture" ".$1 - \$before.$1" <<<"$books"
}

kept() {
	local name=$1 figure=$2
	site_sum "stall_$name" "$figure"
}

@test "drop: nobody sleeps, losses are counted, and recording recovers" {
	stalled drop
	stop "$pid" 4
	report
	went_on drop
	expect '.capture.dropped_events > 0 and (.capture.complete | not) and .capture.agent_unloaded'
	expect '.capture.estimated == false and .capture.overloads == null'
	same "blocks from before" "$(kept before live_allocations)" 300
	same "blocks from after" "$(kept after live_allocations)" $((STALL_ROUNDS * 300))
	(($(kept during allocations) < STALL_ROUNDS * 20000)) || fail "nothing was lost of the stall"
	# Every event is there or was dropped.
	recorded=$(jq '.totals.events - .totals.mmaps - .totals.munmaps + .capture.dropped_events' report.json)
	same "events recorded and dropped" "$recorded" $(($(in_capture allocations) + $(in_capture frees)))
	nothing_of_ours "$pid"
	finish stall
}

# One thread has filled fifty times as many chunks as are read at a time, and no more than there is room for: between
# two such parts it does not sleep.
# bats test_tags=release
@test "what has piled up is read without a pause" {
	local counter looks
	command -v strace >/dev/null || skip "strace is not installed"
	start storm "$TARGETS/storm" --threads 1
	attach "$pid"
	stand_still "$limpet_job" "$pid"
	tell storm "run 500000" ran
	strace -e trace=ppoll -o calls -p "$limpet_job" 2>strace.err 3>&- &
	counter=$!
	limpet_jobs+=("$counter")
	wait_until 30 grep -q "^TracerPid:[[:space:]]$counter\$" "/proc/$limpet_job/status"
	kill -CONT "$limpet_job"
	catch_up
	kill -INT "$counter"
	exit_status_of "$counter" 30 || true
	looks=$(grep -c 'tv_nsec=0}' calls) || true
	((looks >= 40)) || fail "$looks looks without a pause"
	stop "$pid"
	report
	expect '.totals.events > 550000'
	finish storm
}

# turns: how many a thread waits for a sign of life when it finds no room.
turns() {
	"$TARGETS/room" "$limpet_job"
}
waits_long() {
	((turns_at_first < $(turns)))
}
waits_short() {
	(($(turns) == turns_at_first))
}

# A program that was still is looked at less often: what it begins with is waited for, and five times as long.
# bats test_tags=release
@test "who finds no room waits for a short time, and longer where the collector naps" {
	local turns_at_first
	start storm "$TARGETS/storm" --threads 1
	overload=drop attach "$pid"
	# While it is busy, and so not napping.
	tell storm go going
	wait_until 60 recorded "$pid" 100000
	turns_at_first=$(turns)
	((turns_at_first > 0)) || fail "nobody waits while it works"
	tell storm hold held
	wait_until 60 waits_long
	tell storm go going
	wait_until 60 waits_short
	tell storm hold held
	wait_until 60 waits_long
	# On a busy machine some may be dropped meanwhile.
	"$LIMPET" stop "$pid" >stop.say 2>stop.err || [[ $? == 4 ]]
	exit_status_of "$limpet_job" 60
	((status == 0 || status == 4)) || fail "limpet attach ended with status $status"
	finish storm
}

# Threads that only allocate are faster than the collector: they wait for it, and nothing is lost.
@test "who outruns the collector waits for it: nothing is dropped" {
	local try dropped
	start storm "$TARGETS/storm" --threads 2
	# On a machine that is busy with other things the collector may be held up for longer than is waited for.
	for ((try = 1; try <= 5; try++)); do
		overload=drop attach "$pid" --memory 8MiB
		tell storm "run 2000000" ran
		within 60 "$LIMPET" stop "$pid" >stop.say 2>stop.err || [[ $? == 4 ]]
		exit_status_of "$limpet_job" 60
		report
		dropped=$(jq .capture.dropped_events report.json)
		((dropped > 0)) || break
	done
	((status == 0 && dropped == 0)) || fail "$dropped events were dropped, status $status"
	good_capture
	finish storm
}

# between FIGURE: what the program knows lies between the bounds of the report.
between() {
	local truth
	truth=$(in_capture "$1")
	expect ".totals.$1_min <= $truth and $truth <= .totals.$1_max" || fail "$1 is $truth"
}

# The program has held blocks since the capture began, and frees them while nobody listens.
# bats test_tags=release
@test "drop: blocks whose frees were dropped are not called live without a word" {
	start stall "$TARGETS/stall" --threads 2 --plain
	tell stall count '{'
	before_capture=$answer
	attach "$pid" --memory $MEMORY
	tell stall "keep before 15000" kept
	catch_up
	stand_still "$limpet_job" "$pid"
	tell stall go going
	operate operations $FILLING
	operate fewest $FULL
	tell stall hold held
	tell stall "release 15000" released
	kill -CONT "$limpet_job"
	catch_up
	tell stall count '{'
	books=$answer
	stop "$pid" 4
	report
	# All of them count as live, and none is.
	((($(kept before live_allocations)) > 14000)) || fail "their frees were not dropped"
	expect '(.capture.complete or .capture.exact | not) and .capture.dropped.frees >= 15000'
	expect '.capture.incomplete_reasons == ["dropped-events"] and .capture.dropped.unknown == 0'
	between live_allocations
	between live_bytes
	expect '.totals | .live_allocations_min < 1000 and .live_allocations > 14000'
	expect 'any(.findings[]; .kind == "holds" and .qualified and .freed_blocks_max > 14000 and
		(.text | test("Up to .* of these may have been freed: .* frees were dropped")))'
	run -0 "$LIMPET" report "$trace"
	# How much was dropped meanwhile, so in which unit, is the machine's affair.
	[[ $output =~ live\ +[0-9.]+\ [KMG]?i?B\ to\ [0-9.]+\ [MG]iB\ in\ .*\ recorded ]] || fail "$output"
	[[ $output == *"events dropped: "*" allocations ("*" frees"* ]] || fail "$output"
	nothing_of_ours "$pid"
	finish stall
}

# Within the interval stretched two and a half times: five standard deviations.
near_truth() {
	expect ".totals | (.$1 - .$1_low) * 2.5 + 1 >= .$1 - \$is and (.$1_high - .$1) * 2.5 + 1 >= \$is - .$1" \
		--argjson is "$2"
}

@test "sample: nobody waits, nothing is lost but to sampling, and recording recovers" {
	# Room for what is recorded in an overload, however long it lasts until all is asked.
	local figure MEMORY=32MiB
	stalled sample
	stop "$pid"
	report
	echo "# figures: sample: $(jq -r '"\(.capture.overloads.ranges | length) overloads of \(.capture.overloads.seconds) s; " +
		"\(.totals.allocations) allocations estimated (\(.totals.allocations_low) to \(.totals.allocations_high))"' report.json)," \
		"$(in_capture allocations) by the program" >&3
	went_on sample
	expect '.capture.complete and .capture.dropped_events == 0 and .capture.agent_unloaded'
	expect '.capture.estimated and .capture.overloads.sample_bytes == 524288 and .capture.sample_bytes == 0'
	expect '(.capture.overloads.ranges | length >= '"$STALL_ROUNDS"') and
		all(.capture.overloads.ranges[]; .from_seconds < .to_seconds)'
	# What was recorded in full is exact, and says so.
	same "blocks from before" "$(kept before live_allocations)" 300
	same "blocks from after" "$(kept after live_allocations)" $((STALL_ROUNDS * 300))
	expect '[.sites[] | select(any(.stack[]; .function == "stall_before" or .function == "stall_after")) |
		.allocations_low == .allocations and .allocations == .allocations_high and
		.live_bytes_low == .live_bytes and .live_bytes == .live_bytes_high] | length == 2 and all'
	expect '[.sites[] | select(any(.stack[]; .function == "stall_during")) | .live_bytes_low < .live_bytes_high] | all'
	for figure in allocations allocated_bytes live_allocations live_bytes; do
		near_truth "$figure" "$(in_capture "$figure")"
	done
	expect '.totals.foreign_frees == null and .totals.inferred_frees == 0'
	# A sample that is still alive counts for as many there as in the totals.
	"$LIMPET" report "$trace" --view lifetimes --json >lifetimes.json
	json_says '([.ages[].alive] | add) - .totals.live_allocations | fabs <= 16' <lifetimes.json
	run -0 "$LIMPET" report "$trace"
	[[ $output == *"allocated while overloaded"*overload*"allocations were sampled then"* ]]
	nothing_of_ours "$pid"
	finish stall
}

# They stand where they are until there is room, without a system call.
@test "wait: everything is recorded, and the threads are seen to wait" {
	local figure
	STALL_ROUNDS=1
	stalled wait
	stop "$pid"
	report
	echo "# figures: wait: $waits waits of $calls system calls" >&3
	same "system calls of those who wait" "$calls" 0
	expect '.capture.complete and .capture.dropped_events == 0 and .capture.estimated == false'
	for figure in allocations allocated_bytes; do
		same "$figure" "$(jq ".totals.$figure" report.json)" "$(in_capture "$figure")"
	done
	same "frees" "$(jq '.totals.frees + .totals.foreign_frees' report.json)" "$(in_capture frees)"
	finish stall
}
