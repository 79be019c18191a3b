#!/usr/bin/env bats
# What pages of traces of every kind say and do not say; in headless Chromium.
# time-limit: 600

load helpers
load browser

@test "functions that call each other are shown once in the page's stacks" {
	start leak "$TARGETS/leak"
	attach "$pid"
	tell leak 'leak 5' leaked
	tell leak 'parse 20' parsed
	stop "$pid"
	finish leak
	report
	"$LIMPET" html "$trace" -o page.html
	driven page.html report.json --recursion
}

@test "what survived of a window is what limpet report --born-between says; the timeline shows what is still live" {
	trace=$root/test/html/shop.trace
	"$LIMPET" html "$trace" -o page.html
	local edges from to
	mapfile -t edges < <(edges_of page.html)
	((${#edges[@]} == 32)) || fail "other steps: ${edges[*]}"
	# A step ends with the tick of ten microseconds that its edge is in.
	printf -v from %.9f "$(jq -n "${edges[10]} + 0.00001")"
	printf -v to %.9f "$(jq -n "${edges[14]} + 0.00001")"
	"$LIMPET" report "$trace" --born-between "${from}s,${to}s" --json >born.json
	"$LIMPET" report "$trace" --json >whole.json
	# The leaks alone: of the cache no entry is as old.
	json_says '.totals.live_bytes > 0 and (.sites | map(select(.live_bytes > 0)) | length == 3)' <born.json
	json_says ".totals.live_bytes > $(jq .totals.live_bytes born.json)" <whole.json
	driven page.html born.json --survived "${edges[10]}" "${edges[14]}"
	# Without single events it is not known.
	"$LIMPET" html "$root/test/traces/compact.trace" -o sums.html
	driven sums.html born.json --survived 0 0
}

# out_of_reach OPTION: of pages of captures that miss something.
out_of_reach() {
	strip -o nim-stripped "$TARGETS/churn-nim"
	start nim "$work/nim-stripped"
	attach "$pid"
	tell nim go going
	wait_until 60 so_far '.totals.allocations > 0'
	tell nim hold held
	stop "$pid"
	finish nim
	good_capture
	expect '.capture.unseen_rss_share != null and .totals.allocations > 0'
	"$LIMPET" html "$trace" -o partial.html
	cp report.json partial.json
	start lame "$TARGETS/lame"
	attach "$pid" --no-seal
	tell lame "run 10" ran
	stop "$pid" 4
	report
	finish lame
	"$LIMPET" html "$trace" -o lame.html
	# Of one whose end is gone the words are those of what its last period says.
	head -c -20 "$trace" >cut.limpet
	"$LIMPET" report cut.limpet --json >cut.json
	json_says '(.capture.incomplete_because | startswith("functions of its allocator")) and any(.capture.losses[]; .reason == "unfinished")' <cut.json ||
		fail "$(jq .capture cut.json)"
	"$LIMPET" html cut.limpet -o cut.html
	driven partial.html partial.json "$1" -- lame.html report.json "$1" -- cut.html cut.json "$1"
}

@test "a page says what was out of reach, and why a capture is not complete" {
	out_of_reach --tables
}

# bats test_tags=release
@test "a page of a capture that is not complete says the same in all views" {
	out_of_reach --figures
}

@test "what a page says of lifetimes and sizes of blocks is what the reports say" {
	trace=$root/test/traces/rust.trace
	within 60 "$LIMPET" html "$trace" -o page.html
	figures page.html lives >lives.json
	within 60 "$LIMPET" report "$trace" --view lifetimes --json >lifetimes.json
	within 60 "$LIMPET" report "$trace" --view sizes --json >sizes.json
	jq -e --slurpfile ages lifetimes.json --slurpfile sizes sizes.json '. as $lives | $ages[0].ages | to_entries |
		all(.key as $age | .value.freed == ([$lives[] | [.g, .n] | transpose[] | select(.[0] == $age)[1]] | add // 0)) and
		all(.key as $age | .value.alive == ([$lives[].alive[$age]] | add)) and
		($sizes[0].sizes | .[0] as $first | .[-1] as $last |
			($lives | map(.smallest) | min | $first.from_bytes <= . and . <= $first.to_bytes) and
			($lives | map(.largest) | max | $last.from_bytes <= . and . <= $last.to_bytes))' lives.json
}

# test/html/spike.trace: thirty blocks of 1000 bytes, one of 1 GiB that is freed at once, thirty more; 30 ms from each to
# the next. It is kept, as where its steps end is a matter of time.
@test "a peak that comes and goes between two points is in the plot, and in the figures of its part" {
	local edges begin='' end step=0
	trace=$root/test/html/spike.trace
	"$LIMPET" html "$trace" -o spike.html
	# For windows of the report: a step ends with the tick of 10 us that its end lies in.
	edges=$(edges_of spike.html | jq 'if . > 0 then . + 0.00001 else . end')
	(($(wc -l <<<"$edges") > 3)) || fail "too few steps: $edges"
	while read -r end; do
		if [[ $begin ]]; then
			"$LIMPET" report --json --from "${begin}s" --to "${end}s" "$trace" >"step.$step.json"
			step=$((step + 1))
		fi
		begin=$end
	done <<<"$edges"
	# The first one ends with the first call, in the same tick as that.
	rm step.0.json
	jq -s . step.*.json >steps.json
	driven spike.html steps.json --kept highest
	highest_of spike.html
}

# highest_of PAGE: has the gibibyte.
highest_of() {
	figures "$1" | json_says '(.highest.bytes | max) > 1073741824'
}

@test "a peak that comes and goes within a step is recorded" {
	cat >spike.c <<-'END'
		#include <stdlib.h>
		static void *volatile keep;
		static void some(void)
		{
			/* More than fits a step: 65536 events. */
			for (int i = 0; i < 100000; i++) {
				keep = malloc(1000);
				free(keep);
			}
			keep = malloc(1000);
		}
		int main(void)
		{
			some();
			keep = malloc(1ul << 30);
			free(keep);
			some();
			return 0;
		}
	END
	gcc -O1 -o spike spike.c
	trace=$work/spike.limpet
	within 60 "$LIMPET" run -q --on-overload wait -o "$trace" -- ./spike
	"$LIMPET" html "$trace"
	(($(edges_of spike.html | wc -l) > 3)) || fail "too few steps: $(edges_of spike.html)"
	highest_of spike.html
	report
	expect '.totals.peak_bytes > 1073741824 and .totals.peak_bytes > 100 * ([.timeline[].live_bytes] | max)'
}

@test "a page of samples, of a short capture and of one that gave up its oldest part say what they have" {
	local traces=$root/test/traces edges
	echo '{}' >none.json
	"$LIMPET" html "$traces/sampled.trace" -o sampled.html
	"$LIMPET" html "$traces/overload.trace" -o overload.html
	"$LIMPET" html "$traces/addresses.trace" -o short.html
	trace=$traces/bounded.trace
	"$LIMPET" html "$trace" -o bounded.html
	mapfile -t edges < <(edges_of bounded.html | jq 'if . > 0 then . + 0.00001 else . end')
	"$LIMPET" report --json --from "${edges[2]}s" --to "${edges[4]}s" "$trace" >kept.json
	# A comparison has no temporary allocations either, if one side was sampled.
	"$LIMPET" diff "$traces/storm.trace" "$traces/sampled.trace" -o both.html
	driven sampled.html none.json --kept sampled -- overload.html none.json --kept sampled -- \
		short.html none.json --kept one-step -- bounded.html kept.json --kept bounded -- both.html none.json --kept compared
}

@test "a page of touched pages divides the change of RSS, and has nothing temporary; a short interval makes no spike" {
	echo '{}' >none.json
	"$LIMPET" html "$root/test/traces/storm.trace" -o blocks.html
	# A page like that of `limpet pages`, which not every machine lets record.
	figures blocks.html | jq -c '.capture.mode = "pages"' | figures blocks.html --put pages.html
	# Its first interval is of a microsecond.
	figures blocks.html | jq -c '.moments.seconds[0] = 0.000001 | .moments.allocations[0] = 1000' |
		figures blocks.html --put short.html
	driven pages.html none.json --kept pages -- short.html none.json --kept rates
}

@test "a compact trace says what it does not know: between the minutes" {
	trace=$root/test/traces/compact.trace
	"$LIMPET" report "$trace" >text
	grep -q '^- At most 15.6 MiB were live, at 3m26s, ' text || fail "$(<text)" || return 1
	grep -q '^memory .*RSS .*, at most .* at the ends of minutes' text
	"$LIMPET" html "$trace" -o compact.html
	"$LIMPET" report "$trace" --json >compact.json
	driven compact.html compact.json --kept compact
	# Where all is known, nothing is said.
	"$LIMPET" report "$root/test/traces/storm.trace" >text
	[[ $(grep -c 'ends of minutes' text) == 0 ]]
}

# bats test_tags=release
@test "sums of rates: the page and limpet diff round alike" {
	local traces=$root/test/traces
	local both=("$traces/addresses.trace" "$traces/rust.trace")
	"$LIMPET" diff --sort allocations "${both[@]}" -o both.html
	"$LIMPET" diff --json --sort allocations "${both[@]}" >diff.json
	json_says '.per_second' <diff.json
	driven both.html diff.json
}

# bats test_tags=release
@test "a growth that became smaller is no decrease: page and JSON" {
	local trace=$root/test/verdicts/traces/xstrdup-attributes.limpet
	local both=("$trace@2s-4s" "$trace@4s-11s")
	"$LIMPET" diff --sort growth "${both[@]}" -o both.html
	"$LIMPET" diff --json --sort growth "${both[@]}" >diff.json
	json_says '.change < 0 and ([.sites[].new_value] | add) > 0' <diff.json
	json_says 'any(.sites[]; .state == "slower") and all(.sites[]; .state != "shrank")' <diff.json
	driven both.html diff.json
}

@test "a stack that allocated by a library's function names it, as the report does" {
	local name pages=()
	for name in rust addresses; do
		trace=$root/test/traces/$name.trace
		"$LIMPET" html "$trace" -o "$name.html"
		# "1    14.6 KiB  100 %  NAME (via NAME)"
		"$LIMPET" report "$trace" --sort live -n 1000 | sed -nE 's/^ +[0-9]+ +[0-9.]+ [KMG]?i?B +<?[0-9]+ %  (.*)$/\1/p' |
			jq -Rn '[inputs]' >"$name.json"
		pages+=(-- "$name.html" "$name.json" --headings)
	done
	driven "${pages[@]:1}"
}

@test "a page of every kind of trace, with what it has of threads and lifetimes" {
	local trace name
	for trace in "$root"/test/traces/*.trace; do
		name=$(basename "$trace" .trace)
		within 60 "$LIMPET" html "$trace" -o "$name.html" >/dev/null 2>html.err || fail "$name: $(<html.err)" || return 1
	done
	# Sums alone have no events; samples are read.
	figures compact.html | json_says '.threads == null and (.kept.lives | not)'
	for name in sampled storm; do
		figures "$name.html" | json_says '(.threads | length > 0) and .kept.lives' || fail "$name" || return 1
		figures "$name.html" lives | json_says 'length > 0' || fail "$name" || return 1
	done
}
