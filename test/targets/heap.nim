## heap: a Nim program that holds what limpet sees against the counters of Nim's own allocator.
##
## Commands on stdin, which allocate nothing by themselves: "run N" does N rounds, "leak N" keeps N
## strings, "go" and "hold" start and stop another thread (with --threads:on), "count" answers the calls
## of the allocator since the start (with -d:nimTypeNames), "quit" ends with 0 if every sum was right.
import std/tables
when compileOption("threads"):
  import std/volatile

const
  words = 200
  keptBytes = 5000
  mostKept = 4096

type
  Node = ref object
    next: Node
    number: int

proc c_read(fd: cint, to: pointer, bytes: csize_t): int {.importc: "read", header: "<unistd.h>".}
proc c_getpid(): cint {.importc: "getpid", header: "<unistd.h>".}
proc c_printf(format: cstring) {.importc: "printf", header: "<stdio.h>", varargs.}
proc c_flush(file: pointer): cint {.importc: "fflush", header: "<stdio.h>", discardable.}

var
  kept: seq[string]
  running, over: bool

proc broken(what: cstring) {.noreturn.} =
  stderr.writeLine("broken: " & $what)
  quit(70)

proc churnRound(seed: int) {.noinline.} =
  var
    table = initTable[string, seq[int]]()
    list: Node
    sum = 0
  for i in 0 ..< words:
    table.mgetOrPut("key number " & $((i * 7919 + seed) mod 97), @[]).add(i)
    list = Node(next: list, number: i)
  for numbers in table.values:
    for number in numbers:
      sum += number
  while list != nil:
    sum -= list.number
    list = list.next
  if sum != 0:
    broken("a table or a list lost a word")

proc keepForever(number: int) {.noinline.} =
  var text = newString(keptBytes)
  text[0] = char(number and 127)
  kept.add(move text)

when compileOption("threads"):
  var other: Thread[int]

  proc churn(first: int) {.thread.} =
    var seed = first
    while not volatileLoad(addr over):
      if volatileLoad(addr running):
        churnRound(seed)
        inc seed

proc listen(line: var array[64, char]): bool =
  var used = 0
  while used < line.high:
    if c_read(0, addr line[used], 1) != 1:
      return false
    if line[used] == '\n':
      line[used] = '\0'
      return true
    inc used

proc number(line: array[64, char]): int =
  for letter in line:
    if letter in {'0' .. '9'}:
      result = result * 10 + ord(letter) - ord('0')

proc say(what: cstring) =
  c_printf("%s\n", what)
  c_flush(nil)

proc main() =
  var line: array[64, char]
  kept = newSeqOfCap[string](mostKept)
  when compileOption("threads"):
    createThread(other, churn, 1_000_003)
  c_printf("ready %d\n", c_getpid())
  c_flush(nil)
  while listen(line):
    case line[0]
    of 'r':
      for i in 0 ..< number(line):
        churnRound(i)
      say("ran")
    of 'l':
      for i in 0 ..< number(line):
        keepForever(i)
      say("leaked")
    of 'g':
      running = true
      say("going")
    of 'h':
      running = false
      say("held")
    of 'c':
      when defined(nimTypeNames):
        let (allocations, frees) = getMemCounters()
        c_printf("{\"allocations\":%ld,\"frees\":%ld}\n", allocations, frees)
        c_flush(nil)
    else:
      break
  over = true
  when compileOption("threads"):
    joinThread(other)
  for i, text in kept:
    if text.len != keptBytes or ord(text[0]) != (i and 127):
      broken("a kept string changed")

main()
