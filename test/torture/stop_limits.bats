#!/usr/bin/env bats
# Limits: without what limpet and the target wait for a processor, at most 1 ms (p99)
# and 5 ms (longest) at attach, 5 ms (p99) at detach, three trips of any one thread.
# time-limit: 400
# measures-time: for how long a target stands still

load ../integration/helpers
setup() { begin; }
teardown() { end; }

: "${ROUNDS:=100}"
: "${TORTURE:=$root/build/torture}"

within_limits() {
	local limits=0
	within 380 "$TORTURE/stoptimes" -l -n "$ROUNDS" "$@" >stops.say 2>stops.err || limits=$?
	sed 's/^/# figures: /' stops.say
	((limits == 0)) || fail "the limits are not kept: status $limits: $(<stops.err)"
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

@test "stop limits: five hundred threads, and copies of hook addresses to put back" {
	ROUNDS=$((ROUNDS / 4 + 1)) within_limits "$TARGETS/gaps-copies" --spin 1 --sleep 500
}
