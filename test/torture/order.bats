#!/usr/bin/env bats
# Events of different threads are in the right order, address by address. HANDOFFS: blocks that are handed
# over in all, two events each (50 million for `make torture`).
# time-limit: 400

load ../integration/helpers
setup() { begin; }
teardown() { end; }

: "${HANDOFFS:=400000}"

# handed_over PAIRS: each event is matched, and none is missing.
handed_over() {
	local pairs=$1 key
	start handoff "$TARGETS/handoff" "$pairs" || return 1
	attach "$pid" || return 1
	tell handoff "run $((HANDOFFS / pairs / 2))" ran || return 1
	tell handoff count '{' || return 1
	stop "$pid" || return 1
	good_capture || return 1
	for key in allocations allocated_bytes; do
		same "$key in handoff_make" "$(site_sum handoff_make "$key")" "$(jq ".$key" <<<"$answer")" || return 1
	done
	same "live blocks of handoff_make" "$(site_sum handoff_make live_allocations)" 0 || return 1
	same "frees of unknown blocks" "$(jq .totals.foreign_frees report.json)" 0 || return 1
	finish handoff || return 1
	echo "# figures: $pairs x 2 threads: $HANDOFFS blocks handed over, 0 unmatched" >&3
}

@test "a producer and a consumer that free each other's blocks: nothing is unmatched" {
	handed_over 1
}

# bats test_tags=release
@test "four producers and four consumers" {
	handed_over 4
}
