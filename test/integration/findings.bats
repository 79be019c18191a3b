#!/usr/bin/env bats
# What a report says in words: true, and nothing where there is no evidence. What it makes of which capture is
# tested in test/unit/test_findings.c, by a clock of its own, and in test/verdicts.
# time-limit: 240

load helpers
setup() { begin; }
teardown() { end; }

has_rounds() {
	tell habits rounds '' && ((${answer% rounds} >= $1))
}

# copy_says FILTER [OPTION...]: of the capture as it is now, which stays in copy.limpet.
copy_says() {
	cp "$trace" copy.limpet
	trace=copy.limpet so_far "$@"
}

tells_its_time() {
	elapsed=$("$LIMPET" status "$pid" --json | jq '.captures[0].elapsed_seconds') && [[ $elapsed != null ]]
}

@test "a leak grows; a cache, what was loaded at the start and churn do not" {
	local filled
	start habits "$TARGETS/habits" leak cache churn load
	attach "$pid"
	tell habits go going
	# The cache is full: that has to lie in the first half.
	wait_until 30 has_rounds 401
	wait_until 30 tells_its_time
	filled=$elapsed
	wait_until 60 copy_says '.capture.duration_seconds > 2.1 * $filled + 2 and .verdict.kind == "leak"' \
		--argjson filled "$filled"
	tell habits rounds ''
	stop "$pid"
	finish habits
	good_capture
	# What is judged is what was there when it was said: later the machine may have kept the program from it.
	trace=$work/copy.limpet
	within 60 "$LIMPET" seal -q "$trace"
	report
	expect '.verdict | .culprit == "habit_leak" and .bytes > 65536 and .bytes % 700 == 0 and .bytes < 700 * $rounds' \
		--argjson rounds "${answer% rounds}"
	expect '.verdict.sentences[0] |
		test("^Live memory grew by .* in .*s, under habit_leak \\(habits\\.c:[0-9]+\\), through take: none of .* blocks was freed\\.$")'
	expect 'any(.findings[]; .kind == "churns" and .share > 0.9)'
	# The same for people, in lines that fit, and for browsers.
	run --separate-stderr "$LIMPET" report "$trace"
	[[ $status == 0 && $output == 'Verdict'$'\n''- Live memory grew by '*' under habit_leak '*$'\nFindings\n- '* ]] || fail "$output"
	# Evidence only where it is asked for.
	[[ $output != *' a second; '* ]] || fail "$output"
	run --separate-stderr "$LIMPET" report --full "$trace"
	[[ $output == *' a second; '*' allocated, 0 freed'* ]] || fail "$output"
	"$LIMPET" html "$trace" -o page.html
	"$root/test/html/figures" page.html | json_says 'any(.findings[]; .kind == "churns")'
	# A part of a capture that is too short says that it is; some of the stacks say nothing.
	report --from 1s --to 4500ms
	expect '.verdict.kind == "steady" and (.verdict.sentences[0] | contains(" is too short to tell what grows"))'
	# What lives in a window may have come before it.
	"$LIMPET" report "$trace" --from 1s >window.txt
	grep -Eq ' blocks live; [0-9.]+( [kM])? allocations in the window, ' window.txt
	report --include habit_leak
	expect '.findings == null and .verdict == null'
}

@test "a filter, which shows a part, has no findings, and the report says so" {
	local kept=$root/test/traces/storm.trace format
	printf 'leak:nothing\n' >none.supp
	"$LIMPET" report "$kept" >text
	grep -q '^Verdict$' text && (($(grep -c 'none are shown' text) == 0)) || fail "$(<text)"
	for format in text markdown; do
		"$LIMPET" report --format $format "$kept" --include main >text
		grep -q '^Findings are made from all that was recorded: none are shown with --include\.$' text || fail "$(<text)"
		"$LIMPET" report --format $format "$kept" --exclude x --exclude @none.supp --born-between ,1ms >text
		grep -q ' with --exclude and --born-between\.$' text || fail "$(<text)"
	done
	"$LIMPET" report --json "$kept" --include main | json_says '.findings == null'
}

@test "what the allocator keeps after a fall is said" {
	start habits "$TARGETS/habits"
	attach "$pid"
	tell habits rise risen
	# Resident memory is looked at now and then.
	wait_until 30 so_far '[.timeline[] | select(.rss_bytes) | .live_bytes] | max > 48000000'
	tell habits fall fell
	wait_until 30 so_far '[.timeline[] | select(.rss_bytes)][-1].live_bytes < 20000000'
	stop "$pid"
	finish habits
	report
	expect '.verdict.kind == "free" and .verdict.bytes > 25000000'
	expect '.verdict.sentences[0] | test("free inside glibc.s heap|keeps .* more that are free")'
}

# says COMMAND...: it answers 0; what it says is in said.say.
says() {
	within 60 "$@" >said.say 2>&1 || fail "$* ended with status $?: $(<said.say)"
}

@test "a program at rest, one that only frees, and one that only maps: every view says what there is" {
	local view rest=$work/trace.1.limpet
	start habits "$TARGETS/habits"
	attach "$pid"
	wait_until 60 so_far '.capture.duration_seconds > 1'
	stop "$pid"
	grep -q '^limpet: 0 events in ' attach.1.err
	grep -q '^limpet: no call was seen: the program was idle' attach.1.err
	report
	expect '.findings == [] and .capture.agent_resident_bytes < .capture.agent_memory_bytes / 4'
	expect '.verdict.sentences[0] | test("^Nothing was allocated or freed in ")'
	says "$LIMPET" report "$rest"
	grep -qx 'calls     no allocation was seen, nor any other call' said.say
	same "lines of what is live" "$(grep -cE '^(live|peak) ' said.say)" 0
	for view in bottom-up top-down functions threads modules sizes lifetimes timeline pages; do
		says "$LIMPET" report "$rest" --view "$view"
		grep -qx 'calls     no allocation was seen, nor any other call' said.say
	done
	for view in heaptrack pprof folded massif callgrind; do
		says "$LIMPET" export "$rest" --format "$view" -o "out.$view"
		grep -qx 'limpet: no allocation was seen: there is little to write' said.say
	done
	says "$LIMPET" html "$rest" -o page.html
	"$root/test/html/figures" page.html | json_says '.verdict.kind == "steady" and .findings == []'
	# Older blocks alone.
	tell habits rise risen
	attach "$pid"
	tell habits fall fell
	tell habits map mapped
	stop "$pid"
	says "$LIMPET" report "$trace"
	grep -qx 'calls     no allocation was seen, 36.9 k frees of older blocks, 20 mmap calls' said.say
	says "$LIMPET" diff "$rest" "$trace"
	grep -q '^          20.0 MiB mapped by mmap beside these, RSS ' said.say
	report
	expect '.verdict.kind == "mapping" and .verdict.culprit == "habit_map" and (.verdict.bytes - 20971520 | fabs) < 1048576'
	finish habits
}
