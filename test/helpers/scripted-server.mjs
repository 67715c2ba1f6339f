import { spawn } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';

/**
 * A server with OpenAI's API that svc starts in tests. It answers with numbered words, and goes on
 * with a message of the assistant. Its arguments say how it fails.
 */

const flags = Object.fromEntries(
  process.argv.slice(2).map((word) => {
    const [name, value = 'true'] = word.replace(/^--/, '').split('=');
    return [name, value];
  }),
);
const key = process.env.LLAMA_API_KEY;
const WORDS = Array.from({ length: 12 }, (_, index) => `w${index} `);

if (flags.flood)
  for (let line = 0; line < Number(flags.flood); line += 1) console.log('x'.repeat(990), line);
if (flags.environment) console.log(`environment ${JSON.stringify(process.env)}`);
if (flags.says) console.error(flags.says.replaceAll('_', ' ').replaceAll(';', '\n'));
if (flags.exit) process.exit(Number(flags.exit));
if (flags.child) spawn('/bin/sleep', ['1000'], { stdio: 'inherit' });
let kept = flags.memory ? Buffer.alloc(Number(flags.memory) * 1024 * 1024, 1) : null;

/** True once for a file that is not there. */
function isFirst(file) {
  if (file === undefined || existsSync(file)) return false;
  writeFileSync(file, '');
  return true;
}

async function chat(response, { messages, max_tokens = WORDS.length }) {
  const last = messages.at(-1);
  const prompt = messages.findLast(({ role }) => role === 'user').content;
  const said = last.role === 'assistant' ? last.content : '';
  const from = said.split(' ').filter(Boolean).length;
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const send = (value) => response.write(`data: ${JSON.stringify(value)}\n\n`);
  const images = messages.flatMap(({ content }) =>
    typeof content === 'string'
      ? []
      : content.flatMap((part) => part.image_url?.url ?? part.input_audio?.data ?? []),
  );
  const words = images.length > 0 ? images : WORDS.slice(from, from + max_tokens);
  const isCut = prompt === 'crash' || (prompt === 'crash once' && isFirst(flags.once));
  for (const [index, word] of words.entries()) {
    send({ choices: [{ index: 0, delta: { content: word } }] });
    await new Promise((resolve) => setImmediate(resolve));
    if (isCut && index === 3) process.exit(7);
    if (prompt === 'grow') kept = Buffer.alloc(400 * 1024 * 1024, 1);
    if (prompt === 'hold' || prompt === 'grow') return;
  }
  const usage = { prompt_tokens: 5 + from, completion_tokens: words.length };
  send({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage });
  response.end('data: [DONE]\n\n');
}

async function bodyOf(request) {
  let text = '';
  for await (const part of request) text += part;
  return JSON.parse(text);
}

const server = createServer(async (request, response) => {
  const json = (status, value) => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(value));
  };
  if (flags.bare && /health|models/.test(request.url)) return json(404, {});
  if (request.url === '/health')
    return json(flags.unready ? 503 : 200, { status: kept?.length ?? 0 });
  if (request.headers.authorization !== `Bearer ${key}`)
    return json(401, { error: { message: 'no key' } });
  if (request.url === '/v1/models') return json(200, { data: [{ id: 'scripted' }] });
  const body = await bodyOf(request);
  if (request.url === '/tokenize')
    return json(200, {
      tokens: body.content
        .split(' ')
        .filter(Boolean)
        .map((_, index) => index),
    });
  if (request.url === '/v1/embeddings')
    return json(200, {
      data: body.input.map((_, index) => ({ index, embedding: [1, index] })),
      usage: { prompt_tokens: 3 },
    });
  if (request.url === '/v1/rerank')
    return json(200, {
      results: body.documents.map((_, index) => ({ index, relevance_score: -index })),
      usage: { total_tokens: 4 },
    });
  if (request.url === '/v1/images/generations')
    return json(200, { created: 1, data: [{ b64_json: body.model }] });
  return chat(response, body);
});
server.listen(Number(flags.port), '127.0.0.1');
