#!/usr/bin/env bats
# What a kill costs a trace. The target keeps its own count in a file that outlives it, and is killed when that has
# come to a number: a moment is so many allocations.
# time-limit: 900

load ../integration/helpers
load losses
setup() { begin; }
teardown() {
	end
	remove_groups
}

: "${LOSS_ROUNDS:=3}"

figures() {
	echo "# figures:   $*" >&3
}

# between NAME EXTRA: the report's figures lie between what was done and what was begun; EXTRA events may
# stand for calls that were dropped, and counted.
between() {
	jq -e --slurpfile tally "$1" --argjson dropped "${2:-0}" "$lies_between"'
		$tally[0] as {$done, $begun} |
		if $dropped > 0 then
			.totals.events + $dropped |
			$done.allocations + $done.frees <= . and . <= $begun.allocations + $begun.frees
		else
			lies_between($done; $begun)
		end' "$work/report.json" >/dev/null ||
		fail "the trace says $(jq -c .totals report.json), the target $(<"$1")"
}

# some_allocations: waits until the target has done so many since it was told to go; sets `least`.
some_allocations() {
	least=$((1000 + RANDOM * 8 % 200000))
	within 60 "$TARGETS/tally" --await "$work/counts" "$least"
}

# has_ended: limpet has, with a whole trace; and the target had done what was waited for.
has_ended() {
	exit_status_of "$limpet_job" 60 || return 1
	[[ $status == 0 || $status == 4 ]] || fail "limpet ended with $status" || return 1
	tally || return 1
	json_says --argjson least "$least" '.done.allocations >= $least' <tally.json || fail "$(<tally.json)" || return 1
	report || return 1
	expect '.capture.end == "target-killed" and .capture.complete == (.capture.dropped_events == 0)'
}

@test "the target is killed at any moment: all but what each thread was about is in the trace" {
	local round name least inflight=0 events=0 dropped=0
	for ((round = 1; round <= LOSS_ROUNDS; round++)); do
		name=tally$round
		start "$name" "$TARGETS/tally" counts $((1 + round % 4))
		overload=$( ((round % 5)) && echo wait || echo drop) attach "$pid" --no-seal
		tell "$name" go going
		some_allocations
		kill -KILL "${job_of[$name]}"
		exit_status_of "${job_of[$name]}" 10
		has_ended || return 1
		((round % 5 == 0)) || expect '.capture.dropped_events == 0'
		between tally.json "$(jq .capture.dropped_events report.json)" || fail "round $round" || return 1
		inflight=$((inflight + $(jq '.begun.allocations - .done.allocations' tally.json)))
		events=$((events + $(jq .capture.events report.json)))
		dropped=$((dropped + $(jq .capture.dropped_events report.json)))
		rm -f "$trace"
	done
	figures "$LOSS_ROUNDS targets killed: $events events, $dropped dropped where that was allowed, none lost otherwise;" \
		"$inflight allocations were in flight"
}

@test "the target is killed for want of memory: all but what each thread was about is in the trace" {
	local round name least
	make_group 100
	for ((round = 1; round <= (LOSS_ROUNDS + 5) / 6; round++)); do
		name=tally$round
		start "$name" bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$TARGETS/tally" "$work/counts" 2
		attach "$pid" --no-seal --memory 16M
		tell "$name" go going
		some_allocations
		tell "$name" hoard hoarding
		exit_status_of "${job_of[$name]}" 30
		same "how it ended" "$status" 137
		has_ended || return 1
		between tally.json "$(jq .capture.dropped_events report.json)" || fail "round $round" || return 1
		rm -f "$trace"
	done
	grep -qE '^oom_kill [1-9]' "$group"/memory.{oom_control,events} 2>/dev/null || fail "nobody was out of memory"
}

# written: all that was done then is in the trace, which is still being written.
written() {
	within 60 "$LIMPET" report "$trace" --json >so-far.json 2>/dev/null || return 1
	has_all so-far.json
}

# lost_since FILE: of a collector that was killed: what was done then is in the trace.
lost_since() {
	tally || return 1
	report || return 1
	expect '.capture.end == "collector-lost" and (.capture.complete | not)' || return 1
	jq -e --slurpfile past "$1" --slurpfile now tally.json \
		"$lies_between"' lies_between($past[0].done; $now[0].begun)' report.json >/dev/null ||
		fail "the trace says $(jq -c .totals report.json), the target said $(<"$1"), then $(<tally.json)"
}

@test "the collector is killed: what was written by then is in the trace, and not more than was done" {
	local round name least
	for ((round = 1; round <= (LOSS_ROUNDS + 3) / 4; round++)); do
		name=tally$round
		start "$name" nice -n 5 "$TARGETS/tally" counts 2
		attach "$pid" --no-seal
		tell "$name" go going
		some_allocations
		tally then.json
		# Nobody asks it to write what it has.
		wait_until 60 written
		kill -KILL "$limpet_job"
		exit_status_of "$limpet_job" 10
		lost_since then.json || return 1
		cleaned_up "$pid"
		finish "$name"
	done
}
