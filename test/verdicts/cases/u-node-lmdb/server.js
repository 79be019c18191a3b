// A catalog on LMDB: 100 MiB of pages in a mapped file, read at random.
const path = require('path');
const { createRequire } = require('module');

const work = process.argv[2];
const { open } = createRequire(path.join(work, 'x.js'))('lmdb');

const db = open({ path: path.join(work, 'catalog.mdb'), mapSize: 1 << 30, noSync: true, cache: false });
let reads = 0;

async function fill() {
  let last;
  for (let id = 0; id < 24000; id++) {
    last = db.put(id, 'x'.repeat(3900));
    if (id % 100 === 0)
      await last;
  }
  await last;
  for (let id = 0; id < 24000; id++)
    db.get(id);
}

function lookup(id) {
  reads++;
  return db.get(id).length;
}

function tick() {
  for (let i = 0; i < 20; i++)
    lookup((reads * 7919) % 24000);
}

fill().then(() => {
  console.log('ready');
  setInterval(tick, 20);
  setInterval(() => console.error(`${reads} reads, ${JSON.stringify(process.memoryUsage())}`), 2000);
});
