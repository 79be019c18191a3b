#!/usr/bin/env bats
# The collector stands still under full load, by SIGSTOP: for how long threads wait, and how fast they go on. Medians
# of STALL_ROUNDS stalls in one capture; a twin that is not captured runs beside it. That nobody waits for the
# collector is counted by stall.bats.
#
# Threads that wait for the collector do so in every stall: each has filled its ring within milliseconds. One that
# spins cannot be told from one whose processor the hypervisor took: stolen time counts as used, for the twin as well.
# time-limit: 400
# needs-machine: how long threads wait, and how fast they go on

load ../integration/helpers
load stall
setup() { begin; }
teardown() { end; }

: "${STALL_ROUNDS:=11}"
: "${STALL_SECONDS:=1}"
BOUND_US=1000

# rate ANSWER: operations per second
rate() {
	jq '.operations / .seconds | round' <<<"$1"
}

# note_stall STALLED CAPTURED: of the stall that `answer` tells of, microseconds asleep, on the processor, the twin's;
# operations per second while it lasted and right before it, and what share the first is of the second, in percent.
note_stall() {
	local mine=$answer
	tell twin measure '{' || return 1
	echo "$(of longest_sleep_us "$mine") $(of longest_spin_us "$mine") $(of longest_spin_us "$answer") $1 $2 $(($1 * 100 / $2))" >>stalls
}

# median COLUMN: of the stalls.
median() {
	cut -d ' ' -f "$1" stalls | sort -n | sed -n "$(((STALL_ROUNDS + 1) / 2))p"
}

# stalled MODE: a capture in which the collector is stopped STALL_ROUNDS times. Leaves in `alone` the
# program's figures without limpet, and a line for each stall in the file stalls.
stalled() {
	local i rate captured
	start twin nice -n 5 "$TARGETS/stall" --threads 2 || return 1
	tell twin go going || return 1
	start stall nice -n 5 "$TARGETS/stall" --threads 2 || return 1
	tell stall go going || return 1
	operate seconds "$STALL_SECONDS" || return 1
	alone=$answer
	tell stall hold held || return 1
	overload=$1 attach "$pid" --memory 16MiB "${@:2}" || return 1
	tell stall go going || return 1
	for ((i = 0; i < STALL_ROUNDS; i++)); do
		operate seconds "$STALL_SECONDS" || return 1
		captured=$(rate "$answer")
		# Marked before: a thread that waits does not see the mark.
		tell twin mark marked || return 1
		tell stall mark marked || return 1
		kill -STOP "$limpet_job"
		wait_until 120 done_since seconds "$STALL_SECONDS" || return 1
		rate=$(rate "$answer")
		kill -CONT "$limpet_job"
		tell stall hold held || return 1
		# Also of the time until then, in which a wait comes to its end.
		tell stall measure '{' || return 1
		note_stall "$rate" "$captured" || return 1
		tell stall go going || return 1
	done
	tell stall hold held || return 1
	echo "# figures: $1: $(rate "$alone") operations/s alone, $(median 5) captured, $(median 4) while the" \
		"collector stands still; a thread's longest sleep, spin and its twin's $(median 1), $(median 2), $(median 3) us" >&3
}

# Dropping and sampling cost less than recording.
went_on() {
	(($(median 1) <= BOUND_US)) || fail "a thread slept for $(median 1) us" || return 1
	(($(median 2) <= BOUND_US || $(median 2) <= $(median 3))) ||
		fail "a thread spun for $(median 2) us, its twin for $(median 3)" || return 1
	(($(median 6) >= 50)) || fail "$(median 6) % of the operations per second" || return 1
	finish stall || return 1
	finish twin
}

@test "stall limits: drop: nobody waits for longer than a millisecond, and the program goes on as fast" {
	stalled drop
	stop "$pid" 4
	went_on
}

@test "stall limits: sample: nobody waits for longer than a millisecond, and the program goes on as fast" {
	stalled sample
	stop "$pid"
	report
	expect '.capture.overloads.seconds > '"$STALL_ROUNDS * $STALL_SECONDS / 2"
	went_on
}

# And the program's measure of a wait can say yes.
@test "stall limits: wait: the program measures that it waited" {
	STALL_ROUNDS=1
	stalled wait
	stop "$pid"
	good_capture
	(($(median 1) > 300000)) || fail "a thread slept for $(median 1) us"
	finish stall
	finish twin
}
