#!/usr/bin/env bats
# What a report says in words: true, and nothing where there is no evidence.
# time-limit: 240

load helpers
setup() { begin; }
teardown() { end; }

# habits SECONDS HABIT...: a program with these habits, captured from its first round on.
habits() {
	local seconds=$1
	shift
	start habits "$TARGETS/habits" "$@"
	attach "$pid" --duration "${seconds}s"
	tell habits go going
	attached
	finish habits
	report
	jq -r '.findings[].text' report.json >findings.say
}
# kinds ABOUT FUNCTION: kinds of the findings about it, in order.
kinds() {
	jq -r --arg f "$1" '[.findings[] | select(.function == $f or .caller == $f) | .kind] | join(" ")' report.json
}

@test "a leak grows; a cache, what was loaded at the start and churn do not" {
	habits 8 leak cache churn load
	[[ $(kinds habit_leak) == *grows* ]]
	[[ $(jq '[.findings[] | select(.kind == "grows")] | length' report.json) == 1 ]]
	# 700 bytes a millisecond, less what the machine was late.
	expect '.findings[] | select(.kind == "grows") | .per_second > 200000 and .per_second <= 700000 and
		.share > 0.95 and .bytes > 1000000'
	grep -q 'take (called by habit_leak) grows all the time, by .*/s (.* an hour) .*: none of its .* blocks was ever freed\.' findings.say
	[[ $(kinds habit_churn) == churns ]]
	[[ $(kinds habit_cache) != *grows* && $(kinds habit_load) != *grows* ]]
	expect '[.findings[] | select(.kind == "steady" or .kind == "turnover")] == []'
	# The same for people, in lines that fit, and for browsers.
	run --separate-stderr "$LIMPET" report "$trace"
	[[ $status == 0 && $output == *$'\nFindings\n'*'- take (called by habit_leak) grows all the time'* ]]
	"$LIMPET" html "$trace" -o page.html
	grep -q '"kind": *"grows"' page.html
}

@test "a cache that is full is steady, and so is a program that only churns" {
	habits 8 cache churn load
	expect '[.findings[] | select(.kind == "grows" or .kind == "turnover")] == []'
	expect '[.findings[] | select(.kind == "steady")] | length == 1'
	grep -qE '^Nothing grows: in the second half live bytes (rose|fell) by ' findings.say
	[[ $(kinds habit_churn) == churns ]]
	[[ $(kinds habit_load) == holds ]]
}

@test "too short a capture says nothing of growth" {
	habits 1 leak
	expect '[.findings[] | select(.kind == "grows" or .kind == "steady")] == []'
	expect '[.findings[] | select(.kind == "holds" and .caller == "habit_leak")] | length == 1'
}

@test "a cache that was there before the capture is no leak" {
	start habits "$TARGETS/habits" slow
	tell habits go going
	wait_until 30 has_rounds 100
	attach "$pid" --duration 5s
	attached
	finish habits
	report
	# Its blocks are replaced one after the other: as much was freed as is new.
	expect '.totals.foreign_freed_bytes > 1000000 and .totals.live_bytes > 1000000'
	expect '[.findings[] | select(.kind == "grows")] == []'
	expect '[.findings[] | select(.kind == "turnover")] | length == 1'
}
has_rounds() {
	tell habits rounds '' && ((${answer% rounds} >= $1))
}

@test "a program that frees everything as it ends is not called steady" {
	start habits "$TARGETS/habits"
	attach "$pid"
	wait_until 30 elapsed "$pid" 3
	tell habits rise risen
	wait_until 30 elapsed "$pid" 5
	tell habits fall fell
	finish habits
	attached
	report
	expect '.capture.end == "target-exit" and .totals.live_bytes < .totals.peak_bytes / 2'
	expect '[.findings[] | select(.kind == "steady")] == []'
}

@test "what the allocator keeps after a fall is said, and a part of a capture says nothing" {
	start habits "$TARGETS/habits"
	attach "$pid"
	# Resident memory is looked at every half second.
	tell habits rise risen
	wait_until 30 elapsed "$pid" 3
	tell habits fall fell
	wait_until 30 elapsed "$pid" 5
	stop "$pid"
	finish habits
	report
	expect '[.findings[] | select(.kind == "retained")] | length == 1'
	expect '.findings[] | select(.kind == "retained") | .bytes > 25000000 and .share > 0.5'
	jq -r '.findings[].text' report.json | grep -q '^RSS stayed at .* when live bytes fell from .* to .*: the allocator keeps'
	report --from 1s
	expect '.findings == null'
	report --include habit_fall
	expect '.findings == null'
}
