// Load for server.js: keeps some connections busy and measures by windows.
//
//   load.js PORT [CONNECTIONS]
//
// Each line on stdin ends the window so far: "window NAME" is answered by one line of JSON about it
// and starts the next. End of input ends the program; its status is 1 if any answer was wrong. Every body is
// inflated and its digest compared: a request counts only if its bytes are right.
'use strict';
const crypto = require('node:crypto');
const http = require('node:http');
const readline = require('node:readline');
const zlib = require('node:zlib');

const port = Number(process.argv[2]);
const connections = Number(process.argv[3] || 8);
const agent = new http.Agent({ keepAlive: true, maxSockets: connections });

let latencies = [];
let errors = 0;
let total = 0;
let totalErrors = 0;
let started = process.hrtime.bigint();
let ending = false;

function fail(words) {
  errors++;
  totalErrors++;
  if (totalErrors <= 5) console.error(`load: ${words}`);
}

function request() {
  if (ending) return;
  const sent = process.hrtime.bigint();
  let over = false;
  const next = (words) => {
    if (over) return;
    over = true;
    if (words) {
      fail(words);
      setTimeout(request, 10);
      return;
    }
    latencies.push(Number(process.hrtime.bigint() - sent) / 1e6);
    total++;
    request();
  };
  const call = http.get({ host: '127.0.0.1', port, path: '/', agent }, (response) => {
    const parts = [];
    response.on('data', (part) => parts.push(part));
    response.on('aborted', () => next('the connection was cut'));
    response.on('end', () => {
      let body;
      try {
        body = zlib.inflateSync(Buffer.concat(parts));
      } catch (error) {
        next(`a body that is no zlib stream: ${error.message}`);
        return;
      }
      const digest = crypto.createHash('sha256').update(body).digest('hex');
      if (response.statusCode !== 200) next(`status ${response.statusCode}`);
      else if (digest !== response.headers['x-digest']) next('a body with a wrong digest');
      else next(null);
    });
  });
  call.on('error', (error) => next(error.message));
}

function closeWindow(name) {
  const now = process.hrtime.bigint();
  const seconds = Number(now - started) / 1e9;
  const sorted = latencies.sort((a, b) => a - b);
  const at = (share) => (sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] : null);
  console.log(JSON.stringify({
    window: name,
    seconds: Number(seconds.toFixed(3)),
    requests: sorted.length,
    errors,
    requests_per_second: Math.round(sorted.length / seconds),
    p50_ms: at(0.5),
    p99_ms: at(0.99),
    p999_ms: at(0.999),
    max_ms: sorted.length ? sorted[sorted.length - 1] : null,
  }));
  latencies = [];
  errors = 0;
  started = process.hrtime.bigint();
}

for (let i = 0; i < connections; i++) request();
console.log(`ready ${process.pid}`);
const input = readline.createInterface({ input: process.stdin });
input.on('line', (line) => closeWindow(line.replace(/^window /, '')));
input.on('close', () => {
  ending = true;
  agent.destroy();
  process.exit(totalErrors || total === 0 ? 1 : 0);
});
