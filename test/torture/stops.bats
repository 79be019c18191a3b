#!/usr/bin/env bats
# How long and how often a target stands still: that limpet says the truth about it, and that what it does
# meanwhile stays little. The times themselves are limits of `make torture` (stop_limits.bats).
# time-limit: 300
# measures-time: for how long a target stands still

load ../integration/helpers
setup() { begin; }
teardown() { end; }

: "${ROUNDS:=12}"
: "${TORTURE:=$root/build/torture}"

# stop_times NAME PROGRAM ARGUMENT...: in $work/report.json.
stop_times() {
	local name=$1
	shift
	within 250 "$TORTURE/stoptimes" -j -n "$ROUNDS" "$@" >"$work/report.json" 2>stoptimes.err || return 1
	jq -r --arg name "$name" '. as $all | ("attach", "detach", "idle") | . as $kind | $all[$kind] |
		"# figures: \($name) \($kind): p50/p99/max us stated \(.stated | join("/")), net " +
		"\(.net | join("/")), seen net \(.gap_net | join("/")); \(.trips) trips, \(.resumes) resumes, " +
		"\(.stops) stops, \(.calls) calls; below in \(.below) of \($all.rounds), " +
		"\($all.stolen_percent) % stolen"' "$work/report.json"
}

# What limpet states is what its calls of ptrace took, and not less than what the target saw; a quarter of the
# rounds may be noise of the machine, three where its hypervisor took more than a hundredth of its time: a time
# that is left out is missing in every round. And the target does see it: one thread, that never rests.
@test "stop times: limpet states what the target sees" {
	local kind
	stop_times one "$TARGETS/gaps" --spin 1
	for kind in attach detach; do
		expect '.[$k] | .stated[0] >= .away[0] - 50 and .stated[2] >= .away[2] - 50' --arg k $kind
		expect '(if .stolen_percent > 1 then 0.75 else 0.25 end) as $noise |
			.[$k].below <= .rounds * $noise' --arg k $kind
		expect '.[$k] | .gap_net[0] >= .net[0] * 0.9' --arg k $kind
	done
}

@test "stop times: threads that are only looked at count, too" {
	stop_times bystanders "$TARGETS/gaps-copies" --spin 1 --sleep 60
	expect '.detach.stops >= 60'
	for kind in attach detach; do
		expect '.[$k] | .stated[2] >= .away[2] - 50' --arg k $kind
	done
}

# No limit of time, which a busy machine would not keep: what there is to do is bounded.
@test "stop times: few trips, and little done meanwhile" {
	stop_times working "$TARGETS/gaps" --spin 1 --allocate 1 --serve 2 --sleep 4
	expect '.idle | .trips == 1 and .resumes == 1 and .read_bytes == 0'
	expect '.attach | .trips <= 3 and .resumes <= 16 and .calls <= 150'
	expect '.attach | .read_bytes <= 2000000 and .written_bytes <= 200000'
}

@test "stop times: the report has them" {
	local try seen stated
	start gaps "$TARGETS/gaps" --spin 1
	for try in 1 2 3 4 5; do
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
		echo "stated $stated us, seen $((seen / 1000)) us"
		((seen / 1000 > stated + 200)) || break
	done
	((seen / 1000 <= stated + 200)) || fail "the target saw more than the report says" || return 1
	within 30 "$LIMPET" report "$trace" | grep -E '^stopped +[0-9.]+ *[mu]?s to attach, [0-9.]+ *[mu]?s to leave'
	finish gaps
}
