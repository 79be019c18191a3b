#!/usr/bin/env bats
# The page of `limpet html`, used as a person would, in headless Chromium.
# time-limit: 300

load helpers
setup() { begin; }
teardown() { end; }

# One capture for those who look at it only: several periods, by the number of events.
setup_file() {
	BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR begin
	start storm "$TARGETS/storm" --threads 2
	attach "$pid"
	tell storm "run 150000" ran
	stop "$pid"
	finish storm
	cp "$trace" "$BATS_FILE_TMPDIR/storm.limpet"
	serve_browser
}

# One browser for all: it takes longer to start than most pages to be looked at.
serve_browser() {
	command -v chromium >/dev/null && command -v chromedriver >/dev/null || return 0
	HOME=$work start browser "$root/test/html/drive" --serve
	export LIMPET_TEST_BROWSER=$ready
}
teardown_file() {
	[[ ! ${job_of[browser]:-} ]] || finish browser
	end
}

of_storm() {
	trace=$BATS_FILE_TMPDIR/storm.limpet
	good_capture
}

# driven PAGE REPORT.json [OPTION]... [-- PAGE REPORT.json...]...: in one browser.
driven() {
	command -v chromium >/dev/null || skip "no chromium"
	command -v chromedriver >/dev/null || skip "no chromedriver"
	HOME=$work within 200 "$root/test/html/drive" "$@" >drive.say 2>drive.err || fail "$(<drive.err)"
}

# figures PAGE [PART]: as JSON.
figures() {
	"$root/test/html/figures" "$@"
}

# The edges of a page's steps.
edges_of() {
	figures "$1" | jq -r '.buckets[]'
}

@test "a page says what the report says, whole and in part; mouse, keys, search, drag" {
	of_storm
	run --separate-stderr "$LIMPET" html "$trace" -o page.html
	[[ $status == 0 && $output == page.html ]]
	[[ $(stat -c %a page.html) == 600 ]]
	(($(edges_of page.html | wc -l) > 3)) || fail "too few steps: $(edges_of page.html)"
	driven page.html report.json
}

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

@test "threads have the names that they gave themselves, in page and report" {
	of_storm
	"$LIMPET" report "$trace" --view threads --json >threads.json
	json_says '[.threads[] | select(.name == "storm-worker")] | length == 2' <threads.json ||
		fail "$(jq -c '.threads[] | [.thread, .name]' threads.json)" || return 1
	"$LIMPET" report "$trace" --view threads >threads.text
	[[ $(grep -c ' storm-worker$' threads.text) == 2 ]]
	"$LIMPET" html "$trace" -o page.html
	figures page.html | json_says '[.threads[] | select(.name == "storm-worker")] | length == 2'
	# A trace of an older limpet has none.
	"$LIMPET" report "$root/test/traces/version-1/storm.trace" --view threads --json >older.json
	json_says '(.threads | length > 0) and all(.threads[]; .name == null)' <older.json
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
	"$LIMPET" html "$trace" --quick -o quick.html
	driven quick.html born.json --survived 0 0
}

# A step has the events that were written in it: between these ends, and only between them, they are those of the time.
@test "two windows of a capture say what limpet diff says of them; what rose to the peak has a name" {
	local edges middle to sort scale sides=()
	trace=$root/test/html/spike.trace
	"$LIMPET" html "$trace" -o page.html
	mapfile -t edges < <(edges_of page.html)
	((${#edges[@]} == 6)) || fail "other steps: ${edges[*]}"
	printf -v middle %.9f "${edges[2]}"
	printf -v to %.9f "${edges[4]}"
	for sort in live allocated; do
		for scale in "" --no-scale; do
			"$LIMPET" diff --json $scale --sort "$sort" "$trace@0s-${middle}s" "$trace@${middle}s-${to}s" >"$sort$scale.json"
			json_says '.change != 0' <"$sort$scale.json"
			sides+=(page.html "$sort$scale.json" --windows 0 "${edges[2]}" "${edges[4]}" --)
		done
	done
	json_says ".change > $(jq .change allocated.json)" <allocated--no-scale.json
	driven "${sides[@]}" page.html live.json --flag 'peak 0.93 s: main \+1\.0 GiB$'
}

@test "a page of what filters keep, begun with a part of the time" {
	of_storm
	"$LIMPET" html "$trace" -o page.html
	local edges from to
	mapfile -t edges < <(edges_of page.html)
	((${#edges[@]} > 3)) || fail "too few steps: ${edges[*]}"
	# Near an edge, not on it; without an exponent, which jq writes of less than a ten-thousandth.
	printf -v from %.9f "$(jq -n "${edges[1]} * 0.8 + ${edges[2]} * 0.2")"
	printf -v to %.9f "$(jq -n "${edges[2]} * 0.2 + ${edges[3]} * 0.8")"
	"$LIMPET" html "$trace" --from "${from}s" --to "${to}s" -o part.html
	refused 2 "beyond the end" "$LIMPET" html "$trace" --from 1h -o none.html
	refused 2 "later than" "$LIMPET" html "$trace" --from 2ms --to 1ms -o none.html
	[[ ! -e none.html ]]
	local thread
	"$LIMPET" report "$trace" --view threads --json >threads.json
	thread=$(jq '.threads | sort_by(.allocations) | last.thread' threads.json)
	local kept=0 cut
	for cut in "--exclude=storm_realloc" "--include=thread:$thread"; do
		kept=$((kept + 1))
		"$LIMPET" report "$trace" "$cut" --json >cut.$kept.json
		[[ $(jq .totals.allocations cut.$kept.json) != "$(jq .totals.allocations report.json)" ]] ||
			fail "$cut cuts nothing" || return 1
		"$LIMPET" html "$trace" "$cut" -o cut.$kept.html
	done
	driven part.html report.json --part "$from" "$to" -- cut.1.html cut.1.json --figures -- cut.2.html cut.2.json --figures
	# Of what is left out nothing is in the page but its sum.
	[[ $(figures cut.1.html | grep -c storm_realloc) == 0 ]] || fail "names that were cut"
}

@test "a page says what was out of reach, and why a capture is not complete" {
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
	driven partial.html partial.json --figures -- lame.html report.json --figures -- cut.html cut.json --figures
}

@test "what a page says of lifetimes and sizes of blocks is what the reports say" {
	trace=$root/test/traces/version-1/rust.trace
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
	"$LIMPET" html --quick "$trace" -o quick.html
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
	highest_of spike.html quick.html
}

# highest_of PAGE QUICK-PAGE: has the gibibyte. A page of sums knows the steps alone.
highest_of() {
	figures "$2" | json_says '.moments == null'
	jq -se '.[0].highest.bytes == .[1].highest.bytes and (.[0].highest.bytes | max) > 1073741824' \
		<(figures "$1") <(figures "$2") >/dev/null
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
	"$LIMPET" html --quick "$trace" -o quick.html
	(($(edges_of spike.html | wc -l) > 3)) || fail "too few steps: $(edges_of spike.html)"
	highest_of spike.html quick.html
	report
	expect '.totals.peak_bytes > 1073741824 and .totals.peak_bytes > 100 * ([.timeline[].live_bytes] | max)'
}

@test "a page of samples, of a short capture and of one that gave up its oldest part say what they have" {
	local traces=$root/test/traces edges
	echo '{}' >none.json
	"$LIMPET" html "$traces/version-1/sampled.trace" -o sampled.html
	"$LIMPET" html "$traces/version-2/overload.trace" -o overload.html
	"$LIMPET" html "$traces/version-3/addresses.trace" -o short.html
	trace=$traces/version-3/bounded.trace
	"$LIMPET" html "$trace" -o bounded.html
	mapfile -t edges < <(edges_of bounded.html | jq 'if . > 0 then . + 0.00001 else . end')
	"$LIMPET" report --json --from "${edges[2]}s" --to "${edges[4]}s" "$trace" >kept.json
	# A comparison has no temporary allocations either, if one side was sampled.
	"$LIMPET" diff --html "$traces/version-1/storm.trace" "$traces/version-1/sampled.trace" -o both.html
	driven sampled.html none.json --kept sampled -- overload.html none.json --kept sampled -- \
		short.html none.json --kept one-step -- bounded.html kept.json --kept bounded -- both.html none.json --kept compared
}

@test "a page of touched pages divides the change of RSS, and has nothing temporary; a short interval makes no spike" {
	echo '{}' >none.json
	"$LIMPET" html "$root/test/traces/version-1/storm.trace" -o blocks.html
	# A page like that of `limpet pages`, which not every machine lets record.
	figures blocks.html | jq -c '.capture.mode = "pages"' | figures blocks.html --put pages.html
	# Its first interval is of a microsecond.
	figures blocks.html | jq -c '.moments.seconds[0] = 0.000001 | .moments.allocations[0] = 1000' |
		figures blocks.html --put short.html
	driven pages.html none.json --kept pages -- short.html none.json --kept rates
}

@test "a compact trace says what it does not know: between the minutes, and of growth" {
	trace=$root/test/traces/version-3/compact.trace
	"$LIMPET" report "$trace" >text
	grep -q 'Which sites grow is not known: a compact trace has one sum a minute, here 4, and at least 8 are needed' text ||
		fail "$(<text)" || return 1
	grep -q '^memory .*RSS .*, at most .* at the ends of minutes' text
	"$LIMPET" html "$trace" -o compact.html
	"$LIMPET" report "$trace" --json >compact.json
	driven compact.html compact.json --kept compact
	# Where all is known, nothing is said.
	"$LIMPET" report "$root/test/traces/version-1/storm.trace" >text
	[[ $(grep -c 'ends of minutes' text) == 0 ]]
}

@test "sums of scaled figures: the page and limpet diff round alike" {
	local traces=$root/test/traces
	local both=("$traces/version-3/addresses.trace" "$traces/version-1/rust.trace")
	"$LIMPET" diff --html --sort allocations "${both[@]}" -o both.html
	"$LIMPET" diff --json --sort allocations "${both[@]}" >diff.json
	# Of all that vanished, the sum of what was scaled rounds to another number than the sum of what was rounded.
	json_says '.scale as $scale | [.sites[] | select(.state == "vanished")] |
		(map(.old.allocations) | add) * $scale + (map(.change) | add) | fabs > 0.5' <diff.json
	driven both.html diff.json
	# As they are.
	"$LIMPET" diff --html -f --no-scale --sort allocations "${both[@]}" -o both.html
	"$LIMPET" diff --json --no-scale --sort allocations "${both[@]}" >diff.json
	json_says '.scale == 1' <diff.json
	driven both.html diff.json
}

@test "a growth that became smaller is no decrease: page and text" {
	local traces=$root/test/traces
	local both=("$traces/version-3/addresses.trace" "$traces/version-1/rust.trace")
	"$LIMPET" diff --html --sort growth "${both[@]}" -o both.html
	"$LIMPET" diff --json --sort growth "${both[@]}" >diff.json
	json_says '.change < 0 and ([.sites[].new_value] | add) > 0' <diff.json
	"$LIMPET" diff --sort growth "${both[@]}" >text
	grep -q '^The new one grew, too: by 157.9 KiB less than the old one' text || fail "$(<text)" || return 1
	[[ $("$LIMPET" diff --sort live "${both[@]}") != *"grew, too"* ]]
	driven both.html diff.json
}

@test "a page that was not copied whole says so" {
	of_storm
	"$LIMPET" html "$trace" -o page.html
	echo '{}' >none.json
	local at
	at=$(grep -abo 'id="data">' page.html | cut -d: -f1)
	head -c $((at + 4000)) page.html >cut.html
	# Others in the middle, and some that are missing.
	{ head -c $((at + 2000)) page.html && printf AAAAAAAA && tail -c +$((at + 2009)) page.html; } >broken.html
	{ head -c $((at + 2000)) page.html && tail -c +$((at + 2401)) page.html; } >short.html
	driven cut.html none.json --unread 'if none appear.*not copied whole' -- broken.html none.json --unread 'cannot be read: .*copied whole' -- \
		short.html none.json --unread 'cannot be read: .*copied whole'
}

@test "hostile names do nothing" {
	local name='</script><img src=x onerror=window.owned=1>'
	hostile_program "$name" '<script>window.owned=1'
	"$LIMPET" run -q --on-overload wait -o evil.limpet -- './<script>window.owned=1'
	trace=evil.limpet
	report
	"$LIMPET" html evil.limpet
	# In the page they are letters of base64.
	grep -qx '<script type="text/plain" id="data">[A-Za-z0-9+/=]*</script>' evil.html
	within 60 "$LIMPET" run -q --on-overload wait -o plain.limpet -- "$TARGETS/storm" --threads 1 <<<quit >said
	"$LIMPET" diff --html --sort allocated plain.limpet evil.limpet -o both.html
	"$LIMPET" diff --json --sort allocated plain.limpet evil.limpet >diff.json
	driven evil.html report.json --hostile "$name" -- both.html diff.json --hostile "$name"
}

# A program that keeps `$1` blocks of storm_leak's, and whatever the other commands say.
kept_by() {
	local name=$1
	shift
	printf '%s\n' "$@" quit >commands
	within 60 "$LIMPET" run -q --on-overload wait -o "$name" -- "$TARGETS/storm" --threads 1 <commands >said || fail "limpet run"
}

@test "two captures as a page: what the diff says, in colours, words and tables; mouse and keys" {
	kept_by old.limpet "leak 100" "run 10"
	kept_by new.limpet "leak 300" "run 30" hold
	run --separate-stderr "$LIMPET" diff --html --sort live old.limpet new.limpet
	[[ $status == 0 && $output == new.diff.html && $(stat -c %a new.diff.html) == 600 ]]
	"$LIMPET" diff --json --sort live old.limpet new.limpet >diff.json
	# The other way round: blue instead of orange.
	"$LIMPET" diff --html --sort live new.limpet old.limpet -o back.html
	"$LIMPET" diff --json --sort live new.limpet old.limpet >back.json
	driven new.diff.html diff.json -- back.html back.json
	# Never over another one; whole or not there.
	refused 1 "File exists" "$LIMPET" diff --html old.limpet new.limpet
	"$LIMPET" diff --html -f old.limpet new.limpet@-1s
	[[ $("$LIMPET" diff --html -o - old.limpet new.limpet | tail -n 1) == "</html>" ]]
	failed_bare "cannot write" "$LIMPET" diff --html -f -o /dev/full old.limpet new.limpet
	refused 2 "cannot be used together" "$LIMPET" diff --html --json old.limpet new.limpet
	refused 2 "only with --html" "$LIMPET" diff -o x old.limpet new.limpet
	[[ ! -e x ]]
}

@test "the page is never written over another, and is whole or not there" {
	trace=$root/test/traces/version-1/storm.trace
	echo mine >page.html
	run --separate-stderr "$LIMPET" html "$trace" -o page.html
	[[ $status == 1 && $stderr == *"File exists"*"hint: "* && $(<page.html) == mine ]]
	"$LIMPET" html -f "$trace" -o page.html
	grep -q '^</html>' page.html
	[[ $("$LIMPET" html "$trace" -o - | tail -n 1) == "</html>" ]]
	run --separate-stderr "$LIMPET" html "$trace" -o /dev/full -f
	[[ $status == 1 && $stderr == *"/dev/full"* && -c /dev/full ]]
	run "$LIMPET" html nothing.limpet
	[[ $status == 1 && ! -e nothing.html ]]
	run "$LIMPET" html
	[[ $status == 2 ]]
}

# An opener that stays until it is told to go, and says what it got: a path, and neither our descriptors nor our session.
fake_opener() {
	mkdir -p "$(dirname "$1")"
	cat >"$1" <<-'EOF'
		#!/bin/bash
		# All but its own script are nothing.
		find /proc/$$/fd -type l -printf '%l\n' >"$OPENED.all"
		# Open before it is told: what is written while nobody has it open is lost.
		exec 9<>"$GATE"
		printf '%s\n' "$0" "$@" "others: $(grep -vxF -e "$0" -e /dev/null "$OPENED.all")" "leads: $(($(ps -o sid= -p $$) == $$))" >"$OPENED.part"
		mv "$OPENED.part" "$OPENED"
		read -t 120 -r <&9
		rm -f "$OPENED"
	EOF
	chmod +x "$1"
}
opened_by() {
	local said
	wait_until 30 test -e opened
	said=$(<opened)
	# It goes before anything can fail.
	echo 1<>gate
	wait_until 30 test ! -e opened
	same "$1" "$said" "$(printf '%s\n' "$@" "others: " "leads: 1")"
}

@test "--open starts a browser without waiting for it, and says where the page is if there is none" {
	export OPENED=$work/opened GATE=$work/gate
	local page="$work/a page.html" opener=$work/bin/xdg-open
	unset DISPLAY WAYLAND_DISPLAY BROWSER
	mkfifo gate
	fake_opener "$opener"
	cp "$root/test/traces/version-1/cpp.trace" "a page.limpet"
	# No display.
	within 60 "$LIMPET" html --open "a page.limpet" >say 2>err
	same "path" "$(<say)" "a page.html"
	grep -q 'warning: the page is not opened: there is no display' err
	grep -qF "scp $(hostname):$page ." err
	[[ -s $page ]]
	# A display, but nothing to open it with: no other xdg-open is to be found.
	within 60 env PATH=/nowhere DISPLAY=:0 "$LIMPET" html -f --open "a page.limpet" >say 2>err
	grep -q 'there is no xdg-open' err
	# It gets the whole path, and keeps nobody waiting.
	PATH=$work/bin:$PATH WAYLAND_DISPLAY=wayland-0 within 60 "$LIMPET" html -f --open "a page.limpet" >say 2>err
	same "path" "$(<say)" "a page.html"
	opened_by "$opener" "$page"
	# BROWSER needs no display; the first that is there, with its options.
	fake_opener "$work/other/mine"
	BROWSER="nosuch:$work/other/mine --new:xdg-open" within 60 "$LIMPET" html -f --open "a page.limpet" >say 2>err
	opened_by "$work/other/mine" --new "$page"
	refused 2 "not with -o -" "$LIMPET" html --open -o - "a page.limpet"
	# A comparison, too.
	local both=("a page.limpet" "a page.limpet")
	BROWSER=$work/other/mine within 60 "$LIMPET" diff --html --open "${both[@]}" >say 2>err
	same "path" "$(<say)" "a page.diff.html"
	opened_by "$work/other/mine" "$work/a page.diff.html"
	refused 2 "not with -o -" "$LIMPET" diff --html --open -o - "${both[@]}"
	refused 2 "only with --html" "$LIMPET" diff --open "${both[@]}"
}

@test "a stack that allocated by a library's function names it, as the report does" {
	local name pages=()
	for name in version-1/rust version-3/addresses; do
		trace=$root/test/traces/$name.trace name=${name#*/}
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
	for trace in "$root"/test/traces/version-*/*.trace; do
		name=$(basename "$trace" .trace)
		within 60 "$LIMPET" html "$trace" -o "$name.html" >/dev/null 2>html.err || fail "$name: $(<html.err)" || return 1
		within 60 "$LIMPET" html --quick "$trace" -o "$name.quick.html" >/dev/null || return 1
		figures "$name.quick.html" | json_says '.threads == null and (.kept.lives | not)' ||
			fail "$name: --quick has threads" || return 1
		same "lives of $name" "$(figures "$name.quick.html" lives)" null || return 1
	done
	# Sums alone have no events; samples are read.
	figures compact.html | json_says '.threads == null and (.kept.lives | not)'
	for name in sampled storm; do
		figures "$name.html" | json_says '(.threads | length > 0) and .kept.lives' || fail "$name" || return 1
		figures "$name.html" lives | json_says 'length > 0' || fail "$name" || return 1
	done
}

# How long it takes: test/torture/html_limits.bats.
@test "a graph of 100,000 frames: what can be seen is drawn, once for each key" {
	"$LIMPET" html "$root/test/traces/version-1/storm.trace" -o page.html
	"$root/test/html/large" page.html 100000 large.html large.json
	driven large.html large.json --large
}

@test "a page of 120,000 stacks can be filtered, and draws a bounded part of them" {
	"$LIMPET" html "$root/test/traces/version-1/storm.trace" -o page.html
	"$root/test/html/made" page.html 120000 many.html many.json
	driven many.html many.json --many
}

@test "a page of names and stacks that are out of the ordinary" {
	"$LIMPET" html "$root/test/traces/version-1/storm.trace" -o page.html
	"$root/test/html/made" page.html 300 made.html made.json
	"$root/test/html/figures" made.html |
		jq -c '.kept.survivors = true | .sites |= map(.s = .b | .sb = ([.ab, .fb] | transpose | map(.[0] - .[1])))' |
		"$root/test/html/figures" made.html --put aged.html
	# The largest of the known stacks are two instances of a template.
	"$root/test/html/figures" made.html | jq -c '.strings[0] = "box::Box<int>::run(int)" | .strings[1] = "box::Box<char>::run(int)" |
		.threads[].name = "worker" | .sites[2].th |= reverse' | "$root/test/html/figures" made.html --put alike.html
	driven made.html made.json --made -- aged.html made.json --aged -- alike.html made.json --alike
}

# test/html/shop.trace: of the program in docs/tasks.md, with the marks that are named there. It is kept, as what grows is
# said of more seconds than a test should take.
@test "the tasks of docs/tasks.md, by keys alone, by mouse alone and by touch alone" {
	trace=$root/test/html/shop.trace
	"$LIMPET" html "$trace" -o shop.html
	"$LIMPET" report "$trace" --born-between before,after --json >born.json
	json_says '.totals.live_allocations > 1000 and all(.sites[] | select(.live_bytes > 0); .stack[0].function == "session_new")' <born.json
	driven shop.html born.json --tasks
}

@test "axe-core finds nothing to improve in any view, light or dark" {
	local axe=$TARGETS/npm/node_modules/axe-core/axe.min.js traces=$root/test/traces
	[[ -f $axe ]] || skip "npm did not bring axe-core ($TARGETS/npm)"
	"$LIMPET" html "$traces/version-1/storm.trace" -o page.html
	"$LIMPET" diff --html "$traces/version-1/storm.trace" "$traces/version-1/rust.trace" -o both.html
	echo '{}' >none.json
	driven page.html none.json --axe "$axe" -- both.html none.json --axe "$axe"
}
