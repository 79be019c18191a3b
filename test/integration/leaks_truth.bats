#!/usr/bin/env bats
# limpet leaks, held against programs whose lost blocks are known: test/leaks/truths.
# time-limit: 900

load helpers
setup() {
	begin
	export LEAKS=$TARGETS/leaks/
}
teardown() { end; }

# On a machine that does much else a stop of 20 ms is short; those that move have to be right with any.
patient=(--max-stop 2s)

# judged ARGUMENT...: each program of test/leaks is as its truth says.
judged() {
	within 850 "$root/test/leaks/judge" "$@" >judged.say 2>judged.err || fail "$(grep -v '^ok' judged.say; cat judged.err)" || return 1
	! grep -q ' skipped: ' judged.say || fail "$(grep ' skipped: ' judged.say)"
}

@test "lost structures, lists, rings, large blocks, and those of another thread, to the block and byte" {
	judged "${patient[@]}" lost_struct lost_list lost_cycle lost_large lost_in_arena freed_holder
}

@test "what a frame, a register, a thread-local variable or a mapping holds is not lost" {
	judged "${patient[@]}" stack_frame in_registers thread_local specific mmap_arena shared_memory coroutine
}

@test "tagged pointers, pointers into a block and to its end" {
	judged "${patient[@]}" tagged tagged_upper pool past_end cpp_second_base
}

@test "nothing is lost whose only pointer moves all the time" {
	judged rotating hopping rehashing
}

@test "no free block is lost, whatever cache or bin has it" {
	judged "${patient[@]}" freed_blocks
}

# bats test_tags=release
@test "all programs of known truth" {
	judged "${patient[@]}" --all
}

# bats test_tags=release
@test "nothing is lost whose only pointer moves, twenty times" {
	judged --times 20 rotating hopping rehashing handing
}

@test "in a capture each kind of lost block is found under its function" {
	judged --capture lost_struct lost_list lost_cycle lost_large cpp_shared_cycle rust_rc_cycle rust_box_leak
}
