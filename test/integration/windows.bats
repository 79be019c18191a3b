#!/usr/bin/env bats
# Windows (--from, --to, FILE@FROM-TO) of traces that keep less than every event, and at a capture's end.

load helpers
setup() { begin; }
teardown() { end; }

# Events of the newest part of the time alone; of all before, sums. Twelve MiB of them, and eight are kept.
setup_file() {
	BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR begin
	printf 'leak 40\nrun 2600000\nleak 60\nquit\n' >commands
	within 120 "$LIMPET" run -q -o "$BATS_FILE_TMPDIR/bounded.limpet" --max-size 8MiB --on-overload wait -- \
		"$TARGETS/storm" --threads 2 <commands >run.say 2>run.err
}
teardown_file() { end; }

of_bounded() {
	trace=$BATS_FILE_TMPDIR/bounded.limpet
	report
	kept=$(jq .capture.single_events_from_seconds report.json)
	jq -e '.capture.single_events_from_seconds > 0' report.json >/dev/null || fail "nothing was given up"
}

# seconds EXPRESSION: of `kept` and the length.
seconds() {
	jq -r --argjson kept "$kept" '.capture.duration_seconds as $length | '"$1"' | "\(. * 1000 | floor)ms"' report.json
}

@test "--max-size: a window may begin or end where single events are, else it is refused" {
	local from to
	of_bounded
	from=$(seconds '$kept + ($length - $kept) / 3')
	to=$(seconds '$kept + ($length - $kept) * 2 / 3')
	for window in "--from 1ms" "--to 1ms" "--from 1ms --to $to" "--from 1ms --to 1h"; do
		# shellcheck disable=SC2086
		refused 1 "only their sum" "$LIMPET" report "$trace" $window || return 1
		[[ $output$stderr == *hint:* ]] || fail "no hint: $output" || return 1
		# shellcheck disable=SC2086
		refused 1 "only their sum" "$LIMPET" report "$trace" --view threads $window || return 1
	done
	refused 1 "only their sum" "$LIMPET" export "$trace" --format folded --to 1ms
	refused 1 "only their sum" "$LIMPET" diff "$trace@-1ms" "$trace"
	# From the beginning, or where there are events: the two halves are the whole.
	"$LIMPET" report "$trace" --json --to "$to" >first.json
	"$LIMPET" report "$trace" --json --from "$to" >second.json
	json_says --slurpfile first first.json --slurpfile second second.json '.totals as $all |
		all("allocations", "frees", "allocated_bytes"; . as $key |
			$all[$key] == $first[0].totals[$key] + $second[0].totals[$key]) and
		$all.live_bytes == $second[0].totals.live_bytes' <report.json
	"$LIMPET" report "$trace" --json --from "$from" --to "$to" >report.json
	"$LIMPET" report "$trace" --json --view threads --from "$from" --to "$to" >view.json
	json_says --slurpfile view view.json '.totals.allocations == ([$view[0].threads[].allocations] | add) and
		.totals.allocations == $view[0].totals.allocations and .totals.allocations > 0' <report.json
}

@test "--max-size: views that read single events tell of the time that has them" {
	local kind
	of_bounded
	for kind in threads timeline sizes lifetimes; do
		"$LIMPET" report "$trace" --json --view $kind >$kind.json
		json_says --slurpfile report report.json --argjson kept "$kept" --arg kind $kind '
			.window.from_seconds >= $kept and .window.from_seconds < $kept + 0.001 and .capture.exact and
			.window.to_seconds == $report[0].capture.duration_seconds and
			.totals.allocations < $report[0].totals.allocations and
			.totals.live_bytes == $report[0].totals.live_bytes and
			.totals.allocations == ([(.threads // .timeline // (select($kind == "sizes") | .sizes) // .sites)[] |
				.allocations] | add)' <$kind.json || fail "$kind: $(head -c 600 $kind.json)" || return 1
		"$LIMPET" report "$trace" --view $kind >text
		grep -q '^window .*: only sums are kept from before$' text || fail "$kind: $(head -n 3 text)" || return 1
	done
	for kind in timeline sizes lifetimes; do
		same "$kind" "$(jq -c '[.window, .totals]' $kind.json)" "$(jq -c '[.window, .totals]' threads.json)"
	done
	json_says '.timeline[-1].live_bytes == .totals.live_bytes' <timeline.json
	# Those that read sums tell of everything.
	"$LIMPET" report "$trace" --json --view functions >view.json
	json_says --slurpfile report report.json '.window.from_seconds == 0 and
		.totals.allocations == $report[0].totals.allocations' <view.json
	run --separate-stderr "$LIMPET" export "$trace" --format massif -o out.massif
	[[ $status == 0 && $stderr == *"only sums"* ]]
}

# duration FILE: of a profile of pprof's, its field 10, in ns.
duration() {
	python3 - "$1" <<-'EOF'
		import gzip, sys
		data = open(sys.argv[1], "rb").read()
		data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
		at = 0
		def number():
		    global at
		    value = shift = 0
		    while True:
		        byte = data[at]
		        at += 1
		        value |= (byte & 127) << shift
		        shift += 7
		        if byte < 128:
		            return value
		while at < len(data):
		    tag = number()
		    value = number()
		    if tag & 7 == 2:
		        at += value
		    elif tag >> 3 == 10:
		        print(value)
	EOF
}

@test "a window ends with the capture, and one that begins behind it is a wrong command" {
	local format length
	trace=$root/test/traces/storm.trace
	report
	length=$(jq .capture.duration_seconds report.json)
	"$LIMPET" report "$trace" --json --from 1ms --to 10h >window.json
	json_says --argjson length "$length" '.window.to_seconds == $length' <window.json
	"$LIMPET" report "$trace" --json --from 1ms >open.json
	cmp window.json open.json
	"$LIMPET" report "$trace" --from 1ms --to 10h >beyond
	"$LIMPET" report "$trace" --from 1ms >open
	cmp beyond open
	"$LIMPET" diff --json --sort allocations "$trace@-10h" "$trace" >diff.json
	json_says --argjson length "$length" '(.per_second | not) and .old.to_seconds == $length and .change == 0' <diff.json
	"$LIMPET" export "$trace" --format pprof --to 10h -o out.pb.gz
	same "duration" "$(duration out.pb.gz)" "$(jq '.capture.duration_seconds * 1e9 | round' report.json)"
	for format in pprof folded massif callgrind; do
		refused 2 "beyond the end" "$LIMPET" export "$trace" --format $format --from 10h -o out || return 1
	done
	refused 2 "beyond the end" "$LIMPET" report "$trace" --from 10h
	refused 2 "beyond the end" "$LIMPET" report "$trace" --view timeline --from 10h
	refused 2 "beyond the end" "$LIMPET" diff "$trace" "$trace@10h-"
}

@test "FILE@FROM-TO where only diff has it: the message names the options" {
	local words
	trace=$root/test/traces/storm.trace
	for words in report html "export --format folded"; do
		# shellcheck disable=SC2086 # several words
		refused 2 "there is no file" "$LIMPET" $words "$trace@1ms-2ms" || return 1
		[[ ${stderr_lines[1]} == "hint: "*": limpet ${words%% *} $trace --from 1ms --to 2ms" ]] || fail "$stderr"
	done
	# A file of that name is one, and one that is not there is just that.
	cp "$trace" "twice@1ms-2ms"
	"$LIMPET" report "$trace" >once.say
	"$LIMPET" report "twice@1ms-2ms" >twice.say
	diff once.say twice.say
	refused 1 "nowhere" "$LIMPET" report "nowhere@1ms-2ms"
	[[ $stderr != *--from* ]] || fail "$stderr"
}

@test "--compact: a window is as wide as the minutes that it touches" {
	local third
	trace=$work/compact.limpet
	within 120 "$LIMPET" run -q --compact --on-overload wait -o "$trace" -- "$TARGETS/kinds" >run.say 2>run.err
	report
	third=$(jq '.capture.duration_seconds * 1e6 / 3 | floor' report.json)
	"$LIMPET" report "$trace" --json --from "${third}us" --to "$((2 * third))us" >window.json
	json_says --slurpfile report report.json '.window.from_seconds == 0 and .totals == $report[0].totals and
		.window.to_seconds == $report[0].capture.duration_seconds' <window.json
	run -0 "$LIMPET" report "$trace" --from "${third}us" --to "$((2 * third))us"
	[[ $output == *"sums are kept by the minute"* ]] || fail "$output"
	run -0 "$LIMPET" diff "$trace@-${third}us" "$trace"
	[[ $output == *"widened to whole minutes"* && $output == *"No stack has changed"* ]] || fail "$output"
}
