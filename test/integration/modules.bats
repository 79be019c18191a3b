#!/usr/bin/env bats
# Modules that come and go: what was called in which of them.
# time-limit: 120

load helpers
setup() { begin; }
teardown() { end; }

turns() {
	start turns "$TARGETS/turns" "$TARGETS/turn-alpha.so" "$TARGETS/turn-omega.so"
}

# seen EVENTS: the collector has taken so many, and looked at their stacks.
seen() {
	"$LIMPET" status "$pid" --json | json_says --argjson events "$1" '.captures[0].events >= $events'
}

@test "modules that take turns at one address: each one's calls under its own name" {
	turns
	attach "$pid"
	tell turns "take 10" taken
	wait_until 20 seen 20
	tell turns "put 1" there
	tell turns "take 200" taken
	wait_until 20 seen 420
	tell turns "put 0" there
	tell turns "take 3000" taken
	wait_until 20 seen 6420
	tell turns "put 1" there
	tell turns "take 40000" taken
	stop "$pid"
	good_capture
	same "under the first" "$(site_sum turn_alpha allocations)" 3010
	same "under the second" "$(site_sum turn_omega allocations)" 40200
	same "by the one function that both call" "$(site_sum take allocations)" 43210
	finish turns
}

# One that has gone before anybody could look has no name; it has not that of the other.
@test "modules that take turns faster than they can be looked at: no name is another's" {
	local alpha i
	turns
	attach "$pid"
	for ((i = 0; i < 20; i++)); do
		tell turns "quick 100" taken
	done
	stop "$pid"
	good_capture
	alpha=$(site_sum turn_alpha allocations)
	((alpha <= 2000)) || fail "under the first: $alpha instead of at most 2000"
	(($(site_sum turn_omega allocations) <= 4000)) || fail "under the second: more than 4000"
	(($(site_sum turn_omega allocations) >= 200)) || fail "the last one's are missing"
	same "by the one function that both call" "$(site_sum take allocations)" 6000
	finish turns
}

# What a module calls by a libc of its own is out of sight: never in the wrong place, and never in the way.
@test "a module in a namespace of its own, from before the capture" {
	start spaces "$TARGETS/spaces" "$TARGETS/plugin.so"
	tell spaces open opened
	tell spaces "allocate 10" allocated
	attach "$pid"
	tell spaces free freed
	tell spaces "allocate 50" allocated
	tell spaces "own 1000" owned
	tell spaces free freed
	tell spaces close closed
	tell spaces "own 1000" owned
	stop "$pid"
	good_capture
	same "by the program's libc" "$(site_sum spaces_own allocations)" 2000
	expect '.totals.allocations == 2000 and .totals.foreign_frees == 0'
	grep -q 'warning: .*dlmopen.* not seen' attach.1.err
	nothing_of_ours "$pid"
	finish spaces
}

@test "a module in a namespace of its own, that comes and stays during the capture" {
	start spaces "$TARGETS/spaces" "$TARGETS/plugin.so"
	attach "$pid"
	tell spaces open opened
	tell spaces "allocate 50" allocated
	tell spaces "own 1000" owned
	stop "$pid"
	good_capture
	same "by the program's libc" "$(site_sum spaces_own allocations)" 1000
	nothing_of_ours "$pid"
	tell spaces free freed
	tell spaces "allocate 50" allocated
	tell spaces free freed
	tell spaces close closed
	attach "$pid"
	tell spaces "own 10" owned
	stop "$pid"
	good_capture
	finish spaces
}
