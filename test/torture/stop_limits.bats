#!/usr/bin/env bats
# For how long a target stands still. Limits: without what limpet and the target wait for a processor, at most 1 ms
# (p99) and 5 ms (longest) at attach, 5 ms (p99) at detach, three trips of any one thread. And that limpet's figures
# are those that the target sees by its own clock.
# time-limit: 1200
# needs-machine: how long a target stands still

load ../integration/helpers
load stops
setup() { begin; }
teardown() { end; }

: "${ROUNDS:=100}"
stop_kinds='"attach", "detach", "idle"'
stop_figures='"p50/p99/max us stated \(.stated | join("/")), net \(.net | join("/")), seen net \(.gap_net | join("/")); " +
	"\(.trips) trips, \(.resumes) resumes, \(.stops) stops, \(.calls) calls; below in \(.below) of \($all.rounds), " +
	"\($all.stolen_percent) % stolen"'

# within_limits PROGRAM ARGUMENT...: in two of three runs, which is what their median is.
within_limits() {
	local i limits kept=0
	for i in 1 2 3; do
		limits=0
		within 380 "$TORTURE/stoptimes" -l -n "$ROUNDS" "$@" >stops.say 2>stops.err || limits=$?
		sed 's/^/# figures: /' stops.say >&3
		((limits == 0 || limits == 4)) || fail "status $limits: $(<stops.err)" || return 1
		((limits)) || ((kept += 1))
	done
	((kept >= 2)) || fail "the limits are kept in $kept runs of three"
}

@test "stop limits: one thread that never rests" {
	within_limits "$TARGETS/gaps" --spin 1
}

@test "stop limits: threads that allocate, serve and sleep" {
	within_limits "$TARGETS/gaps" --spin 1 --allocate 1 --serve 2 --sleep 4
}

@test "stop limits: five hundred threads" {
	ROUNDS=$((ROUNDS / 4 + 1)) within_limits "$TARGETS/gaps" --spin 1 --sleep 500
}

@test "stop limits: five hundred threads, and hook addresses to put back" {
	ROUNDS=$((ROUNDS / 4 + 1)) within_limits "$TARGETS/gaps-copies" --spin 1 --sleep 500
}

# What limpet states is what its calls of ptrace took, and not less than what the target saw; a quarter of the
# rounds may be noise of the machine, three where its hypervisor took more than a hundredth of its time: a time
# that is left out is missing in every round. And the target does see it: one thread, that never rests.
@test "stop limits: limpet states what the target sees" {
	local kind
	stop_times one "$TARGETS/gaps" --spin 1
	for kind in attach detach; do
		expect '.[$k] | .stated[0] >= .away[0] - 50 and .stated[2] >= .away[2] - 50' --arg k $kind
		expect '(if .stolen_percent > 1 then 0.75 else 0.25 end) as $noise |
			.[$k].below <= .rounds * $noise' --arg k $kind
		expect '.[$k] | .gap_net[0] >= .net[0] * 0.9' --arg k $kind
	done
}

@test "stop limits: threads that are only looked at count, too" {
	local kind
	stop_times bystanders "$TARGETS/gaps-copies" --spin 1 --sleep 60
	expect '.detach.stops >= 60'
	for kind in attach detach; do
		expect '.[$k] | .stated[2] >= .away[2] - 50' --arg k $kind
	done
}

# The median of so many captures: what one of them saw may be the machine's.
@test "stop limits: the report says what the target sees" {
	local i seen stated
	start gaps "$TARGETS/gaps" --spin 1
	for ((i = 0; i < (ROUNDS + 9) / 10; i++)); do
		attach "$pid" --no-seal -q
		stop "$pid"
		tell gaps window gaps
		attach "$pid" --no-seal -q
		stop "$pid"
		tell gaps window gaps
		read -r _ _ seen _ <<<"$answer"
		report
		expect '.capture | .attach_stop_microseconds > 50 and .detach_stop_microseconds > 50'
		stated=$(jq '.capture | [.attach_stop_microseconds, .detach_stop_microseconds] | max' report.json)
		echo "$stated $((seen / 1000)) $((seen / 1000 - stated))" >>beyond
		rm -f "$trace"
	done
	echo "# figures: stated us, seen us, beyond: $(sort -n -k 3 beyond | tr '\n' ';')" >&3
	(($(cut -d ' ' -f 3 beyond | sort -n | sed -n "$(((i + 1) / 2))p") <= 200)) ||
		fail "the target saw more than the report says" || return 1
	finish gaps
}
