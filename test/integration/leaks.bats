#!/usr/bin/env bats
# limpet leaks: what it says of a program that knows what it has lost (test/targets/lost).
# time-limit: 300

load helpers
setup() { begin; }
teardown() { end; }

# On a machine that is busy all threads may not stop in 20 ms: what is judged here is not the time.
stop_limit=5s

# Of the target, into leaks.json.
leaks() {
	within 120 "$LIMPET" leaks "$pid" --max-stop "$stop_limit" --json >leaks.json 2>leaks.err ||
		fail "limpet leaks: $(<leaks.err)"
}

# says FILTER [OPTION...]: jq's answer about it is true.
says() { says_in leaks.json "$@"; }

# The planted blocks, of both threads, as "state size blocks", and what else is lost: nothing.
planted='definitely 88 2
definitely 216 20
definitely 312 6
definitely 824 1
definitely 303088 2
indirectly 88 38
indirectly 312 6
possibly 1000 1
stack_only 712 1'
finds_planted() {
	same "what is lost" "$(jq -r '.sites[] | "\(.state) \(.block_bytes) \(.blocks)"' <leaks.json | sort -k1,1 -k2,2n)" "$planted"
}

# bats test_tags=check
@test "lost blocks, a list, circles, what only a stack or an interior pointer holds" {
	start lost "$TARGETS/lost"
	leaks
	says '.format == "limpet-leaks" and .version == 1 and .judged and .stop.state == "whole" and .stop.threads == 2'
	finds_planted
	says '.lost.definitely.blocks == 31 and .lost.indirectly.blocks == 44 and .lost.possibly.blocks == 1 and
		.lost.stack_only.blocks == 1 and .lost.probably.blocks == 0'
	# 100 by the table, one with tags, one thread-local; others are the C library's.
	says '.reachable.blocks >= 102 and .reachable.blocks <= 110'
	finish lost
}

@test "pointers that move all the time, and blocks that are made and freed, are never lost" {
	local i
	start lost "$TARGETS/lost"
	tell lost move "done"
	tell lost churn "done"
	for i in 1 2 3 4 5; do
		leaks
		says '.stop.state == "whole"'
		# What the stack holds may be more by now.
		same "what is lost" "$(jq -r '.sites[] | "\(.state) \(.block_bytes) \(.blocks)"' <leaks.json |
			grep -E '^(definitely|indirectly|probably)' | sort -k1,1 -k2,2n)" "$(head -7 <<<"$planted")"
	done
	finish lost
}

@test "without a stop nothing is lost for certain, and no thread is stopped" {
	start lost "$TARGETS/lost"
	stop_limit=0
	LIMPET_DEBUG=1 leaks
	says '.stop.state == "not_allowed" and .stop.microseconds == null and .stop.threads == 0'
	says '.lost.definitely.blocks == 0 and .lost.indirectly.blocks == 0'
	# The word of the stack that is no longer in use holds a block here.
	says '.lost.probably.blocks == 74 and .lost.stack_only.blocks == 2'
	! grep PTRACE leaks.err || fail "it was stopped"
	finish lost
}

@test "each thread is stopped once, and the verdict, the states and the exit status say what was found" {
	start lost "$TARGETS/lost"
	LIMPET_DEBUG=1 leaks
	[[ $(grep -c PTRACE_SEIZE leaks.err) == 2 && $(grep -c PTRACE_DETACH leaks.err) == 2 ]]
	within 120 "$LIMPET" leaks "$pid" --max-stop 5s >leaks.txt
	[[ $(head -1 leaks.txt) == "604.1 KiB in 75 blocks are lost: nothing points to them any more." ]] || fail "$(<leaks.txt)"
	grep -qE '^ +31 .* definitely lost' leaks.txt
	run -6 within 120 "$LIMPET" leaks "$pid" --max-stop 5s --fail-on lost
	finish lost
}

@test "a process that another one traces is read, but not stopped" {
	local tracer
	start lost "$TARGETS/lost"
	trace_by_another "$pid"
	tracer=$answer
	leaks
	says '.stop.state == "not_allowed" and .lost.definitely.blocks == 0 and .lost.probably.blocks == 74'
	end_process "$tracer" 2
	finish lost
}
