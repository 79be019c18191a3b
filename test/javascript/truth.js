'use strict';
/* Allocates buffers of sizes that come once each, from functions of every kind, and notes of each where its own stack
 * says that it was: compare.js compares that with a trace. With --expose-gc it has
 * V8 collect and move objects all the time. It is told "run COUNT" and "quit", and says "ran". */
const fs = require('fs');
Error.stackTraceLimit = 100;
const FIRST_BYTES = 100001;
const truth = [];
let next = FIRST_BYTES, k = 0;

// Odd sizes, which no allocation of node's own has.
function leaf() { const bytes = next; next += 2; truth.push([bytes, new Error().stack]); return Buffer.allocUnsafeSlow(bytes); }
const arrow = () => leaf();
class Session {
  constructor(value) { this.value = value; }
  remember() {
    return arrow();
  }
  get held() {
    return leaf();
  }
  static make(value) {
    return new Session(value).remember();
  }
  #secret() { return leaf(); }
  reveal() {
    return this.#secret();
  }
}
function small(a, b) { return a + b; }
function mid(a, b) {
  const sum = small(a, b);
  if (typeof sum === 'string')
    return Session.make(sum);
  return Session.make(sum | 0);
}
function outer(a, b) {
  let sum = 0;
  for (let i = 0; i < 3; i++)
    sum += small(i, a);
  return mid(a, b);
}
function closures() {
  const inside = () => leaf();
  const around = function inner() {
    return inside();
  };
  return [1].map(around)[0];
}
async function later() {
  await null;
  leaf();
  await null;
  return closures();
}
function* steps() {
  yield leaf();
  yield closures();
}
function recurse(n) {
  if (n === 0)
    return leaf();
  return recurse(n - 1);
}
const object = { plain: function() { return leaf(); }, list: [() => leaf()] };

function once() {
  k++;
  outer(k, k * 2);
  // Other types than before: optimized code is left.
  if (k % 50 === 0)
    outer(`${k}`, 'b');
  new Session(k).held;
  new Session(k).reveal();
  closures();
  recurse(k % 9);
  object.plain();
  object.list[0]();
  for (const step of steps())
    small(step.length, 1);
  for (let i = 0; i < 200; i++)
    small(i, 1);
}
function run(end) {
  for (let i = 0; i < 5; i++)
    once();
  later();
  if (global.gc && k % 25 === 0) gc();
  if (truth.length < end) {
    setTimeout(run, 2, end);
    return;
  }
  fs.writeFileSync(process.argv[2], JSON.stringify(truth));
  setImmediate(() => console.log('ran'));
}

console.log(`ready ${process.pid}`);
require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
  if (line === 'quit') process.exit(0);
  run(truth.length + Number(line.split(' ')[1]));
});
