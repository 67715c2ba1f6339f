import { Agent, request } from 'node:http';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { routes } from '../../src/daemon/routes.ts';
import { scopedTokens } from '../helpers/scoped-tokens.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Life, serve } from '../torture/daemon.ts';

/**
 * Every route × every token that did not make an object × every form in which its id can be sent.
 * The objects are of another token and of the home. Nothing of them shows, nothing of them changes,
 * and nothing fails.
 */
interface World {
  home: Home;
  life: Life;
  http: string;
  tokens: Record<string, string>;
}
const test = suite<World>('foreign objects');

test.before(async (context) => {
  context.home = makeHome();
  const { home } = context;
  context.life = await serve(home);
  const { addresses } = await context.life.ask((client) => client.call('status'));
  context.http = addresses.http ?? '';
  // The one with admin may see and change all.
  const { admin: _, ...tokens } = await scopedTokens(home);
  context.tokens = { ...tokens, none: '' };
});
test.after(async ({ home, life }) => {
  agent.destroy();
  await life.stop(0);
  await home.close();
});

const agent = new Agent({ keepAlive: true, maxSockets: 8 });

interface Asked {
  method: string;
  path: string;
  token: string;
  body?: object | undefined;
  headers?: Record<string, string>;
}

function send(http: string, { method, path, token, body, headers = {} }: Asked) {
  const { hostname, port } = new URL(http);
  const sent = body === undefined ? undefined : JSON.stringify(body);
  return new Promise<{ status: number; text: string }>((resolve, reject) => {
    const req = request(
      {
        agent,
        hostname,
        port,
        method,
        path,
        headers: {
          ...(token === '' ? {} : { authorization: `Bearer ${token}` }),
          ...(sent === undefined
            ? {}
            : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(sent) }),
          ...headers,
        },
      },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (part: string) => {
          text += part;
          // A stream of one's own has no end.
          if (response.headers['content-type']?.includes('event-stream')) req.destroy();
        });
        response.once('close', () => resolve({ status: response.statusCode ?? 0, text }));
      },
    );
    req.once('error', reject);
    req.end(sent);
  });
}

const MARK = 'zebra-4711';

interface Made {
  run: string;
  response: string;
  conversation: string;
  item: string;
}

/** A response that has ended, and a conversation with an item. Each has the mark in its text. */
async function made(http: string, token: string): Promise<Made> {
  const ask = async (method: string, path: string, body?: object) =>
    JSON.parse((await send(http, { method, path, token, body })).text);
  const { id: response } = await ask('POST', '/v1/responses', {
    model: 'svc-mini',
    input: MARK,
    max_output_tokens: 8,
    background: true,
    metadata: { mark: MARK },
  });
  await waitFor('it ends', async () =>
    /completed|incomplete/.test((await ask('GET', `/v1/responses/${response}`)).status),
  );
  const items = [{ role: 'user', content: MARK }];
  const { id: conversation } = await ask('POST', '/v1/conversations', { items });
  const { data } = await ask('GET', `/v1/conversations/${conversation}/items`);
  return { run: response.replace('resp_', 'run_'), response, conversation, item: data[0].id };
}

/** All that the home sees of an object. */
async function whole(http: string, token: string, made: Made): Promise<string> {
  const { run, response, conversation, item } = made;
  const texts = [];
  for (const path of [
    `/v1/runs/${run}`,
    `/v1/runs/${run}/why`,
    `/v1/responses/${response}`,
    `/v1/conversations/${conversation}`,
    `/v1/conversations/${conversation}/items`,
    `/v1/conversations/${conversation}/items/${item}`,
  ]) {
    const { status, text } = await send(http, { method: 'GET', path, token });
    assert.is(status, 200, path);
    texts.push(text);
  }
  return texts.join('\n');
}

/** How an id can be written in a path. */
const FORMS: Readonly<Record<string, (id: string) => string>> = {
  plain: (id) => id,
  upper: (id) => id.toUpperCase(),
  lower: (id) => id.toLowerCase(),
  encoded: (id) => [...id].map((each) => `%${each.charCodeAt(0).toString(16)}`).join(''),
  'encoded in part': (id) => id.replace('_', '%5F'),
  'with a step': (id) => `x/../${id}`,
  'with an encoded step': (id) => `x%2f..%2f${id}`,
  'with a slash': (id) => `${id}/`,
  'with two slashes': (id) => `/${id}`,
  'with an end': (id) => `${id}%00`,
  'with a space': (id) => `${id}%20`,
  'with a point': (id) => `${id};a=b`,
  'as a run': (id) => id.replace(/^[a-z]+_/, 'run_'),
  'as a response': (id) => id.replace(/^[a-z]+_/, 'resp_'),
  'as a conversation': (id) => id.replace(/^[a-z]+_/, 'conv_'),
  'as a list': (id) => `${id},${id}`,
};

/** Fields that may name an object, in a query and in a body. */
const FIELDS = [
  'id',
  'run',
  'run_id',
  'before',
  'after',
  'from',
  'conversation',
  'conversation_id',
  'previous_response_id',
  'response_id',
  'starting_after',
  'parent',
  'include',
  'origin',
];

const ASKERS = ['other', 'approve', 'read', 'none'] as const;
type Asker = (typeof ASKERS)[number];

interface Input extends Omit<Asked, 'token'> {
  asker: Asker;
  what: string;
  /** The path names the object as it is: 404 for a token that may not see it. */
  isExact: boolean;
}

function* inputs(objects: readonly Made[]): Generator<Input> {
  for (const made of objects)
    for (const { method, path } of routes)
      for (const asker of ASKERS) yield* ofRoute(made, { method, path }, asker);
}

function* ofRoute(
  made: Made,
  { method, path }: { method: string; path: string },
  asker: Asker,
): Generator<Input> {
  // The body is whole, so that the object counts.
  const items = [{ role: 'user', content: 'more' }];
  const body = method === 'GET' ? undefined : path.endsWith('/items') ? { items } : {};
  const base = { method, asker };
  const ids = Object.values(made);
  const isOf = (prefix: string) => path.startsWith(prefix);
  const own = isOf('/v1/runs')
    ? made.run
    : isOf('/v1/responses')
      ? made.response
      : made.conversation;
  const filled = (id: string) =>
    path
      .replace(':item', made.item)
      .replace(/:(\w+)/, id)
      .replace('*', id);
  if (/[:*]/.test(path))
    for (const [form, write] of Object.entries(FORMS))
      for (const id of form === 'plain' ? ids : [own])
        yield {
          ...base,
          path: filled(write(id)),
          body,
          what: form,
          isExact: form === 'plain' && id === own && OBJECTS.test(path),
        };
  const place = filled(own);
  for (const field of FIELDS) {
    for (const id of [own, made.run]) {
      const more = new URLSearchParams({ words: MARK, [field]: id });
      yield { ...base, path: `${place}?${more}`, body, what: `query ${field}`, isExact: false };
      if (method === 'GET') continue;
      const asked = { model: 'svc-mini', input: 'hi', prompt: 'hi', max_tokens: 1, [field]: id };
      yield { ...base, path: place, body: asked, what: `body ${field}`, isExact: false };
    }
  }
}

/** Routes of one object. */
const OBJECTS = /^\/v1\/(runs|responses|conversations)\/:id/;

/** Refusals of a path that names the object as it is. Null: it is no refusal. */
const EXACT: Readonly<Record<Asker, (method: string) => readonly number[] | null>> = {
  none: () => [401],
  other: () => [404],
  approve: (method) => (method === 'GET' ? [404] : [403]),
  read: (method) => (method === 'GET' ? null : [403]),
};

/** They are not of one object, and would use the machine for long. */
const LEFT_OUT = /^\/(v1\/(logs|events)|metrics|openapi\.json)/;

test('no form of an id shows, changes or breaks what another principal has', async (context) => {
  const { http, tokens } = context;
  const objects = [await made(http, tokens.own ?? ''), await made(http, tokens.home ?? '')];
  const before = await Promise.all(objects.map((each) => whole(http, tokens.home ?? '', each)));
  const wrong: string[] = [];
  const left = inputs(objects);
  let count = 0;
  // Eight clients: as many as answers at one time, so that none waits for long.
  const client = async () => {
    for (const { asker, what, isExact, ...asked } of left) {
      if (LEFT_OUT.test(asked.path)) continue;
      count += 1;
      const { status, text } = await send(http, { ...asked, token: tokens[asker] ?? '' });
      const said = `${asked.method} ${asked.path} by ${asker} (${what}): ${status}`;
      if (status >= 500) wrong.push(said);
      if (asker !== 'read' && text.includes(MARK)) wrong.push(`${said} shows it`);
      const allowed = isExact ? EXACT[asker](asked.method) : null;
      if (allowed !== null && !allowed.includes(status)) wrong.push(`${said} is not refused`);
    }
  };
  await Promise.all(Array.from({ length: 8 }, client));
  assert.equal(wrong.slice(0, 20), []);
  assert.ok(count >= 10_000, String(count));
  const after = await Promise.all(objects.map((each) => whole(http, tokens.home ?? '', each)));
  assert.equal(after, before);
});

test.run();
