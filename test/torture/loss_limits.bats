#!/usr/bin/env bats
# How much a collector that is killed has not yet written: less than a second's events, in every round but one of
# four, which a busy machine may have held up.
# time-limit: 900
# needs-machine: what a collector has not yet written after a second

load ../integration/helpers
load losses
setup() { begin; }
teardown() { end; }

: "${LOSS_ROUNDS:=12}"

@test "loss limits: the collector is killed: what was done a second before is in the trace" {
	local round name kept=0
	for ((round = 1; round <= LOSS_ROUNDS; round++)); do
		name=tally$round
		start "$name" nice -n 5 "$TARGETS/tally" counts 2
		attach "$pid" --no-seal
		tell "$name" go going
		within 60 "$TARGETS/tally" --await "$work/counts" $((1000 + RANDOM * 8 % 200000))
		tally then.json
		# The second that may be lost.
		sleep 1
		kill -KILL "$limpet_job"
		exit_status_of "$limpet_job" 10
		report
		expect '.capture.end == "collector-lost" and (.capture.complete | not)'
		! has_all report.json || ((kept += 1))
		within 60 "$LIMPET" stop -q "$pid"
		finish "$name"
		rm -f "$trace"
	done
	echo "# figures: $kept of $LOSS_ROUNDS traces had what was done a second before" >&3
	((kept * 4 >= LOSS_ROUNDS * 3)) || fail "only $kept of $LOSS_ROUNDS traces had it"
}
