// Asks a running Wellspring with fetch and prints the answer token by token.
//   node demos/fetch.mjs [URL] [QUESTION]
const [url = 'http://127.0.0.1:8080', prompt = 'How can a request be retried safely?'] = process.argv.slice(2);

async function post(path, body) {
  const response = await fetch(`${url}/api/generation/${path}`, { method: 'POST', body: JSON.stringify(body) });
  if (!response.ok) throw new Error(await response.text());
  return response;
}

// One delta a line; a piece from the network may hold several lines, or a part of one.
async function* deltas(response) {
  let rest = '';
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split('\n');
    rest = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}

const { sessionId } = await (await post('session', {})).json();
for await (const { type, text, metadata } of deltas(await post('stream', { sessionId, prompt }))) {
  if (type === 'token') process.stdout.write(text);
  if (type === 'done') console.log(`\n[${metadata.tokenCount} tokens, ${metadata.finishReason}]`);
  if (type === 'error') throw new Error(`${metadata.code}: ${metadata.message}`);
}
