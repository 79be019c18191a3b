// A TLS monitor that parses each peer's certificate and keeps the object in a list.
const crypto = require('crypto');
const fs = require('fs');

const pem = fs.readFileSync(process.argv[2]);
const seen = [];

function inspectPeer() {
  const certificate = new crypto.X509Certificate(pem);
  seen.push(certificate);
  return certificate;
}

function tick() {
  for (let i = 0; i < 6; i++)
    inspectPeer();
}

function report() {
  return `${seen.length} certificates, ${JSON.stringify(process.memoryUsage())}`;
}

console.log('ready');
setInterval(tick, 20);
setInterval(() => console.error(report()), 2000);
