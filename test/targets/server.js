// An HTTP server that compresses for a living, and forgets streams: now and then one stays
// open (LEAK_EVERY requests). Its memory is native: a V8 heap snapshot does not show it.
//
// Prints "ready PID PORT". GET / answers a body whose digest the client checks; GET /stats answers what
// the server did, as JSON; GET /quit ends it with 0.
'use strict';
const crypto = require('node:crypto');
const http = require('node:http');
const zlib = require('node:zlib');

const LEAK_EVERY = Number(process.env.LEAK_EVERY || 200);
const kept = [];
let requests = 0;
let errors = 0;

function rememberSession() {
  const stream = zlib.createDeflate({ level: 6 });
  stream.write('a session that nobody ends');
  kept.push(stream);
}

function answer(request, response) {
  requests++;
  if (LEAK_EVERY && requests % LEAK_EVERY === 0) rememberSession();
  const words = [];
  for (let i = 0; i < 50; i++) words.push(`item ${(requests * 31 + i) % 997}`);
  const body = JSON.stringify({ number: requests, words });
  zlib.deflate(body, (error, packed) => {
    if (error) {
      errors++;
      response.writeHead(500);
      response.end();
      return;
    }
    response.writeHead(200, {
      'content-type': 'application/octet-stream',
      'content-length': packed.length,
      'x-digest': crypto.createHash('sha256').update(body).digest('hex'),
    });
    response.end(packed);
  });
}

const server = http.createServer((request, response) => {
  if (request.url === '/stats') {
    response.end(JSON.stringify({ requests, errors, kept: kept.length, rss: process.memoryUsage().rss }));
  } else if (request.url === '/quit') {
    response.end('bye', () => process.exit(errors ? 70 : 0));
  } else {
    answer(request, response);
  }
});
server.keepAliveTimeout = 60000;
server.listen(Number(process.env.PORT || 0), '127.0.0.1', () => {
  console.log(`ready ${process.pid} ${server.address().port}`);
});
