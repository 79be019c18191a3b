#!/usr/bin/env bats
# limpet demo: a newcomer's first minute.
# time-limit: 120

load helpers
setup() { begin; }
teardown() { end; }

# demo_with BINARY [COMMAND...]: runs it to its end, by COMMAND; sets `trace` and `server`.
demo_with() {
	local binary=$1
	shift
	rm -f -- *.limpet
	run --separate-stderr within 60 "$@" "$binary" demo
	[[ $status == 0 ]] || fail "status $status: $output $stderr" || return 1
	server=$(sed -n 's/^Process \([0-9]*\) is a small server.*/\1/p' <<<"$output")
	trace=demo.$server.limpet
	[[ ! -e /proc/$server ]] || fail "the server is still there" || return 1
}

# What it shows can be typed, and says the truth.
@test "demo: runs the commands that it shows, names the leak, and leaves its trace and no process" {
	demo_with "$LIMPET"
	same "commands" "$(grep '^\$ ' <<<"$output")" "$(printf '$ limpet %s\n' "attach $server -d 5s" "report -n 3 $trace")"
	same "files" "$(echo *.limpet)" "$trace"
	[[ $output == *"under open_session ("* && $stderr == *"its trace stays: $trace"* ]] || fail "$output $stderr"
	report
	expect '.verdict.culprit | startswith("open_session")'
	expect '.capture.complete and .capture.agent_unloaded'
	# The cache is no leak: it was full before the end.
	expect '[.sites[] | select(.stack[0].function == "cache_answer")] | length == 1 and .[0].live_bytes == 256 * 1024'
}

# As it is packaged: with nothing but its symbols, which name its allocator and its functions.
@test "demo: the packaged binary, as an ordinary user, without a library or a shell" {
	local as=()
	cp "$LIMPET_STATIC" limpet
	strip --strip-debug limpet
	if ((EUID == 0)); then
		chmod 755 "$BATS_RUN_TMPDIR" "$BATS_TEST_TMPDIR" limpet
		chmod 777 .
		mkdir -m 700 own
		chown 65534 own
		export LIMPET_RUNTIME_DIR=$PWD/own
		as=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps -all)
	fi
	demo_with "$PWD/limpet" "${as[@]}"
	[[ $output == *"under open_session (called by handle_request)"* ]] || fail "$output"
}

@test "demo: says why it cannot attach, and ends its server" {
	cp "$LIMPET_STATIC" limpet
	strip limpet
	run -3 --separate-stderr within 60 ./limpet demo
	[[ $stderr == *"cannot attach to 'demo' ("*"stripped"*$'\n'"hint: "* && $output != *"report"* ]] || fail "$output $stderr"
	server=$(sed -n 's/^Process \([0-9]*\) .*/\1/p' <<<"$output")
	[[ ! -e /proc/$server ]] || fail "the server is still there"
	same "files" "$(echo limpet*) $(echo *.limpet)" "limpet *.limpet"
}

@test "demo: Ctrl-C ends the capture early, and its death ends everything" {
	command -v script >/dev/null || skip "script(1) is not installed"
	mkfifo keys
	# What a shell starts in the background ignores Ctrl-C.
	TERM=dumb env --default-signal=INT script -qefc "'$LIMPET' demo" said <keys >/dev/null &
	exec 5>keys
	wait_until 30 grep -aq 'Ctrl-C here' said
	printf '\003' >&5
	wait_until 30 grep -aq 'its trace stays' said
	exec 5>&-
	grep -aq 'ended by interrupt' said || fail "$(<said)"

	"$LIMPET" demo >demo.out 2>demo.err &
	killed=$!
	wait_until 30 grep -q 'ends after' demo.err
	server=$(sed -n 's/^Process \([0-9]*\) .*/\1/p' demo.out)
	kill -KILL $killed
	wait_until 30 grep -q 'hint: limpet report' demo.err
	wait_until 30 ended "$server"
}
