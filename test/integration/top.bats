#!/usr/bin/env bats
# `limpet top` on a terminal, as a person would use it: in tmux, by keys, looked at as text.
# time-limit: 240

load helpers
setup() {
	begin
	in_tmux=(tmux -L "limpet-${BATS_TEST_NUMBER}-$$" -f /dev/null)
}
teardown() {
	TMUX_TMPDIR=$work "${in_tmux[@]}" kill-server 2>/dev/null || true
	end
}

# screen COLUMNS ROWS ARGUMENT...: limpet top in a terminal of that size, and its exit status after it.
screen() {
	local columns=$1 rows=$2
	shift 2
	TMUX_TMPDIR=$work "${in_tmux[@]}" new-session -d -x "$columns" -y "$rows" \
		"$LIMPET top $* 2>top.err; echo ended with \$?; exec cat" 3>&-
}
keys() {
	TMUX_TMPDIR=$work "${in_tmux[@]}" send-keys "$@"
}
shot() {
	TMUX_TMPDIR=$work "${in_tmux[@]}" capture-pane -p >"$work/shot.say"
}
# The screen has a line that matches.
seen() {
	shot && grep -qE -- "$1" "$work/shot.say"
}
unseen() {
	shot && ! grep -qE -- "$1" "$work/shot.say"
}
shows() {
	wait_until 20 seen "$1"
}
hides() {
	wait_until 20 unseen "$1"
}
resize() {
	TMUX_TMPDIR=$work "${in_tmux[@]}" resize-window -x "$1" -y "$2"
}
row() {
	shot && sed -n "$1p" "$work/shot.say"
}
row_has() {
	[[ $(row "$1") =~ $2 ]]
}

@test "a running capture: who grows is on top, by name; every key does what the help says" {
	start leak "$TARGETS/leak"
	attach "$pid"
	screen 80 24 "$pid"
	tell leak amble going
	tell leak 'leak 2000' leaked
	# 2000 sessions of 3000 bytes, and nothing else is kept.
	shows '5\.7 MiB .*Registry::remember'
	wait_until 20 row_has 1 "^limpet top +leak \($pid\) +capturing"
	wait_until 20 row_has 2 '^live +5\.[78] MiB .*█'
	wait_until 20 row_has 3 '^RSS +[0-9.]+ MiB.*█'
	wait_until 20 row_has 6 'Registry::remember < main'
	keys 1 Enter
	shows '^ *- .*Registry::remember|MiB .* - .*Registry::remember'
	shows '^ +main  leak\.cc'
	keys Enter
	hides '^ +main  leak\.cc'
	# By what is allocated, it is the churn.
	keys A
	shows 'by allocations'
	wait_until 20 row_has 6 '(churn_round|basic_string|std::)'
	keys T
	shows 'by temporary'
	keys L
	shows 'by live'
	keys 2
	wait_until 20 row_has 6 'Registry::remember'
	keys 3
	shows '^ .* main  leak\.cc'
	keys '*'
	shows 'Registry::remember +leak\.cc|Registry::remember'
	keys -
	hides 'Registry::remember'
	keys / remember Enter
	shows 'Registry::remember'
	keys / 'no such name' Enter
	shows "nothing matches 'no such name'"
	keys 4
	shows '/leak$'
	keys 5
	# What a thread holds is not known yet, and the list is not sorted by it.
	wait_until 20 row_has 5 'BYTES/s +ALLOCS/s +THREAD'
	row_has 4 '  by allocated, last '
	shows " (${pid}|[0-9]+)  leak$"
	for key in L G P; do
		keys "$key"
		shows '^what a thread holds is known when the capture has ended'
		row_has 4 '  by allocated, last '
		keys j
		hides '^what a thread holds'
	done
	keys T
	wait_until 20 row_has 5 'TEMPORARY +ALLOCS/s +THREAD'
	row_has 4 '  by temporary, last '
	# Only what there is, in turn.
	keys s
	shows '  by allocations, last '
	keys S
	shows '  by temporary, last '
	keys 1
	shows '  by temporary, last '
	keys L
	shows '  by live, last '
	keys 1 f Thrown_ROUND Enter
	shows "only stacks with 'Thrown_ROUND'"
	shows 'thrown_round'
	hides 'Registry::remember'
	keys f C-u Enter
	shows 'Registry::remember'
	keys w
	shows 'last 1m|by live, last [0-9]+s'
	keys w
	shows 'by live, all'
	keys z
	shows 'by live, all .*, full'
	"$LIMPET" mark "$pid" top-2 >mark.say
	keys m
	shows "^mark 'top-1' at [0-9.]+m?s"
	keys m
	shows "^mark 'top-3' at [0-9.]+m?s"
	keys '?'
	shows '^m +set a mark'
	shows '^e +open the source'
	shows '^q, Ctrl-C +quit; the capture goes on'
	keys x
	hides 'the capture goes on'
	keys q
	shows 'ended with 0'
	[[ ! -s top.err ]]
	capturing "$pid"
	stop "$pid"
	report
	expect '[.marks[].name] == ["top-2", "top-1", "top-3"]'
	screen 80 24 "$trace"
	shows 'Registry::remember'
	# As the report's verdict.
	first=$(jq -r '.verdict.sentences[0][:40]' report.json | sed 's/[][().*+?^${}|\\]/\\&/g; s/(anonymous namespace):://')
	wait_until 20 row_has 23 "^$first"
	keys m
	shows 'the capture has ended: marks are set while it runs'
	keys q
	finish leak
}

@test "resident memory is without limpet's own part, as in the report" {
	local said
	start leak "$TARGETS/leak"
	attach "$pid"
	tell leak 'leak 100' leaked
	wait_until 20 so_far '[.timeline[] | select(.rss_bytes > 0)] | last | .agent_bytes > 100000'
	# The last look is one with the agent.
	kill -KILL "$limpet_job"
	wait_until 20 ended "$limpet_job"
	said=$("$LIMPET" report "$trace" | sed -nE 's/^memory +RSS ([0-9.]+ [KM]iB), .*/\1/p')
	screen 80 24 "$trace"
	wait_until 20 row_has 3 "^RSS +$said" || fail "the report says $said"
	keys q
	finish leak
}

@test "what resident memory belongs to, as much as fits; where it is not recorded, nothing else is said" {
	local largest
	start leak "$TARGETS/leak"
	attach "$pid"
	tell leak 'leak 3000' leaked
	screen 200 24 "$pid"
	wait_until 20 row_has 2 '^live +8\.[67] MiB .* mmap 0 B +█'
	wait_until 20 row_has 3 '^RSS +1[0-9]\.[0-9] MiB; before: [a-z].* [0-9.]+ [KM]iB.*█'
	stop "$pid"
	finish leak
	keys q
	report
	largest=$(jq -r '.resident.parts[:2] | map(.text) | join("; ")' report.json | sed 's/[][().*+?^${}|\\]/\\&/g')
	screen_again "$trace"
	wait_until 20 row_has 3 "^RSS +[0-9.]+ MiB: ${largest%%;*}.*█"
	resize 200 20
	wait_until 20 row_has 3 "^RSS +[0-9.]+ MiB: $largest.*█"
	resize 40 12
	wait_until 20 row_has 12 '^\? help'
	wait_until 20 row_has 3 '^RSS +[0-9.]+ MiB$'
	wait_until 20 row_has 6 'remember'
	keys q
	screen_again "$root/test/traces/cpp.trace"
	wait_until 20 row_has 3 '^RSS +[0-9.]+ MiB  mmap [0-9.]+ [KM]?i?B .*█'
	keys q
	shows 'ended with 0'
}

@test "small and large terminals, resized while it runs" {
	start leak "$TARGETS/leak"
	attach "$pid"
	tell leak 'leak 100' leaked
	screen 80 24 "$pid"
	shows 'Registry::remember'
	[[ $(wc -l <shot.say) == 24 ]]
	wait_until 20 row_has 24 '^\? help'
	wait_until 20 row_has 5 '^ +LIVE SHARE +GROWTH/s +FUNCTION'
	resize 200 50
	wait_until 20 row_has 5 'LIVE SHARE +GROWTH/s +ALLOCS/s +BYTES/s +BLOCKS +TEMPORARY +FUNCTION'
	wait_until 20 row_has 50 '^\? help'
	resize 40 10
	wait_until 20 row_has 10 '^\? help'
	wait_until 20 row_has 5 '^ +LIVE +FUNCTION'
	shows 'remember'
	resize 10 3
	resize 80 24
	wait_until 20 row_has 24 '^\? help'
	wait_until 20 row_has 5 '^ +LIVE SHARE +GROWTH/s +FUNCTION'
	keys q
	shows 'ended with 0'
	stop "$pid"
	finish leak
}

@test "callers at 80 columns, shares, recursion as one row, what grows most" {
	start leak "$TARGETS/leak"
	attach "$pid"
	tell leak 'leak 96' leaked
	tell leak 'descend 38' descended
	tell leak 'descend 2' descended
	screen 80 24 "$pid"
	# 96 of 98 sessions of 3000 bytes, beside some bytes of the list of them.
	wait_until 20 row_has 6 '^ +28[0-9]\.[0-9] KiB +9[78] % .* \+ Registry::remember < main'
	shows '<1 % .* Registry::remember < Registry::descend x39 < main|  1 % .* Registry::remember < Registry::descend x39 < main'
	wait_until 20 row_has 22 '^Registry::remember \(called by main\)  leak\.cc:[0-9]+'
	keys w w
	shows 'by live, all'
	wait_until 20 row_has 23 '^growing most: \+2[0-9.]+ KiB Registry::remember \(called by main\)$'
	keys / descend Enter
	wait_until 20 row_has 22 '^Registry::remember \(called by Registry::descend x(39|3)\)  leak\.cc:[0-9]+'
	keys C-l Enter
	shows '^ +Registry::descend x(39|3)  leak\.cc'
	# The whole stack is there with all frames.
	keys z
	hides 'descend x'
	keys z
	shows 'descend x'
	keys 3 '*'
	shows '- Registry::descend x3 '
	shows '- Registry::descend x36 '
	keys n n n n n
	wait_until 20 row_has 22 '^Registry::descend x(3|36) \(called by'
	keys -
	hides 'descend'
	keys 2 '*'
	shows 'Registry::descend x36 '
	wait_until 20 row_has 22 '^Registry::remember \(called by main and others\)  leak\.cc:[0-9]+'
	# Moving up from what is unfolded below a run of calls finds their row.
	keys End Left
	wait_until 20 row_has 22 '^Registry::descend x3 \(called by Registry::descend x36 and others\)'
	keys 4
	wait_until 20 row_has 22 '^$'
	# A low terminal shows rows instead.
	resize 80 15
	wait_until 20 row_has 15 '^\? help'
	hides 'growing most'
	keys q
	shows 'ended with 0'
	stop "$pid"
	finish leak
}

@test "calls of two functions by each other are shown once, in each list" {
	start leak "$TARGETS/leak"
	attach "$pid"
	tell leak 'leak 5' leaked
	tell leak 'parse 20' parsed
	screen 120 24 "$pid"
	wait_until 20 row_has 7 '\+ Registry::remember < \(parse_item < parse_list\) x21 < main'
	keys Down Enter
	shows '- Registry::remember$'
	wait_until 20 row_has 8 '^ +parse_item  leak\.cc$'
	row_has 9 '^ +parse_list \(these 2 frames x21\)  leak\.cc$'
	row_has 10 '^ +main  leak\.cc$'
	wait_until 20 row_has 22 '^Registry::remember \(called by parse_item\)  leak\.cc:[0-9]+'
	keys Down
	wait_until 20 row_has 22 '^parse_item \(called by parse_list\)  leak\.cc:[0-9]+'
	keys Down
	wait_until 20 row_has 22 '^parse_list \(called by main\)  leak\.cc:[0-9]+'
	keys z
	hides 'these 2 frames'
	keys Home Down Enter
	wait_until 20 has_rows 6 'parse_list'
	run ! grep -q 'x21' shot.say
	keys Enter z
	shows 'x21'
	# In the trees, what is below has a row of its own, from which Left leads back.
	keys 3 '*'
	shows ' - parse_list  leak\.cc$'
	shows '   - parse_item \(these 2 frames x21\)  leak\.cc$'
	same "rows" "$(grep -c 'parse_' shot.say)" 2
	keys End
	wait_until 20 row_has 22 '^Registry::remember \(called by parse_item\)'
	keys Left
	wait_until 20 row_has 22 '^parse_item \(called by parse_list\)'
	keys 2 '*'
	shows ' - parse_item  leak\.cc$'
	shows '   - parse_list \(these 2 frames x21\)  leak\.cc$'
	same "rows" "$(grep -c 'parse_' shot.say)" 2
	keys End
	wait_until 20 row_has 22 '^main  leak'
	keys Left
	wait_until 20 row_has 22 '^parse_list \(called by main\)'
	keys q
	shows 'ended with 0'
	stop "$pid"
	finish leak
}
has_rows() {
	shot && (($(grep -c "$2" shot.say) >= $1))
}

# bats test_tags=release
@test "the longest figures leave each row in its columns" {
	start leak "$TARGETS/leak"
	attach "$pid"
	# 1001.9 KiB and more, of which the list of sessions has some: ten characters, and a sign.
	tell leak 'leak 342' leaked
	screen 80 24 "$pid" --sort growth
	keys w w
	shows 'by growth, all'
	wait_until 20 row_has 6 '^\+10[01][0-9]\.[0-9] KiB 10[01][0-9]\.[0-9] KiB 100 % [+] Registry::remember'
	row_has 5 '^ {5}GROWTH {7}LIVE SHARE   FUNCTION'
	resize 60 20
	wait_until 20 row_has 20 '^\? help'
	wait_until 20 row_has 6 '^\+10[01][0-9]\.[0-9] KiB [+] Registry::remember'
	row_has 5 '^ {5}GROWTH   FUNCTION'
	keys q
	shows 'ended with 0'
	stop "$pid"
	finish leak
}

@test "h writes the page beside the trace, and top goes on meanwhile" {
	start leak "$TARGETS/leak"
	attach "$pid"
	tell leak 'leak 100' leaked
	screen 120 24 "$pid"
	shows 'Registry::remember'
	keys h
	shows "^wrote $work/.*\.html"
	[[ -s ${trace%.limpet}.html ]]
	# Its own page it writes again, another's it leaves alone.
	: >"${trace%.limpet}.html"
	keys x
	hides '^wrote'
	keys h
	shows '^wrote'
	[[ -s ${trace%.limpet}.html ]]
	keys q
	shows 'ended with 0'
	: >"${trace%.limpet}.html"
	screen_again "$pid"
	shows 'Registry::remember'
	keys h
	shows "^wrote $work/.*-2\.html"
	[[ ! -s ${trace%.limpet}.html && -s ${trace%.limpet}-2.html ]]
	keys q
	shows 'ended with 0'
	stop "$pid"
	finish leak
}

@test "e opens the source of the selected row in the user's editor, and the screen comes back" {
	local line source
	mkdir editors
	# They say what they were given, and end, with the status that is typed, when they are told.
	printf '%s\n' '#!/bin/sh' "printf '%s\\n' \"\$@\" >$work/arguments" 'stty -a >terminal.say' \
		'echo the editor is here' 'read -r status' 'exit "$status"' >editors/vim
	chmod +x editors/vim
	cp editors/vim editors/any
	export VISUAL="$work/editors/vim -n" EDITOR=false
	start leak "$TARGETS/leak"
	attach "$pid"
	tell leak 'leak 100' leaked
	screen 80 24 "$pid"
	wait_until 20 row_has 22 '^Registry::remember .*leak\.cc:[0-9]+$'
	line=$(row 22)
	line=${line##*:}
	keys e
	shows '^the editor is here'
	# The terminal is as for any program.
	grep -q ' icanon' terminal.say && grep -q ' echo ' terminal.say
	[[ $(sed -n 1p arguments) == -n && $(sed -n 2p arguments) == "+$line" ]]
	source=$(sed -n '3,$p' arguments)
	[[ $source == /*/test/targets/leak.cc && $(sed -n "${line}p" "$source") == *"new Session;"* ]]
	keys 0 Enter
	hides 'the editor is here'
	wait_until 20 row_has 1 '^limpet top'
	wait_until 20 row_has 24 '^\? help'
	# A caller, at the line of its call.
	keys Enter Down
	wait_until 20 row_has 22 '^main .*leak\.cc:[0-9]+$'
	line=$(row 22)
	# What the first one said is on the screen that is shown for the second.
	rm arguments
	keys e
	wait_until 20 test -s arguments
	[[ $(sed -n 2p arguments) == "+${line##*:}" && $(sed -n "${line##*:}p" "$source") == *remember* ]]
	keys 3 Enter
	shows "ended with status 3"
	keys 4 e
	shows '^only functions have a source'
	keys q
	shows 'ended with 0'
	stop "$pid"
	finish leak
	# Whose form is not known gets the file alone.
	unset VISUAL
	export EDITOR="$work/editors/any"
	screen_again "$trace"
	shows 'Registry::remember'
	rm arguments
	keys e
	wait_until 20 test -s arguments
	same "arguments" "$(<arguments)" "$source"
	keys 0 Enter
	wait_until 20 row_has 24 '^\? help'
	keys q
	cp editors/vim editors/vi
	unset EDITOR
	PATH=$work/editors:$PATH screen_again "$trace"
	shows 'Registry::remember'
	rm arguments
	keys e
	wait_until 20 test -s arguments
	same "arguments of vi" "$(tail -n 1 arguments)" "$source"
	keys 0 Enter
	wait_until 20 row_has 24 '^\? help'
	keys q
	export EDITOR=$work/editors/none
	screen_again "$trace"
	shows 'Registry::remember'
	keys e
	shows "^cannot run '.*': command not found \(set EDITOR\)"
	keys q
	# Traces of other machines.
	export EDITOR=true
	screen_again "$root/test/traces/rust.trace"
	shows 'churn::keep_forever'
	keys e
	shows "^cannot open 'test/targets/churn\.rs': No such file or directory"
	keys q
	screen_again "$root/test/traces/node.trace"
	shows 'BackingStore'
	keys e
	shows '^no source known for .*Allocate: no debug information +1/'
	keys q
	shows 'ended with 0'
}

@test "the mouse selects, unfolds, and moves; a click on a list's name shows it" {
	start leak "$TARGETS/leak"
	attach "$pid"
	tell leak 'leak 100' leaked
	tell leak 'descend 3' descended
	TMUX_TMPDIR=$work "${in_tmux[@]}" new-session -d -x 80 -y 24 \
		"TERM=xterm $LIMPET top $pid 2>top.err; echo ended with \$?; exec cat" 3>&-
	shows 'Registry::descend'
	wait_until 20 row_has 24 '1/[2-9]'
	mouse 0 40 7
	wait_until 20 row_has 24 '2/[2-9]'
	row_has 7 '\+ Registry::remember < Registry::descend'
	mouse 0 40 7
	shows '^ +Registry::descend x4  leak\.cc'
	mouse 65 40 7
	wait_until 20 row_has 24 '4/[2-9]'
	mouse 64 40 7
	wait_until 20 row_has 24 '1/[2-9]'
	mouse 0 13 4
	hides 'CALLERS'
	wait_until 20 row_has 6 'Registry::remember  leak\.cc'
	# Nothing is there.
	mouse 0 40 20
	mouse 0 40 2
	mouse 0 79 4
	keys q
	shows 'ended with 0'
	stop "$pid"
	finish leak
}
# mouse BUTTON COLUMN ROW: a press and its release, counted from 1, in the form that the terminal's description asks for. 64
# and 65 are the wheel.
mouse() {
	local bytes
	if infocmp -1 xterm | grep -q 'kmous=.E\[<'; then
		keys -l $'\e'"[<$1;$2;$3M"
		(($1 >= 64)) || keys -l $'\e'"[<$1;$2;$3m"
		return
	fi
	printf -v bytes '\\x%x' $(($1 + 32)) $(($2 + 32)) $(($3 + 32))
	printf -v bytes '%b' "$bytes"
	keys -l $'\e[M'"$bytes"
	(($1 >= 64)) || keys -l $'\e[M#'"${bytes:1}"
}

@test "paused it stands still; at the end it shows the finished trace, and the peak" {
	start leak "$TARGETS/leak"
	attach "$pid"
	tell leak 'leak 1000' leaked
	screen 80 24 "$pid"
	shows '^live +2\.9 MiB'
	keys p
	shows 'PAUSED'
	tell leak 'leak 1000' leaked
	wait_until 20 holds_live "$pid" 6000000
	# It is drawn anew twice, and has not gone on.
	keys '?'
	shows '^q, Ctrl-C +quit'
	keys x
	hides '^q, Ctrl-C +quit'
	shows 'PAUSED'
	row_has 2 '^live +2\.9 MiB'
	keys p
	shows '^live +5\.7 MiB'
	keys P
	shows 'known when the capture has ended'
	stop "$pid"
	shows 'ended by limpet stop'
	shows 'LIVE SHARE +AT PEAK'
	keys P
	wait_until 20 row_has 5 '^ +AT PEAK SHARE +LIVE'
	wait_until 20 row_has 6 '5\.7 MiB .*Registry::remember'
	keys 5
	wait_until 20 row_has 6 "5\.7 MiB .* $pid"
	keys q
	shows 'ended with 0'
	finish leak
	# The same from the file, also when the program is gone.
	screen_again "$trace"
	shows 'ended by limpet stop'
	shows '5\.7 MiB .*Registry::remember'
	keys C-c
	shows 'ended with 0'
}
holds_live() {
	"$LIMPET" status "$1" --json | json_says --argjson n "$2" '.captures[0].live_bytes >= $n'
}
screen_again() {
	TMUX_TMPDIR=$work "${in_tmux[@]}" kill-server 2>/dev/null || true
	wait_until 20 gone_server
	screen 80 24 "$@"
}
gone_server() {
	! TMUX_TMPDIR=$work "${in_tmux[@]}" has-session 2>/dev/null
}

@test "a program's name cuts no line off" {
	local name=$'b\001a\xffd'
	cp "$TARGETS/leak" "$name"
	start leak "./$name"
	attach "$pid"
	screen 80 24 "$pid"
	shows "^limpet top +b\?a\?d \($pid\) +capturing .*/s"
	tell leak 'leak 1000' leaked
	keys 4
	shows ' [0-9]+ %.* /[^ ]*/b\?a\?d$'
	keys 5
	shows " $pid  b\?a\?d\$"
	wait_until 20 row_has 24 '^\? help .* 1/1$'
	keys q
	shows 'ended with 0'
	stop "$pid"
	finish leak
}

@test "a signal ends it, and the terminal is as it was" {
	start leak "$TARGETS/leak"
	attach "$pid"
	TMUX_TMPDIR=$work "${in_tmux[@]}" new-session -d -x 80 -y 24 \
		"stty -a >before; sh -c 'echo \$\$ >top.pid; exec $LIMPET top $pid'; echo \$? >ended; stty -a >after; echo over; exec cat" 3>&-
	shows '^limpet top'
	kill "$(<top.pid)"
	shows 'over'
	same "status" "$(<ended)" 0
	diff before after
	wait_until 60 capturing "$pid"
	stop "$pid"
	finish leak
}

# bats test_tags=check
@test "it never attaches: what is not captured is refused, with the command that would" {
	start leak "$TARGETS/leak"
	refused 1 "process $pid is not being captured" "$LIMPET" top "$pid"
	[[ ${stderr_lines[1]} == "hint: limpet attach $pid" ]]
	nothing_of_ours "$pid"
	refused 1 "there is no process" "$LIMPET" top 4194304
	attach "$pid"
	refused 1 "needs a terminal" "$LIMPET" top "$pid"
	stop "$pid"
	finish leak
	refused 2 "missing PID or FILE" "$LIMPET" top
	refused 2 "unexpected argument" "$LIMPET" top 1 2
	refused 2 "did you mean 'growth'" "$LIMPET" top --sort growht 1
}

# bats test_tags=release
@test "a terminal that is not known, and one without UTF-8" {
	start leak "$TARGETS/leak"
	attach "$pid"
	tell leak 'leak 100' leaked
	TMUX_TMPDIR=$work "${in_tmux[@]}" new-session -d -x 100 -y 24 \
		"TERM=no-such-terminal $LIMPET top $pid; echo ended with \$?; exec cat" 3>&-
	shows 'cannot draw on this terminal'
	shows 'ended with 1'
	TMUX_TMPDIR=$work "${in_tmux[@]}" respawn-pane -k \
		"TERM=dumb $LIMPET top $pid; echo ended with \$?; exec cat"
	shows "cannot draw on this terminal .TERM is 'dumb'"
	shows 'ended with 1'
	TMUX_TMPDIR=$work "${in_tmux[@]}" respawn-pane -k \
		"LC_ALL=C $LIMPET top $pid; echo ended with \$?; exec cat"
	shows 'Registry::remember'
	wait_until 20 row_has 2 '^live .*#'
	keys q
	shows 'ended with 0'
	stop "$pid"
	finish leak
}
