#!/usr/bin/env bats
# Marks: set from another terminal, kept in the trace, and what reports make of them.
# time-limit: 200

load helpers
setup() { begin; }
teardown() { end; }

# mark NAME: sets `said`.
mark() {
	within 60 "$LIMPET" mark "$pid" "$1" >mark.say 2>mark.err || fail "limpet mark: $(<mark.err)" || return 1
	read -r said <mark.say
	[[ $said =~ ^"mark '$1' at "[0-9.hm]+(s|ms|us)$ ]] || fail "limpet mark said '$said'"
}

# in_the_trace NAME...: in this order, by a reader that shares no code with limpet.
in_the_trace() {
	"$root/scripts/limpet-trace-read" "$trace" >theirs.json 2>theirs.err || fail "$(<theirs.err)" || return 1
	same "marks" "$(jq -c '[.marks[].name]' theirs.json)" "$(jq -nc '$ARGS.positional' --args "$@")"
}

@test "set from another terminal, and in the trace at once" {
	start generations "$TARGETS/generations"
	attach "$pid"
	mark "after load"
	in_the_trace "after load"
	mark "größe, 2"
	in_the_trace "after load" "größe, 2"
	same "JSON" "$("$LIMPET" mark --json "$pid" last | jq -c '[.pid, .name, (.time_s > 0)]')" "[$pid,\"last\",true]"
	refused 1 "has a mark 'after load' already" "$LIMPET" mark "$pid" "after load"
	# status names them.
	within 60 "$LIMPET" status "$pid" --json >status.json
	json_says '[.captures[0].marks[].name] == ["after load", "größe, 2", "last"] and
		(.captures[0].marks | map(.time_seconds) | . == sort and .[0] > 0)' <status.json
	within 60 "$LIMPET" status "$pid" >status.text
	grep -qE '^         marks: after load [0-9.hm]+s, größe, 2 [0-9.hm]+s, last [0-9.hm]+s$' status.text || fail "$(<status.text)"
	# As a collector that is killed leaves it.
	kill -KILL "$limpet_job"
	wait_until 20 ended "$limpet_job"
	in_the_trace "after load" "größe, 2" last
	refused 1 "process $pid is not being captured" "$LIMPET" mark "$pid" late
	finish generations
	refused 1 "there is no process $pid" "$LIMPET" mark "$pid" late
}

@test "in captures of commands and of touched pages, compact and bounded ones" {
	local options
	start generations "$TARGETS/generations"
	for options in --compact "--max-size 8MiB"; do
		# shellcheck disable=SC2086
		attach "$pid" $options || return 1
		tell generations "make 10" made || return 1
		mark one || return 1
		tell generations "make 10" made || return 1
		mark 2@once || return 1
		stop "$pid" || return 1
		in_the_trace one 2@once || return 1
		# An '@' in a name begins no window.
		"$LIMPET" diff "$trace@one-2@once" "$trace" --json >diff.json || return 1
		json_says '.old.to_seconds > .old.from_seconds and .old.from_seconds > 0' <diff.json || return 1
		good_capture || return 1
		expect '.totals.allocations == 20' || return 1
	done
	finish generations
	start second "$LIMPET" run -q -o "$work/run.limpet" -- "$TARGETS/generations"
	trace=$work/run.limpet
	mark one
	tell second quit "" || true
	result second 0
	in_the_trace one
}

# Of three generations of blocks, the first before a mark, the second between two, the third after both.
generations() {
	start generations "$TARGETS/generations"
	attach "$pid" "$@" || return 1
	tell generations "make 10" made || return 1
	mark load || return 1
	tell generations "make 500" made || return 1
	tell generations map mapped || return 1
	tell generations "drop 200" dropped || return 1
	# With a comma, which separates two names.
	mark "top-1, steady" || return 1
	tell generations "make 70" made || return 1
	tell generations "drop 30" dropped || return 1
	stop "$pid" || return 1
	finish generations
}

# born RANGE ALLOCATIONS FREES LIVE HIDDEN
born() {
	report --born-between "$1" || return 1
	expect '[.totals | .allocations, .frees, .live_allocations, .live_bytes / 100] == [$made, $freed, $live, $live]
		and .hidden.live_allocations == $hidden and .born.from_seconds >= 0' \
		--argjson made "$2" --argjson freed "$3" --argjson live "$4" --argjson hidden "$5" || fail "between $1"
}

@test "what was allocated between two marks, exactly" {
	local rate
	generations
	good_capture
	expect '[.marks[].name] == ["load", "top-1, steady"] and .marks[0].time_s < .marks[1].time_s and .born == null'
	born ",load" 10 0 10 340
	born "load,top-1, steady" 500 200 300 50
	expect '.totals.mmaps == 1 and .totals.mapped_bytes == 65536'
	same "sites" "$(site_sum generations_make live_allocations)" 300
	born "top-1, steady," 70 30 40 310
	born "load," 570 230 340 10
	expect '.born.to_seconds == null'
	# Where the third generation began, all of the second was released that ever was.
	report --born-between load, --to "top-1, steady"
	expect '.totals.live_allocations == 300 and .window.to_seconds == .marks[1].time_s' --argjson x 1
	report --from load --to "top-1, steady"
	expect '.totals.allocations == 500 and .totals.frees == 200 and .totals.live_allocations == 310'

	within 60 "$LIMPET" report "$trace" --born-between "load,top-1, steady" >born.text
	grep -qE '^marks     load [0-9.]+(s|ms), top-1, steady [0-9.]+(s|ms)$' born.text
	tr -s '\n ' '  ' <born.text | grep -qE "born blocks allocated between load \([0-9.]+m?s\) and top-1, steady \([0-9.]+m?s\), 29.3 KiB in 300 blocks still live at the end"
	grep -qE '^peak .* at [0-9.]+m?s, the peak of the whole heap$' born.text
	# The rate is that of the time between the marks, not of the whole capture.
	rate=$(sed -nE 's/^calls +500 allocations \(([0-9.]+) \/s, .*/\1/p; s/^calls +500 allocations \(([0-9.]+) k\/s, .*/\1e3/p' born.text)
	expect '(500 / (.marks[1].time_s - .marks[0].time_s)) as $want | $rate > $want * 0.9 - 1 and $rate < $want * 1.1 + 1' \
		--argjson rate "${rate:-0}"
	within 60 "$LIMPET" report "$trace" --view lifetimes --born-between load, >view.text
	grep -q '^born      blocks allocated between load (' view.text
	grep -qE '^filtered  hides [0-9.]+ B of 10 allocations$' view.text || fail "$(<view.text)"
	"$LIMPET" diff "$trace@-load" "$trace@load-top-1, steady" --json >diff.json
	same "diff" "$(jq -c '[.old, .new | .totals | .allocations, .live_allocations]' diff.json)" "[10,10,500,310]"
	within 60 "$LIMPET" html "$trace" --born-between load, -o born.html >html.say 2>html.err
	"$root/test/html/figures" born.html | json_says '.marks[0].name == "load" and .marks[0].time_s > 0 and .born.from_seconds > 0'
	within 60 "$LIMPET" export "$trace" --format folded --sort live --born-between "load,top-1, steady" -o born.folded
	grep -qE '^main;generations_make 30000$|generations_make 30000$' born.folded
}

# bats test_tags=release
@test "pages of what was allocated between two marks say what the report says" {
	command -v chromium >/dev/null && command -v chromedriver >/dev/null || skip "no chromium"
	generations
	"$LIMPET" html "$trace" --born-between load, -o born.html >html.say
	"$LIMPET" html "$trace" --born-between "load,top-1, steady" -o marks.html >html.say
	"$LIMPET" report "$trace" --json --born-between load, >until-the-end.json
	report --born-between "load,top-1, steady"
	HOME=$work within 100 "$root/test/html/drive" marks.html report.json --tables -- born.html until-the-end.json --tables >drive.say 2>drive.err || fail "$(<drive.err)"
}

@test "what cannot be answered is said" {
	generations
	refused 2 "between 'never,' is not two times or marks of" "$LIMPET" report "$trace" --born-between never,
	[[ ${stderr_lines[1]} == *"its marks: load, top-1, steady" ]]
	refused 2 "invalid time 'never' for --from: .* has no mark of that name" "$LIMPET" report "$trace" --from never
	refused 2 "needs two times or marks" "$LIMPET" report "$trace" --born-between load
	refused 2 "ends before it begins" "$LIMPET" report "$trace" --born-between "top-1, steady,load"
	refused 2 "must be later than --from" "$LIMPET" html "$trace" --from "top-1, steady" --to load
	refused 2 "invalid window '@never-': not FROM-TO of two times or marks of" "$LIMPET" diff "$trace@never-" "$trace"
	[[ ${stderr_lines[1]} == *"its marks: load, top-1, steady" ]]
	refused 2 "invalid window '@load': write FROM-TO" "$LIMPET" diff "$trace@load" "$trace"
	refused 2 "invalid window '@top-1, steady-load': it ends before it begins" "$LIMPET" diff "$trace@top-1, steady-load" "$trace"
	refused 2 "'10h,' is beyond the end" "$LIMPET" report "$trace" --born-between 10h,
	refused 2 "pages cannot be filtered by when" "$LIMPET" report "$trace" --view pages --born-between load,
	refused 1 "csv always contains all blocks" "$LIMPET" export "$trace" --format csv -o born.csv --born-between load,
	refused 1 "cannot be filtered by when blocks were allocated" \
		"$LIMPET" report "$root/test/traces/sampled.trace" --born-between 1s,
	[[ ${stderr_lines[1]} == "hint: --from and --to show"* ]]
	refused 2 "has no mark of that name" "$LIMPET" report "$root/test/traces/storm.trace" --to load
	[[ ${stderr_lines[1]} == *"it has no marks"* ]]
}

@test "a compact trace keeps sums up to each mark, and no births" {
	generations --compact
	refused 1 "a compact trace does not say when blocks were allocated" "$LIMPET" report "$trace" --born-between load,
	report --from load --to "top-1, steady"
	expect '.totals.allocations == 500 and .totals.frees == 200'
	report --from "top-1, steady"
	expect '.totals.allocations == 70 and .totals.frees == 30 and .totals.live_allocations == 350'
}
