#!/usr/bin/env bats
# Pages that live blocks keep. test/targets/sparse computes by itself, page by page, what the blocks of each of its
# functions hold, and limpet has to say the same.

load helpers
setup() { begin; }
teardown() { end; }

# scattered PAGES: sets `truth`.
scattered() {
	start sparse "$TARGETS/sparse"
	attach "$pid" --on-overload wait
	tell sparse "scatter $1" scattered
	truth=${answer#scattered }
}

view() {
	within 60 "$LIMPET" report "$trace" --json --view pages "$@" >report.json 2>view.err || fail "$(<view.err)"
}

@test "what the blocks of each function hold is what the program computed" {
	scattered 4096
	stop "$pid"
	view
	# Bytes of a page that is divided are rounded.
	expect 'def of($name): .sites[] | select(.stack[0] == $name);
		def near($a; $b): $a - $b <= $truth.pages and $b - $a <= $truth.pages;
		.unknown_because == null and .pages.page_bytes == 4096 and .pages.unexamined_blocks == 0 and
		(of("sparse_keep") | .blocks == $truth.keep_blocks and .live_bytes == $truth.keep_live and
			.resident_live_bytes == .live_bytes and near(.held_bytes; $truth.keep_held) and
			.alone_bytes == $truth.keep_alone) and
		(of("sparse_fill") | .live_bytes == $truth.fill_live and near(.held_bytes; $truth.fill_held) and
			.alone_bytes == $truth.fill_alone) and
		(of("sparse_touch") | .live_bytes == $truth.touch_live and .held_bytes == $truth.touch_held and
			.alone_bytes == $truth.touch_held) and
		of("sparse_keep").held_bytes + of("sparse_fill").held_bytes == 4096 * $truth.pages and
		.sites[0].stack[0] == "sparse_keep"' --argjson truth "$truth"
	expect '([.sites[].held_bytes] | add) == .pages.held_bytes and .pages.held_bytes <= .pages.rss_bytes'
	# What a filter hides keeps its part.
	jq '[.sites[] | select(.stack[0] != "sparse_fill") | .held_bytes] | add' report.json >others
	view --exclude sparse_fill
	expect '([.sites[].held_bytes] | add) == $others and .pages.hidden.held_bytes + $others == .pages.held_bytes' \
		--argjson others "$(<others)"
	run -0 "$LIMPET" report "$trace" --view pages
	[[ $output == "Pages that live blocks keep in sparse (pid $pid): "*" filled"*"before "*"they may keep these pages, too"*sparse_keep*sparse_fill* ]] ||
		fail "$output"
	report
	expect '[.findings[] | select(.kind == "sparse")] | length == 1 and .[0].culprit == "sparse_keep" and
		.[0].bytes > 16000000 and .[0].share > 0.1 and
		(.[0].text | test("^Blocks of sparse_keep .*, 400.1 KiB in all, keep 15.7 MiB of pages; "))'
	"$LIMPET" html "$trace" -o page.html
	"$root/test/html/figures" page.html | json_says 'any(.findings[]; .kind == "sparse")'
	finish sparse
}

@test "too little to matter is no finding, nor are pages that may be full of older blocks" {
	scattered 1500
	stop "$pid"
	report
	expect 'all(.findings[]; .kind != "sparse")'
	finish sparse
	# Into the holes of blocks of which nothing is recorded.
	start older "$TARGETS/sparse"
	tell older "scatter 4096" scattered
	attach "$pid" --on-overload wait
	tell older "refill 4096" refilled
	stop "$pid"
	view
	expect '.sites[0].stack[0] == "sparse_fill" and .pages.held_bytes > 16000000'
	report
	expect 'all(.findings[]; .kind != "sparse")'
	finish older
}

@test "where pages are not known, the view says why" {
	scattered 100
	run -0 "$LIMPET" report "$trace" --view pages
	[[ $output == *": not known"*"still running"* ]] || fail "$output"
	finish sparse
	attached
	run -0 "$LIMPET" report "$trace" --view pages
	[[ $output == *": not known"*"the program had ended before"* ]] || fail "$output"
	view
	expect '.pages == null and .sites == [] and (.unknown_because | test("ended"))'
	trace=$root/test/traces/storm.trace
	view
	expect '.pages == null and (.unknown_because | test("could not be looked at"))'
	trace=$root/test/traces/sampled.trace
	view
	expect '.pages == null and (.unknown_because | test("sampled"))'
	refused 2 "no --from and --to" "$LIMPET" report "$trace" --view pages --from 1ms
	refused 2 "cannot be filtered by threads" "$LIMPET" report "$trace" --view pages --include thread:1
}
