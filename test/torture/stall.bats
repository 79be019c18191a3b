#!/usr/bin/env bats
# The collector stands still under full load, by SIGSTOP: nobody waits for it longer than a
# millisecond, what is lost is counted, and it recovers. STALL_ROUNDS: how often in each capture.
#
# Threads that wait for the collector do so in every stall: each has filled its ring within
# milliseconds. So most stalls have to be free of threads that sleep. One that spins cannot be told
# from one whose processor the hypervisor took: stolen time counts as used. That happens at any time,
# to a twin as well that runs beside it and is not captured. One stall has to be free of spins longer
# than the twin's; more are made for it, up to MORE_STALLS.
# time-limit: 400
# measures-time: for how long threads wait

load ../integration/helpers
setup() { begin; }
teardown() { end; }

: "${STALL_ROUNDS:=1}"
: "${STALL_SECONDS:=1}"
MORE_STALLS=11
BOUND_US=1000

# measured_for SECONDS: since the mark.
measured_for() {
	tell stall measure '{' && json_says ".seconds >= $1" <<<"$answer"
}

# measure SECONDS: the program's own figures of so long; sets `answer`.
measure() {
	tell stall mark marked || return 1
	wait_until 120 measured_for "$1"
}

of() {
	jq ".$1" <<<"$2"
}

# longest_waits ANSWER: asleep and on the processor
longest_waits() {
	jq -r '"\(.longest_sleep_us)+\(.longest_spin_us)"' <<<"$1"
}

# rate ANSWER: operations per second
rate() {
	jq '.operations / .seconds | round' <<<"$1"
}

status_says() {
	"$LIMPET" status "$pid" --json 2>/dev/null | json_says ".captures[0] | $1"
}

# The collector has read all that there was: the program is held, and no more comes.
caught_up() {
	local before=$seen_events
	seen_events=$("$LIMPET" status "$pid" --json 2>/dev/null | jq '.captures[0].events') || return 1
	[[ $before == "$seen_events" ]]
}
catch_up() {
	seen_events=none
	wait_until 60 caught_up
}

nobody_waited() {
	((slept * 2 <= stalls && spun < stalls))
}

more_stalls() {
	((stalls < STALL_ROUNDS)) || { ! nobody_waited && ((stalls < STALL_ROUNDS + MORE_STALLS)); }
}

# Of the stall that `answer` tells of.
note_waits() {
	local mine=$answer spin_us twin_us
	tell twin measure '{' || return 1
	spin_us=$(of longest_spin_us "$mine") twin_us=$(of longest_spin_us "$answer")
	waits+=("$(longest_waits "$mine")/$twin_us")
	((stalls += 1))
	(($(of longest_sleep_us "$mine") <= BOUND_US)) || ((slept += 1))
	((spin_us <= BOUND_US || spin_us <= twin_us)) || ((spun += 1))
}

# stalled MODE [OPTION...]: a capture in which the collector is stopped STALL_ROUNDS times or more.
# Leaves alone, captured, stalled: the program's figures without limpet, with it, and while it stood
# still at last; stalls: how many; slept, spun: in how many of them a thread did so for longer than
# BOUND_US (and the twin); waits: the longest of each, and the twin's.
stalled() {
	start twin nice -n 5 "$TARGETS/stall" --threads 2 || return 1
	tell twin go going || return 1
	start stall nice -n 5 "$TARGETS/stall" --threads 2 || return 1
	tell stall go going || return 1
	measure "$STALL_SECONDS" || return 1
	alone=$answer
	tell stall hold held || return 1
	tell stall "count" '{' || return 1
	before_capture=$answer
	overload=$1 attach "$pid" --agent-memory 16MiB "${@:2}" || return 1
	tell stall "keep before 300" kept || return 1
	tell stall go going || return 1
	measure 1 || return 1
	captured=$answer
	stalls=0 slept=0 spun=0 waits=()
	while more_stalls; do
		# Marked before: a thread that waits does not see the mark.
		tell twin mark marked || return 1
		tell stall mark marked || return 1
		kill -STOP "$limpet_job"
		wait_until 120 measured_for "$STALL_SECONDS" || return 1
		stalled=$answer
		[[ $1 == wait ]] || tell stall "keep during 20000" kept || return 1
		kill -CONT "$limpet_job"
		tell stall hold held || return 1
		# Also of the time until then, in which a wait comes to its end.
		tell stall measure '{' || return 1
		note_waits || return 1
		catch_up || return 1
		# Full recording again.
		tell stall "keep after 300" kept || return 1
		tell stall go going || return 1
	done
	tell stall hold held || return 1
	tell stall count '{' || return 1
	books=$answer
}

say_figures() {
	echo "# figures: $1: $(rate "$alone") operations/s alone, $(rate "$captured") captured, $(rate "$stalled") while" \
		"the collector stands still; longest sleep+spin/twin's of a thread $(longest_waits "$alone") us alone," \
		"${waits[*]} us stalled (longest gap $(of longest_gap_us "$alone") and $(of longest_gap_us "$stalled") us)" >&3
}

went_on() {
	nobody_waited || fail "a thread slept+spun/its twin for ${waits[*]} us, $(longest_waits "$alone") without limpet" || return 1
	# Dropping and sampling cost less than recording.
	(($(rate "$stalled") * 2 >= $(rate "$captured"))) ||
		fail "$(rate "$stalled") operations/s, after $(rate "$captured")"
}

# What the threads did before the capture is not in it.
in_capture() {
	jq --argjson before "$before_capture" ".$1 - \$before.$1" <<<"$books"
}

kept() {
	local name=$1 figure=$2
	site_sum "stall_$name" "$figure"
}

@test "drop: nobody waits, losses are counted, and recording recovers" {
	stalled drop
	stop "$pid" 4
	report
	say_figures drop
	went_on
	expect '.capture.dropped_events > 0 and (.capture.complete | not) and .capture.agent_unloaded'
	expect '.capture.estimated == false and .capture.overloads == null'
	same "blocks from before" "$(kept before live_allocations)" 300
	same "blocks from after" "$(kept after live_allocations)" $((stalls * 300))
	(($(kept during allocations) < stalls * 20000)) || fail "nothing was lost of the stall"
	# Every event is there or was dropped.
	recorded=$(jq '.totals.events - .totals.mmaps - .totals.munmaps + .capture.dropped_events' report.json)
	same "events recorded and dropped" "$recorded" $(($(in_capture allocations) + $(in_capture frees)))
	nothing_of_ours "$pid"
	finish stall
	finish twin
}

# Within the interval stretched two and a half times: five standard deviations.
near_truth() {
	expect ".totals | (.$1 - .$1_low) * 2.5 + 1 >= .$1 - \$is and (.$1_high - .$1) * 2.5 + 1 >= \$is - .$1" \
		--argjson is "$2"
}

@test "sample: nobody waits, nothing is lost but to sampling, and recording recovers" {
	local figure
	stalled sample
	stop "$pid"
	report
	say_figures sample
	echo "# figures: sample: $(jq -r '"\(.capture.overloads.ranges | length) overloads of \(.capture.overloads.seconds) s; " +
		"\(.totals.allocations) allocations estimated (\(.totals.allocations_low) to \(.totals.allocations_high))"' report.json)," \
		"$(in_capture allocations) by the program" >&3
	went_on
	expect '.capture.complete and .capture.dropped_events == 0 and .capture.agent_unloaded'
	expect '.capture.estimated and .capture.overloads.sample_bytes == 524288 and .capture.sample_bytes == 0'
	expect '(.capture.overloads.ranges | length >= '"$stalls"') and
		all(.capture.overloads.ranges[]; .from_seconds < .to_seconds)'
	expect '.capture.overloads.seconds > '"$stalls * $STALL_SECONDS / 2"
	# What was recorded in full is exact, and says so.
	same "blocks from before" "$(kept before live_allocations)" 300
	same "blocks from after" "$(kept after live_allocations)" $((stalls * 300))
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
	[[ $output == *"allocated while overloaded"*overload*"all recorded otherwise"* ]]
	nothing_of_ours "$pid"
	finish stall
	finish twin
}

# And the program's measure of a wait can say yes.
@test "wait: everything is recorded, and the program measures that it waited" {
	local figure
	STALL_ROUNDS=1 MORE_STALLS=0
	stalled wait
	stop "$pid"
	report
	say_figures wait
	expect '.capture.complete and .capture.dropped_events == 0 and .capture.estimated == false'
	for figure in allocations allocated_bytes; do
		same "$figure" "$(jq ".totals.$figure" report.json)" "$(in_capture "$figure")"
	done
	same "frees" "$(jq '.totals.frees + .totals.foreign_frees' report.json)" "$(in_capture frees)"
	((${waits[0]%+*} > 300000)) || fail "a thread slept+spun for ${waits[*]} us"
	finish stall
	finish twin
}
