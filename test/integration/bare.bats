#!/usr/bin/env bats
# Code without unwind information: stacks go on through it.
# time-limit: 200

load helpers
setup() { begin; }
teardown() { end; }

# All stacks of the library's blocks are whole, and name each of its functions that was called.
whole_stacks() {
	expect '[.sites[] | select(.stack[0].function == "bare_leaf")] |
		([.[].live_allocations] | add) == 800 and
		all(.[]; [.stack[].function] | index("bare_choice") == 1 and index("bare_list") == 2 and
			index("bare_outer") >= 3 and index("main") > index("bare_outer") and .[-1] == "_start")'
	expect '[.sites[] | select(any(.stack[]; .function == "bare_room")) | .live_allocations] | add == 400'
}

# bats test_tags=check
@test "a library that was there at the attach" {
	start bare "$TARGETS/bare" "$TARGETS/bare-plugin.so" now
	attach "$pid"
	tell bare "run 100" ran
	stop "$pid"
	good_capture
	expect '.capture.truncated_stacks == 0'
	whole_stacks
	finish bare
}

# The program allocates once more; the last of its stacks are whole.
now_whole() {
	tell bare "run 1" ran
	so_far 'any(.sites[]; [.stack[].function] | index("bare_leaf") == 0 and index("main") > index("bare_outer"))'
}

@test "one that is loaded during the capture is read meanwhile" {
	start bare "$TARGETS/bare" "$TARGETS/bare-plugin.so"
	attach "$pid"
	tell bare load loaded
	wait_until 60 now_whole
	stop "$pid"
	good_capture
	finish bare
}
