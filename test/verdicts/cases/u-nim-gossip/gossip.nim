## A node of a gossip network, on Nim's own collector. Seen messages are remembered and never forgotten.
import std/[tables, os, strutils, times]

type
  Message = ref object
    id: int
    payload: string
    peers: seq[int]

  Node = object
    seen: Table[string, Message]
    peers: seq[int]

proc validate(payload: string): int =
  let upper = payload.toUpperAscii()
  for c in upper:
    result = (result * 31 + ord(c)) and 0xffffff

proc onGossip(node: var Node, id: int) =
  let message = Message(id: id, payload: repeat("p", 5000), peers: newSeq[int](20))
  discard validate(message.payload)
  node.seen["message-" & $id] = message

proc main() =
  var node = Node(peers: @[1, 2, 3])
  var id = 0
  for i in 0 ..< 400:
    node.onGossip(id)
    inc id
  echo "ready"
  flushFile(stdout)
  var next = epochTime()
  while true:
    for i in 0 ..< 6:
      node.onGossip(id)
      inc id
    if id mod 600 < 6:
      stderr.writeLine($node.seen.len & " messages, heap " & $getTotalMem() & ", occupied " & $getOccupiedMem())
    next += 0.02
    let rest = next - epochTime()
    if rest > 0:
      sleep(int(rest * 1000))

main()
