'use strict';
/* Compares the stacks in a trace, as limpet exports it to CSV, with what truth.js noted: compare.js TRUTH CSV. Writes how
 * many frames of its script have the right name and line, another one, and none, as JSON; and what is wrong. Of code whose
 * line is not known, the functions that it has inlined are not known either. */
const fs = require('fs');
const path = require('path');
const [truthFile, base] = process.argv.slice(2);
const SCRIPT = path.join(__dirname, 'truth.js');

// Fields with quotes have no line's end in these.
const rows = (table) => fs.readFileSync(`${base}.${table}.csv`, 'utf8').trim().split('\n').slice(1)
  .map((line) => line.match(/("([^"]|"")*"|[^,]*)(,|$)/g).map((field) => field.replace(/,$/, '').replace(/^"|"$/g, '')));

const frames = new Map(rows('frames').map(([frame, name, file, line, module]) =>
  [frame, { name: name.replace(/^get /, ''), file, line: Number(line), module }]));
const stacks = new Map();
for (const [stack, , frame] of rows('stacks'))
  stacks.set(stack, (stacks.get(stack) || []).concat(frames.get(frame)));
const stackOf = new Map(rows('events').filter((row) => row[1] === 'alloc').map((row) => [Number(row[4]), row[3]]));

const said = (stack) => stack.split('\n').filter((line) => line.includes(`${SCRIPT}:`) && !line.includes('at async '))
  .map((line) => {
    const [, name, row] = line.match(/at (?:(.*) \()?.*:(\d+):\d+\)?$/);
    return { name: (name || '').replace(/ \[as .*\]$/, '').replace(/^(new|get) /, '').split('.').pop(), line: Number(row) };
  });
const isSame = (frame, other) => (frame.line === other.line || !frame.line) &&
  (frame.name.split('.').pop() === other.name || ((other.name === '' || other.name === '<anonymous>') && frame.name !== ''));

const sums = { blocks: 0, frames: 0, right: 0, lineless: 0, wrong: 0, nameless: 0 };
for (const [bytes, text] of JSON.parse(fs.readFileSync(truthFile, 'utf8'))) {
  const stack = stacks.get(stackOf.get(bytes));
  if (!stack) continue;
  const truth = said(text), ours = stack.filter((frame) => frame.file === SCRIPT);
  // Code that the trace knows no name for may have other functions in it.
  const nameless = stack.some((frame) => !frame.module && (!frame.file || !frame.line));
  let at = 0;
  sums.blocks++;
  sums.frames += truth.length;
  for (const frame of ours) {
    const from = at;
    while (at < truth.length && !isSame(frame, truth[at])) at++;
    if (at < truth.length && (nameless || at === from)) {
      at++;
      sums[frame.line ? 'right' : 'lineless']++;
      continue;
    }
    at = from + 1;
    sums.wrong++;
    console.error(`${bytes}: ${frame.name} ${frame.line} in\n${text}`);
  }
  sums.nameless += Math.max(0, truth.length - ours.length);
}
console.log(JSON.stringify(sums));
