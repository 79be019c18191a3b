## Keeps what each peer has sent, in a table of sequences; nothing is dropped.
import std/[tables, strformat, monotimes, times, os]

type
  Peer = ref object
    name: string
    messages: seq[seq[byte]]

var
  peers: Table[int, Peer]
  kept = 0
  ended {.volatile.} = false

proc onTerm(number: cint) {.noconv.} = ended = true
proc signal(number: cint, handler: proc (number: cint) {.noconv.}) {.importc, header: "<signal.h>".}

proc decode(number: int): seq[byte] {.noinline.} =
  var text = ""
  for i in 0 ..< 20:
    text.add(&"{number}:{i};")
  result = newSeq[byte](900)
  for i in 0 ..< result.len:
    result[i] = byte(text[i mod text.len])

proc rememberMessage(number: int) {.noinline.} =
  let peer = peers.mgetOrPut(number mod 200, Peer(name: &"peer {number}"))
  peer.messages.add(decode(number))
  kept += 1

signal(15, onTerm)
var number = 0
let start = getMonoTime()
while not ended:
  rememberMessage(number)
  number += 1
  if number == 2000:
    echo "ready"
    flushFile(stdout)
  let wait = (start + initDuration(microseconds = number * 500) - getMonoTime()).inMicroseconds
  if wait > 1000:
    sleep(int(wait div 1000))
stderr.writeLine(&"{kept} messages of 900 bytes kept; occupied {getOccupiedMem()}, total {getTotalMem()}")
