// Counts the lines of documents by an addon.
const { parse, countLines, documents } = require(`${process.env.WORK}/documents.node`);

let number = 0;
let lines = 0;

function lintDocument(text) {
	const document = parse(text);
	return countLines(document);
}

setInterval(() => {
	const text = `line of document ${number}, with some more words in it\n`.repeat(60);
	lines += lintDocument(text);
	number++;
	if (number === 200)
		console.log('ready');
}, 10);

process.on('SIGTERM', () => {
	console.error(`${documents()} documents of ${lines / number} lines were never freed`);
	process.exit(0);
});
