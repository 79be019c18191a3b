#!/usr/bin/env bats
# Files of heaptrack: what limpet makes of them is what heaptrack_print says, and what they do not say is unknown.
# time-limit: 300

load helpers
setup() { begin; }
teardown() { end; }

kept=$root/test/heaptrack

# as_printed FILE DIR: the report of the file is what heaptrack_print said, which is in DIR.
as_printed() {
	within 60 "$LIMPET" report --full --json "$1" >report.json 2>report.err || fail "limpet report $1: $(<report.err)" || return 1
	within 60 "$kept/compare" report.json "$2/print" "$2" >compare.say 2>&1 || fail "$1: $(<compare.say)"
}

# bats test_tags=check
@test "totals, peak, stacks and flame graphs are those of heaptrack_print, whatever the file is called" {
	local name
	for name in calls names; do
		as_printed "$kept/$name.zst" "$kept/$name" || return 1
		cp "$kept/$name.zst" any.limpet
		as_printed any.limpet "$kept/$name" || return 1
		zstd -dqc "$kept/$name.zst" >plain
		as_printed plain "$kept/$name" || return 1
		gzip -c <plain >compressed
		as_printed compressed "$kept/$name" || return 1
	done
}

# The same lines in older formats, in which strings have no length.
@test "formats 1 and 2; an attached program" {
	local format
	zstd -dqc "$kept/calls.zst" >new
	for format in 1 2; do
		sed -E "s/^s [0-9a-f]+ /s /; s/^v .*/v 10000 $format/" new >old || return 1
		as_printed old "$kept/calls" || return 1
		expect '.capture.mode == "run"'
	done
	sed -E 's/^s [0-9a-f]+ /s /; s/^v .*/v 10200/' new >old
	as_printed old "$kept/calls"
	sed '3a A' new >attached
	as_printed attached "$kept/calls"
	expect '.capture.mode == "attach"'
	sed 's/^v .*/v 10400 4/' new >newer
	failed_bare "in format 4: limpet reads formats 1 to 3" "$LIMPET" report newer
	sed 's/^v .*/v 10000/' new >older
	refused 1 "in format 0: limpet reads" "$LIMPET" report older
}

@test "what a file does not say is null, and said; windows, diff, page and exports are there" {
	local file=$kept/calls.zst format
	within 60 "$LIMPET" report --json "$file" >report.json
	expect '.capture.recorder == "heaptrack" and .target.pid == null and .capture.end == null and
		.capture.started_seconds == null and .capture.unseen_calls == null and .capture.dropped == null and
		.capture.complete == false and .capture.incomplete_reasons == ["recorder"] and
		(.totals | .reallocations == null and .mmaps == null and .foreign_frees == null and .mapped_bytes == null) and
		.totals.frees == 109 and all(.sites[]; .reallocations == null) and
		all(.timeline[]; .mapped_bytes == null and .threads == null)'
	within 200 "$root/test/schema/validate" "$root/cli/limpet.schema.json" report.json
	within 60 "$LIMPET" report "$file" >report.say
	grep -q '^target    calls, recorded by heaptrack$' report.say
	grep -q '^unknown   not in files of heaptrack: threads, mappings' report.say
	# Two calls of threads are in one order, and their times are known.
	within 60 "$LIMPET" report --json --view timeline "$file" >view.json
	within 200 "$root/test/schema/validate" "$root/cli/limpet.schema.json" view.json
	within 60 "$LIMPET" report --json --from 0 --to 30ms "$file" >window.json
	[[ $(jq '.totals.allocations < 132 and .totals.allocations > 0 and .window.to_seconds == 0.03' window.json) == true ]]
	within 60 "$LIMPET" diff --json "$file" "$file" >diff.json
	[[ $(jq 'all(.sites[]; .old == .new)' diff.json) == true ]]
	within 60 "$LIMPET" html "$file" -o page.html
	for format in folded massif callgrind pprof csv perfetto firefox heaptrack; do
		within 60 "$LIMPET" export "$file" --format "$format" -o "out.$format" >export.say 2>&1 || fail "$format" || return 1
	done
	# Neither threads nor ages are made up.
	[[ $(awk -F, '{print $3 "/" $6 "/" $9}' out.events.csv | sort -u) == $'//\nthread/age_ns/realloc' ]]
	# And back again.
	within 60 "$LIMPET" report --json out.heaptrack >back.json
	same "there and back" "$(jq -c '.totals' report.json)" "$(jq -c '.totals' back.json)"
}

@test "what needs threads, lifetimes, resident pages or the file itself is refused in a sentence" {
	local kind
	cp "$kept/calls.zst" file
	for kind in threads lifetimes; do
		refused 1 "does not say which thread" "$LIMPET" report file --view $kind || return 1
	done
	refused 1 "does not say which thread" "$LIMPET" report file --born-between 0,50ms
	refused 1 "does not say which thread" "$LIMPET" report file --include thread:1
	refused 1 "does not say what memory was used for" "$LIMPET" explain file
	refused 1 "symbols are not added" "$LIMPET" seal file
	cmp file "$kept/calls.zst"
	within 30 script -qec "$LIMPET top file" /dev/null >top.say </dev/null || true
	grep -q "is a file of heaptrack: it is not followed" top.say
}

@test "damaged files: what can be read is there, and it is said what is not" {
	zstd -dqc "$kept/calls.zst" >plain
	head -c 3000 plain >part
	within 60 "$LIMPET" report part >report.say
	grep -q "the file is cut short or damaged after line $(($(wc -l <part))): what came later is missing" report.say
	head -c 1000 "$kept/calls.zst" >cut.zst
	failed_bare "is compressed, and damaged or cut short" "$LIMPET" report cut.zst
	# A stack of a later one, a kind that is not there, a letter, a free of nothing.
	sed '/^# strings/i t 1 fff\n+ fff\nq\n- 0\n- 0' plain >wrong
	within 60 "$LIMPET" report --json wrong >report.json
	expect '.capture.damaged_lines == 5 and .totals.allocations == 132 and .totals.frees == 109 and
		(.capture.incomplete_reasons | index("damaged"))'
	within 60 "$LIMPET" report wrong >report.say
	grep -q "5 lines of the file left out, as they make no sense; the first is line $(grep -n '^t 1 fff' wrong | cut -d: -f1)" report.say
}

# Of another recording: a program of that name gives what it is asked for.
@test "raw files: by heaptrack_interpret where it is, as the file's owner; a sentence where it is not" {
	local directory=$work
	mkdir bin
	zstd -dqc "$kept/calls.zst" >calls
	# Another user has to get there.
	until [[ $directory == / || $directory == /tmp ]]; do
		chmod a+x "$directory"
		directory=$(dirname "$directory")
	done
	chmod 777 .
	printf '%s\n' '#!/bin/bash' "id -u >$work/uid" "cat >$work/input" "cat $work/calls" >bin/heaptrack_interpret
	chmod +x bin/heaptrack_interpret
	printf 'v 10400 3\nx 5 /a/b\nX b\nI 1000 100\nm 1 x 0 0 1000\nt 10 0\n+ 8 1 1000\n' >raw
	zstd -q raw -o raw.zst
	chmod 644 raw.zst
	chown nobody raw.zst
	PATH=$PWD/bin:$PATH as_printed raw.zst "$kept/calls"
	cmp raw input
	same "its user" "$(id -u nobody)" "$(<uid)"
	printf '%s\n' '#!/bin/bash' "head -c 10 >/dev/null" "head -n 50 $work/calls" 'exit 1' >bin/heaptrack_interpret
	PATH=$PWD/bin:$PATH within 60 "$LIMPET" report raw.zst >report.say
	grep -q "cut short or damaged after line 50" report.say
	refused 1 "there is no heaptrack_interpret on this machine" env PATH=/nowhere "$LIMPET" report raw.zst
}

# recorded NAME COMMAND...: by heaptrack, and compared; raw as well.
recorded_by_heaptrack() {
	local name=$1
	shift
	within 250 heaptrack -o "$name" "$@" >heaptrack.say 2>&1 || fail "heaptrack: $(<heaptrack.say)" || return 1
	"$kept/print" "$name.zst" "$name.said" || return 1
	as_printed "$name.zst" "$name.said"
}

# bats test_tags=release
@test "recorded now, of C, C++, Python and node, and raw" {
	command -v heaptrack >/dev/null || skip "heaptrack is not installed"
	cc -rdynamic -g -O1 -fno-builtin -pthread -o calls "$kept/calls.c"
	c++ -rdynamic -g -O1 -o names "$kept/names.cc"
	recorded_by_heaptrack c ./calls
	recorded_by_heaptrack cc ./names
	recorded_by_heaptrack python "$(python3 -c 'import sys; print(sys.executable)')" -c 'x = [str(i) * 9 for i in range(3000)]'
	recorded_by_heaptrack node node -e 'const a = []; for (let i = 0; i < 1000; i++) a.push(Buffer.alloc(1000));'
	within 60 heaptrack -r -o raw ./calls >heaptrack.say 2>&1
	within 60 "$LIMPET" report --json raw.raw.zst >report.json
	expect '.totals.allocations >= 130 and any(.sites[].stack[]; .function == "keep")'
}
