import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { silent } from '../../helpers/kernel.ts';
import { finish, output } from '../../helpers/scripted-provider.ts';
import { bootReal } from './real.ts';

/** Fields that svc does not know, in the APIs that other programs speak. */

const messages = [{ role: 'user', content: 'x' }];
const BODIES = {
  '/v1/chat/completions': { messages },
  '/v1/completions': { prompt: 'x' },
  '/v1/responses': { input: 'x' },
  '/v1/messages': { messages, max_tokens: 5 },
  '/api/chat': { messages, stream: false },
  '/api/generate': { prompt: 'x', stream: false },
} as const;

const boot = async (more: Parameters<typeof bootReal>[0] = {}) => {
  const logged: [object, string][] = [];
  const log = {
    ...silent,
    info: (fields: object, message: string) => void logged.push([fields, message]),
  };
  const real = await bootReal({ log, script: [output('yes'), finish()], ...more });
  const post = (path: string, body: object) =>
    real.get(path, { method: 'POST', body: { model: 'local/m', ...body } });
  return { real, post, logged };
};

test('a field of a neighbour is left out, and the answer and the log name it', async () => {
  const { real, post, logged } = await boot();
  for (const [path, body] of Object.entries(BODIES)) {
    const more = { chat_template_kwargs: { enable_thinking: false }, cache_prompt: true };
    const { status, headers } = await post(path, { ...body, ...more });
    assert.is(status, 200, path);
    assert.is(headers['x-svc-ignored'], 'chat_template_kwargs, cache_prompt', path);
  }
  assert.equal(
    logged.filter(([, message]) => message.startsWith('fields')).map(([fields]) => fields),
    Object.keys(BODIES).map((path) => ({ path, fields: ['chat_template_kwargs', 'cache_prompt'] })),
  );
  assert.is(real.provider.asked.length, Object.keys(BODIES).length);
  await real.close();
});

test('the log names a field once, and a path says where it stood', async () => {
  const { real, post, logged } = await boot();
  const turn = { role: 'user', content: 'x', audio_id: 1 };
  for (const list of [[turn], [{ role: 'user', content: 'a' }, turn]]) {
    const { headers } = await post('/v1/chat/completions', { messages: list });
    assert.is(headers['x-svc-ignored'], `messages.${list.length - 1}.audio_id`);
  }
  const lines = logged.filter(([, message]) => message.startsWith('fields'));
  assert.equal(lines[0]?.[0], { path: '/v1/chat/completions', fields: ['messages.0.audio_id'] });
  assert.is(lines.length, 1);
  await real.close();
});

test('names of a client cannot break the header, and their number has a bound', async () => {
  const { real, post } = await boot();
  const many = Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`f${index}`, 1]));
  const { headers } = await post('/v1/chat/completions', { messages, 'a\r\nX: 1': 1, ...many });
  const named = String(headers['x-svc-ignored']).split(', ');
  assert.is(named.length, 21);
  assert.is(named[0], 'a__X__1');
  assert.is(named.at(-1), '...');
  const body = JSON.parse(
    '{"__proto__":{"messages":[]},"messages":[{"role":"user","content":"x"}]}',
  );
  assert.is((await post('/v1/chat/completions', body)).status, 200);
  await real.close();
});

test('strict_requests refuses them, except where Ollama is spoken', async () => {
  const { real, post } = await boot({ strict_requests: true });
  for (const [path, body] of Object.entries(BODIES)) {
    const { status, json } = await post(path, { ...body, cache_prompt: true });
    assert.is(status, path.startsWith('/api/') ? 200 : 400, path);
    if (status === 400) assert.match(JSON.stringify(json), /cache_prompt/);
  }
  await real.close();
});

test("svc's own routes refuse them, and a field that svc cannot honour stays an error", async () => {
  const { real, post } = await boot();
  assert.is((await post('/v1/runs', { prompt: 'x', cache_prompt: true })).status, 400);
  const odds = await post('/v1/chat/completions', { messages, audio: { a: 1 }, foo: 1 });
  assert.equal([odds.status, odds.json.error.param], [400, 'audio']);
  assert.is(real.provider.asked.length, 0);
  await real.close();
});

/** What clients of other servers send by default, or as their documentation shows. */
const NEIGHBOURS: Record<string, readonly [path: keyof typeof BODIES, body: object][]> = {
  vllm: [
    [
      '/v1/chat/completions',
      {
        chat_template_kwargs: { enable_thinking: false },
        min_tokens: 1,
        top_k: 5,
        include_reasoning: true,
        add_generation_prompt: true,
        return_token_ids: true,
        guided_decoding_backend: 'auto',
        best_of: null,
        repetition_penalty: 1,
        skip_special_tokens: true,
      },
    ],
    ['/v1/responses', { top_k: 5, include_reasoning: true, cache_salt: 'a', priority: 0 }],
    ['/v1/completions', { min_tokens: 1, ignore_eos: false, add_special_tokens: true }],
  ],
  openrouter: [
    [
      '/v1/chat/completions',
      {
        provider: { order: ['a'] },
        transforms: ['middle-out'],
        route: 'fallback',
        models: ['a/b'],
        session_id: 's',
        usage: { include: true },
        plugins: [],
      },
    ],
  ],
  'llama-server': [
    [
      '/v1/chat/completions',
      {
        cache_prompt: true,
        samplers: 'edkypmxt',
        mirostat: 0,
        dynatemp_range: 0,
        dry_multiplier: 0,
        xtc_probability: 0,
        timings_per_token: true,
        typical_p: 1,
      },
    ],
  ],
  'LM Studio': [['/v1/chat/completions', { ttl: 300 }]],
};

test('the bodies of neighbours are answered, and each of their own fields is named', async () => {
  const { real, post } = await boot();
  const known = new Set(['top_k', 'best_of', 'dry_multiplier', 'typical_p', 'xtc_probability']);
  known.add('dynatemp_range');
  for (const [name, bodies] of Object.entries(NEIGHBOURS))
    for (const [path, more] of bodies) {
      const { status, headers, text } = await post(path, { ...BODIES[path], ...more });
      assert.is(status, 200, `${name}: ${text}`);
      const ignored = String(headers['x-svc-ignored']).split(', ');
      const own = Object.keys(more).filter((field) => !known.has(field));
      for (const field of own) assert.ok(ignored.includes(field), `${name}: ${field}`);
      if (path === '/v1/chat/completions' && 'top_k' in more)
        assert.is(real.provider.asked.at(-1)?.request.top_k, 5, 'svc has the very same');
    }
  await real.close();
});

test('an empty text and null count as not given where Ollama is spoken', async () => {
  const { real, post } = await boot();
  const blank = { system: '', template: '', format: '', suffix: '', keep_alive: '', think: null };
  const { status, headers } = await post('/api/generate', { prompt: 'x', stream: false, ...blank });
  assert.equal([status, headers['x-svc-ignored']], [200, undefined]);
  const turn = { role: 'user', content: 'x', tool_name: '', thinking: '', images: null };
  const tools = [{ type: 'function', function: { name: 'f', parameters: { title: '' } } }];
  const said = await post('/api/chat', { messages: [turn], tools, stream: false });
  assert.is(said.status, 200);
  assert.equal(
    real.provider.asked.at(-1)?.request.tools?.[0]?.parameters,
    { title: '' },
    'not of the user',
  );
  await real.close();
});

test.run();
