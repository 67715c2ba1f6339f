import { readFileSync, writeFileSync } from 'node:fs';
import OpenAI from 'openai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makePausedHome, type PausedHome, runtimeOf } from '../helpers/daemon.ts';
import { waitFor } from '../helpers/wait.ts';

const test = suite<{ home: PausedHome }>('who follows a run whose answer is not kept');

test.before.each(async (context) => {
  context.home = await makePausedHome({});
  const { paths } = context.home;
  writeFileSync(
    paths.config,
    JSON.stringify({
      ...JSON.parse(readFileSync(paths.config, 'utf8')),
      history: { outputs: 'omit' },
    }),
  );
});
test.after.each(({ home }) => home.close());

test('gets the whole text while the run is active, and later an error that it is not kept', async ({
  home,
}) => {
  const { server } = home;
  const run = home.spawn(['run', 'tell']);
  await waitFor('the provider is asked', () => server.streams.size === 1);
  for (const piece of ['Once ', 'upon ', 'a time']) server.say(piece);
  server.finish();
  assert.is((await run.ended).stdout, 'Once upon a time\n');
  const { runs } = JSON.parse((await home.svc(['runs', 'list', '--json'])).stdout);
  const late = await home.svc(['runs', 'attach', runs[0].id]);
  assert.equal([late.code, late.stdout], [10, '']);
  assert.match(late.stderr, 'The log does not keep the output');
});

test('an application gets the whole response, and later one without its text', async ({ home }) => {
  const { server } = home;
  await home.svc(['start']);
  const { http } = (await runtimeOf(home)).addresses;
  const apiKey = (await home.svc(['token'])).stdout.trim();
  const client = new OpenAI({ baseURL: `${http}/v1`, apiKey, maxRetries: 0 });
  const answered = client.responses.create({ input: 'tell', instructions: 'Be brief.' });
  await waitFor('the provider is asked', () => server.streams.size === 1);
  for (const piece of ['Once ', 'upon ', 'a time']) server.say(piece);
  server.finish();
  const whole = await answered;
  assert.is(whole.output_text, 'Once upon a time');
  assert.is(whole.instructions, 'Be brief.');
  const later = await client.responses.retrieve(whole.id);
  assert.equal([later.status, later.output_text], ['completed', '']);
  const stream = await client.responses
    .retrieve(whole.id, { stream: true })
    .then(async (events) => {
      for await (const _ of events);
    })
    .catch((error: { code?: string }) => error.code);
  assert.is(stream, 'content_not_kept');
  await client.responses.delete(whole.id);
});

test.run();
