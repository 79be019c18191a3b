#!/usr/bin/env bats
# Every call of the family, and calls in unusual places: counted as the program counts them, and answered as
# without limpet.
# time-limit: 200

load helpers
setup() { begin; }
teardown() { end; }

# captured COMMAND ANSWER [OPTION...]: of calls, alone in a capture; `answer` is its answer.
captured() {
	attach "$pid" "${@:3}" || return 1
	tell calls "$1" "$2" || return 1
	stop "$pid" || return 1
	good_capture
}

# exactly FUNCTION ALLOCATIONS: in its frame, and nothing is left of them.
exactly() {
	same "allocations in $1" "$(site_sum "$1" allocations)" "$2" || return 1
	same "live in $1" "$(site_sum "$1" live_allocations)" 0
}

# The totals are those that the program answered with.
totals_equal() {
	local key
	json_says 'length > 0' <<<"$answer" || fail "no totals: $answer" || return 1
	for key in $(jq -r 'keys[]' <<<"$answer"); do
		same "$key" "$(jq ".totals.$key" report.json)" "$(jq ".$key" <<<"$answer")" || return 1
	done
}

@test "realloc in place, that moves, to zero; the aligned ones; C++; what libraries allocate" {
	start calls "$TARGETS/calls"
	captured family '{'
	totals_equal
	# Again, in the same process: the second capture is as exact as the first.
	captured family '{'
	totals_equal
	finish calls
}

@test "a block that realloc makes larger is one block, not freed, not temporary: in events and in sums" {
	local kept
	start calls "$TARGETS/calls"
	for kept in --compact ""; do
		captured "grow 1000" '{' ${kept:+"$kept"}
		totals_equal
		same "reallocations" "$(jq .totals.reallocations report.json)" 1001
		# The first of each block released what malloc had made.
		same "by calls_grow" "$(site_sum calls_grow reallocations)" 999
		same "frees" "$(site_sum calls_grow frees)" 1000
		same "blocks that are live" "$(site_sum calls_grow live_allocations)" 1
		same "temporary" "$(jq .totals.temporary_allocations report.json)" 1
		"$root/scripts/limpet-trace-read" "$trace" >second.json
		json_says '.totals.reallocations == 1001 and .wrong == []' <second.json
	done
	# How long blocks lived: of the one that was freed.
	within 60 "$LIMPET" report --json --view lifetimes "$trace" >lives.json
	json_says '[.ages[].freed, .ages[].alive] | add == 2' <lives.json
	finish calls
}

@test "exceptions that leave through a hook, of an operator new of an allocator library" {
	local jemalloc=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2
	[[ -e $jemalloc ]] || skip "libjemalloc.so.2 is not installed"
	start calls env LD_PRELOAD="$jemalloc" "$TARGETS/calls"
	attach "$pid"
	tell calls "thrown 100" called
	# In the same thread: no hook is taken for unfinished any more.
	tell calls "jumps 100" called
	stop "$pid"
	good_capture
	# The exceptions themselves, which come and go while the library's hook is unfinished.
	exactly calls_throw 100
	exactly calls_in_handler 100
	exactly calls_after_jump 100
	expect '.totals.foreign_frees == 0 and .capture.unseen_calls == 0'
	finish calls
}

@test "failed calls: errno and NULL, and nothing is counted" {
	start calls "$TARGETS/calls"
	captured failures called
	exactly calls_failures 2
	expect '.totals.allocations == 2 and .totals.frees == 2'
	# The exceptions themselves.
	captured "thrown 100" called
	exactly calls_throw 100
	finish calls
}

@test "mmap, mremap, munmap: a kind of their own" {
	start calls "$TARGETS/calls"
	captured mappings '{'
	totals_equal
	finish calls
}

# maps_of OPTION...: what a report says of mappings, in pages
maps_of() {
	within 30 "$LIMPET" report "$trace" --json "$@" |
		jq -c '.totals | [.mmaps, (.mmap_bytes, .unmapped_bytes, .mapped_bytes) / 4096]'
}

@test "mappings belong to the thread that made them, whoever unmaps them" {
	local first second
	start calls "$TARGETS/calls"
	captured crossed '{'
	first=$(jq .first <<<"$answer") second=$(jq .second <<<"$answer")
	same "all" "$(maps_of)" "[8,44,5,39]"
	same "the first" "$(maps_of --include "thread:$first")" "[5,20,5,15]"
	same "the second" "$(maps_of --include "thread:$second")" "[3,24,0,24]"
	same "no thread" "$(maps_of --include thread:1)" "[0,0,0,0]"
	same "by its stack, too" "$(maps_of --include "thread:$first" --exclude function:calls_crossed)" "[0,0,0,0]"
	finish calls
}

# bats test_tags=release
@test "ten thousand short threads" {
	start calls "$TARGETS/calls"
	captured "threads 10000" called
	exactly calls_thread 10000
	finish calls
}

@test "threads with the smallest of stacks" {
	start calls "$TARGETS/calls"
	captured small called
	exactly calls_small 16000
	finish calls
}

@test "a thread made by clone alone, with the thread pointer of another" {
	start calls "$TARGETS/calls"
	captured raw called
	exactly calls_raw 100
	finish calls
}

@test "handlers on a stack of their own, and handlers that leave by siglongjmp" {
	start calls "$TARGETS/calls"
	captured alternate called
	exactly calls_in_handler 50
	# Seen from that stack, too: what the signal has interrupted.
	expect '[.sites[] | select(any(.stack[]; .function == "calls_in_handler"))] |
		length > 0 and all(any(.stack[]; .function == "main"))'
	expect '.capture.truncated_stacks == 0'
	captured "jumps 1000" called
	exactly calls_in_handler 1000
	exactly calls_after_jump 1000
	finish calls
}

@test "threads that are cancelled between calls" {
	start calls "$TARGETS/calls"
	captured "cancel 16" called
	(($(site_sum calls_cancelled allocations) >= 1)) || fail "nothing was seen"
	same "live" "$(site_sum calls_cancelled live_allocations)" 0
	expect '.totals.foreign_frees == 0'
	finish calls
}
