# Pages of `limpet html` and `limpet diff -o` in a browser, which is started for one file of tests and ended with it.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154

# One browser for all: it takes longer to start than most pages to be looked at.
serve_browser() {
	grep -q uPlot "$root/build/html/page.html" || fail "the page was built without plots, as npm did not bring uPlot: make clean" || return 1
	command -v chromium >/dev/null && command -v chromedriver >/dev/null || return 0
	HOME=$work start browser "$root/test/html/drive" --serve
	export LIMPET_TEST_BROWSER=$ready
}
setup_file() {
	BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR begin
	serve_browser
}
teardown_file() {
	[[ ! ${job_of[browser]:-} ]] || finish browser
	end
}
setup() { begin; }
teardown() { end; }

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
