import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { finish, output } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';
import { bootReal, type Real } from './real.ts';

/** The list of conversations, and their titles, over the real runtime. */
const test = suite<{ real: Real }>('the list of conversations');

test.before.each(async (context) => {
  context.real = await bootReal();
});
test.after.each(({ real }) => real.close());

async function answered(real: Real, prompt: string, conversation?: string): Promise<string> {
  real.provider.script = [output('Yes.', 1), finish()];
  const { id } = await real.runtime.runs.start(
    conversation === undefined ? { prompt } : { prompt, conversation },
    'test',
  );
  await waitFor(`${prompt} is answered`, async () => (await real.runtime.runs.head(id)).finished);
  return id;
}
const list = async (real: Real, query = '') =>
  (await real.get(`/v1/conversations${query}`)).json.conversations;
const post = (real: Real, id: string, metadata: object) =>
  real.get(`/v1/conversations/${id}`, { method: 'POST', body: { metadata } });

test('each conversation is one row, at its newest run, with its turns', async ({ real }) => {
  assert.equal(await list(real), []);
  const one = await answered(real, 'First?');
  const other = await answered(real, 'Another?');
  const later = await answered(real, 'And then?', one);
  const rows = await list(real);
  assert.equal(
    rows.map((row: { id: string; prompt: string; turns: number; run: { id: string } }) => [
      row.id,
      row.prompt,
      row.turns,
      row.run.id,
    ]),
    [
      [one, 'First?', 2, later],
      [other, 'Another?', 1, other],
    ],
  );
  assert.equal([rows[0].title, rows[0].client, rows[0].run.state], [null, 'test', 'completed']);
  const { json } = await real.get('/v1/conversations?limit=1');
  assert.is(json.next, later);
  assert.is((await list(real, `?before=${json.next}`))[0].id, other);
  assert.equal((await list(real, `?conversation=${later}`)).length, 1);
});

test('the usage of a conversation is that of all its runs', async ({ real }) => {
  const one = await answered(real, 'First?');
  await answered(real, 'Another?');
  const later = await answered(real, 'And then?', one);
  const { usage } = (await real.get(`/v1/runs/${one}`)).json;
  const { json } = await real.get(`/v1/conversations/${later}/usage`);
  assert.equal([json.conversation, json.runs], [one, 2]);
  assert.ok(json.output_tokens >= (usage.output_tokens ?? 0));
  assert.is((await real.get('/v1/conversations/run_none/usage')).status, 404);
});

test('a title is an event of the conversation, which any client sees', async ({ real }) => {
  const one = await answered(real, 'First?');
  const later = await answered(real, 'And then?', one);
  const named = await post(real, one, { title: 'Firsts' });
  assert.equal([named.status, named.json.id, named.json.metadata], [200, one, { title: 'Firsts' }]);
  assert.is((await list(real))[0].title, 'Firsts');
  await answered(real, 'Once more?', one);
  assert.equal([(await list(real))[0].title, (await list(real))[0].turns], ['Firsts', 3]);
  await post(real, one, { title: 'Seconds' });
  await post(real, one, {});
  assert.is((await list(real))[0].title, null, 'no title is a title that was taken away');
  const events = await real.store.readStream(`conversation:${one}`, 1, 9);
  assert.equal(
    events.map(({ type }) => type),
    ['conversation.created', 'conversation.described', 'conversation.described'],
  );
  assert.is((await post(real, later, { title: 'x' })).json.error.code, 'conversation_unknown');
  assert.is(
    (await post(real, 'run_nowhere', { title: 'x' })).json.error.code,
    'conversation_unknown',
  );
  const long = await post(real, one, { title: 'x'.repeat(513) });
  assert.is(long.json.error.code, 'invalid_request');
});

test('the title of a conversation that a program made is in the list, too', async ({ real }) => {
  const made = await real.get('/v1/conversations', {
    method: 'POST',
    body: { metadata: { title: 'Made' } },
  });
  real.provider.script = [output('Yes.', 1), finish()];
  const said = await real.get('/v1/responses', {
    method: 'POST',
    body: { model: 'local/m', input: 'Hello?', conversation: made.json.id },
  });
  assert.is(said.status, 200);
  const [row] = await list(real);
  assert.equal([row.id, row.title, row.turns], [made.json.id, 'Made', 1]);
});

test('a log that keeps no texts keeps no titles', async () => {
  const history = { prompts: 'omit', outputs: 'keep', redact: [] } as const;
  const real = await bootReal({ settings: { history } as never });
  try {
    const one = await answered(real, 'Secret?');
    assert.is((await post(real, one, { title: 'x' })).json.error.code, 'content_not_kept');
  } finally {
    await real.close();
  }
});

test('a conversation that is removed leaves no title', async ({ real }) => {
  const one = await answered(real, 'First?');
  await post(real, one, { title: 'Firsts' });
  assert.is((await real.get(`/v1/runs/${one}`, { method: 'DELETE' })).status, 200);
  assert.equal(await real.store.readStream(`conversation:${one}`, 1, 9), []);
  assert.equal(await list(real), []);
});

test.run();
