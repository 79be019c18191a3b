#!/usr/bin/env bats
# What a kill costs a trace. The target keeps its own count in a file that outlives it.
# time-limit: 900

load ../integration/helpers
setup() { begin; }
teardown() {
	end
	remove_groups
}

: "${LOSS_ROUNDS:=12}"

figures() {
	echo "# figures:   $*" >&3
}

# tally [NAME]: what the target has begun and what it has done.
tally() {
	"$TARGETS/tally" --read "$work/counts" >"${1:-tally.json}"
}

# between NAME EXTRA: the report's figures lie between what was done and what was begun; EXTRA events may
# stand for calls that were dropped, and counted.
between() {
	jq -e --slurpfile tally "$1" --argjson dropped "${2:-0}" '
		.totals as $trace | $tally[0] | .done as $done | .begun as $begun |
		if $dropped > 0 then
			$trace.events + $dropped |
			$done.allocations + $done.frees <= . and . <= $begun.allocations + $begun.frees
		else
			all("allocations", "allocated_bytes", "frees", "freed_bytes";
			    $done[.] <= $trace[.] and $trace[.] <= $begun[.])
		end' "$work/report.json" >/dev/null ||
		fail "the trace says $(jq -c .totals report.json), the target $(<"$1")"
}

# moment: a moment between 0 and 250 ms.
moment() {
	read -r -t "$(printf '0.%03d' $((RANDOM % 250)))" <> <(:) || true
}

@test "the target is killed at any moment: all but what each thread was about is in the trace" {
	local round name inflight=0 events=0
	for ((round = 1; round <= LOSS_ROUNDS; round++)); do
		name=tally$round
		start "$name" "$TARGETS/tally" counts $((1 + round % 4))
		overload=$( ((round % 5)) && echo wait || echo drop) attach "$pid" --no-seal
		tell "$name" go going
		moment
		kill -KILL "${job_of[$name]}"
		exit_status_of "${job_of[$name]}" 10
		exit_status_of "$limpet_job" 60
		[[ $status == 0 || $status == 4 ]] || fail "limpet ended with $status" || return 1
		tally
		report
		expect '.capture.end == "target-killed" and .capture.complete == (.capture.dropped_events == 0)'
		((round % 5 == 0)) || expect '.capture.dropped_events == 0'
		between tally.json "$(jq .capture.dropped_events report.json)" || fail "round $round" || return 1
		inflight=$((inflight + $(jq '.begun.allocations - .done.allocations' tally.json)))
		events=$((events + $(jq .capture.events report.json)))
		rm -f "$trace"
	done
	((events > LOSS_ROUNDS * 1000)) || fail "only $events events"
	figures "$LOSS_ROUNDS targets killed: $events events, none lost; $inflight allocations were in flight"
}

@test "the target is killed for want of memory: all but what each thread was about is in the trace" {
	local round name
	make_group 100
	for ((round = 1; round <= (LOSS_ROUNDS + 5) / 6; round++)); do
		name=tally$round
		start "$name" bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$TARGETS/tally" "$work/counts" 2
		attach "$pid" --no-seal --agent-memory 16M
		tell "$name" go going
		moment
		tell "$name" hoard hoarding
		exit_status_of "${job_of[$name]}" 30
		same "how it ended" "$status" 137
		exit_status_of "$limpet_job" 60
		[[ $status == 0 || $status == 4 ]] || fail "limpet ended with $status" || return 1
		tally
		report
		expect '.capture.end == "target-killed" and .capture.complete == (.capture.dropped_events == 0)'
		between tally.json "$(jq .capture.dropped_events report.json)" || fail "round $round" || return 1
		rm -f "$trace"
	done
	grep -qE '^oom_kill [1-9]' "$group"/memory.{oom_control,events} 2>/dev/null || fail "nobody was out of memory"
}

@test "the collector is killed: what was done a second before is in the trace" {
	local round name
	for ((round = 1; round <= (LOSS_ROUNDS + 3) / 4; round++)); do
		name=tally$round
		start "$name" nice -n 5 "$TARGETS/tally" counts 2
		attach "$pid" --no-seal
		tell "$name" go going
		moment
		tally then.json
		# The second that may be lost.
		sleep 1
		kill -KILL "$limpet_job"
		exit_status_of "$limpet_job" 10
		tally
		report
		expect '.capture.end == "collector-lost" and (.capture.complete | not)'
		jq -e --slurpfile past then.json --slurpfile now tally.json '.totals as $trace | [$past[0].done, $now[0].begun] as [$past, $now] |
			all("allocations", "allocated_bytes", "frees", "freed_bytes";
			    $past[.] <= $trace[.] and $trace[.] <= $now[.])' report.json >/dev/null ||
			fail "the trace says $(jq -c .totals report.json), the target said $(<then.json), then $(<tally.json)" ||
			return 1
		within 60 "$LIMPET" stop -q "$pid"
		finish "$name"
	done
}
