#!/usr/bin/env bats
# Functions of an allocator that are called by other ways and other names than most programs use: each
# call is there, or the trace says that some may not be.

load helpers
setup() { begin; }
teardown() { end; }

# ended_well PID: it was left, and nothing of ours is in it.
ended_well() {
	stop "$1" || return 1
	good_capture || return 1
	nothing_of_ours "$1"
}

# Words that no thread can see half written are exchanged only while all threads are stopped.
@test "pointers to malloc in packed structures and in code: their calls are seen, or it is said that they are not" {
	local load
	for load in "" dlopen map; do
		start "by-$load" "$TARGETS/packed"
		attach "$pid"
		tell "by-$load" "packed 100" done
		tell "by-$load" "page 10" done
		tell "by-$load" "code 10" done
		tell "by-$load" "kept 100" done
		if [[ $load == map ]]; then
			ended_well "$pid"
			same "blocks" "$(jq -r '.totals | "\(.allocations) \(.live_allocations)"' report.json)" "220 0"
		else
			stop "$pid" 4
			report
			expect '(.capture.incomplete_reasons | index("slots")) and (.capture.exact | not)'
			[[ $(<"$work/attach.$captures.err") == *"6 places that call an allocator could not be hooked"* ]]
		fi
		nothing_of_ours "$pid"
		tell "by-$load" same done
		tell "by-$load" "code 10" done
		finish "by-$load"
	done
}
