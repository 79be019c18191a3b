// A search box whose addon splits the text.
const { tokenize } = require(process.argv[2]);

let tokens = 0;
let number = 0;

function search(id) {
  const text = Array.from({ length: 60 }, (_, word) => `word${word}x${id}`).join(' ');
  tokens += tokenize(text);
}

function tick() {
  for (let i = 0; i < 3; i++)
    search(number++);
}

function report() {
  return `${number} searches, ${tokens} tokens`;
}

console.log('ready');
setInterval(tick, 20);
setInterval(() => console.error(report()), 2000);
