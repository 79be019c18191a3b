#!/usr/bin/env bats
# The page of `limpet html`, used as a person would, in headless Chromium.
# time-limit: 300

load helpers
setup() { begin; }
teardown() { end; }

driven() {
	command -v chromium >/dev/null || skip "no chromium"
	command -v chromedriver >/dev/null || skip "no chromedriver"
	HOME=$work timeout 200 "$root/test/html/drive" "$@" >drive.say 2>drive.err || fail "$(<drive.err)" || return 1
	sed 's/^/# figures:   /' drive.say >&3
}

@test "a page says what the report says, whole and in part; mouse, keys, search, drag" {
	start storm "$TARGETS/storm" --threads 2 --rate 20000
	# Long enough for several periods of the trace.
	attach "$pid" -d 3s
	tell storm go going
	attached
	tell storm hold held
	finish storm
	good_capture
	run --separate-stderr "$LIMPET" html "$trace" -o page.html
	[[ $status == 0 && $output == page.html ]]
	[[ $(stat -c %a page.html) == 600 ]]
	driven page.html report.json
}

@test "hostile names do nothing" {
	local name='</script><img src=x onerror=window.owned=1>'
	cat >evil.c <<-'END'
		#include <stdlib.h>
		__attribute__((noinline)) void *evil_name(size_t bytes)
		{
			void *block = malloc(bytes);
			__asm__ volatile("" : : "r"(block) : "memory");
			return block;
		}
		int main(void)
		{
			for (int i = 0; i < 1000; i++)
				if (i % 3)
					free(evil_name(100));
				else
					evil_name(50);
			return 0;
		}
	END
	gcc -O1 -c evil.c
	objcopy --redefine-sym "evil_name=$name" evil.o
	gcc -o '<script>window.owned=1' evil.o
	"$LIMPET" run -q -o evil.limpet -- './<script>window.owned=1'
	trace=evil.limpet
	report
	"$LIMPET" html evil.limpet
	[[ $(grep -c '<img' evil.html) == 0 ]]
	driven evil.html report.json --hostile "$name"
}

@test "the page is never written over another, and is whole or not there" {
	start storm "$TARGETS/storm" --threads 1
	attach "$pid"
	tell storm "run 10" ran
	stop "$pid"
	finish storm
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

@test "a graph of 100,000 frames" {
	start storm "$TARGETS/storm" --threads 1
	attach "$pid"
	tell storm "run 10" ran
	stop "$pid"
	finish storm
	"$LIMPET" html "$trace" -o page.html
	"$root/test/html/large" page.html 100000 large.html large.json
	driven large.html large.json --speed
}
