import { gzipSync } from 'node:zlib';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { ProviderConfig } from '../../../src/config/providers/provider.ts';
import { outcome, remote } from '../../helpers/remote.ts';
import { type Scenario, Upstream } from '../../helpers/upstream.ts';

/** A refusal that names a field which svc chose: the other form is tried once, and remembered. */

async function boot(scenario: Scenario, config: Partial<ProviderConfig> = {}) {
  const upstream = await Upstream.start(scenario);
  const provider = remote(upstream.base_url, { config });
  const ask = (model = 'm') => outcome(provider, { request: { max_tokens: 7, model } });
  const bodies = () =>
    upstream.received.map(({ body }) => {
      const { model, max_tokens, max_completion_tokens, stream_options } = JSON.parse(body);
      return [model, max_tokens, max_completion_tokens, stream_options !== undefined];
    });
  const close = async () => {
    await provider.close();
    await upstream.stop();
  };
  return { ask, bodies, close };
}

const answer: Scenario = async (x) => {
  x.open();
  await x.answer('yes');
};
const refusal = (message: string, param: string, code: string) => ({
  error: { message, param, code, type: 'invalid_request_error' },
});
const USE_COMPLETION = refusal(
  "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
  'max_tokens',
  'unsupported_parameter',
);

test('max_completion_tokens is sent after a 400 that names it, and from then on', async () => {
  const { ask, bodies, close } = await boot((x) =>
    x.json.model === 'new' && 'max_tokens' in x.json ? x.reply(400, USE_COMPLETION) : answer(x),
  );
  assert.is((await ask('new')).text, 'yes');
  assert.is((await ask('new')).text, 'yes');
  assert.is((await ask('old')).text, 'yes');
  assert.equal(bodies(), [
    ['new', 7, undefined, true],
    ['new', undefined, 7, true],
    ['new', undefined, 7, true],
    ['old', 7, undefined, true],
  ]);
  await close();
});

test('a setting names the field, and a server that wants the old one gets it', async () => {
  const back = refusal('Unknown field max_completion_tokens, use max_tokens', '', 'x');
  const { ask, bodies, close } = await boot(
    (x) => ('max_tokens' in x.json ? answer(x) : x.reply(400, back)),
    { options: { max_tokens_field: 'max_completion_tokens' } },
  );
  assert.is((await ask()).text, 'yes');
  assert.equal(bodies(), [
    ['m', undefined, 7, true],
    ['m', 7, undefined, true],
  ]);
  await close();
});

test('a compressed refusal is read, and stream_options is left out where it is not known', async () => {
  const said = {
    detail: [{ msg: 'Extra inputs are not permitted', loc: ['body', 'stream_options'] }],
  };
  const { ask, bodies, close } = await boot(async (x) => {
    if (!('stream_options' in x.json)) {
      await answer(x);
      return;
    }
    x.response.writeHead(422, { 'content-type': 'application/json', 'content-encoding': 'gzip' });
    x.response.end(gzipSync(JSON.stringify(said)));
  });
  assert.is((await ask()).text, 'yes');
  assert.equal(bodies(), [
    ['m', 7, undefined, true],
    ['m', 7, undefined, false],
  ]);
  await close();
});

test('each change is tried once, and a wish of the client is never left out', async () => {
  const never = await boot((x) => x.reply(400, USE_COMPLETION));
  const { failure } = await never.ask();
  assert.is(failure?.code, 'provider_rejected');
  assert.is(failure?.param, 'max_tokens');
  assert.ok(never.bodies().length <= 3, 'it ends');
  await never.close();
  const temperature = refusal(
    "Unsupported value: 'temperature' does not support 0.2 with this model.",
    'temperature',
    'unsupported_value',
  );
  const refused = await boot((x) => x.reply(400, temperature));
  const seen = await refused.ask();
  assert.equal([seen.failure?.code, seen.failure?.param], ['provider_rejected', 'temperature']);
  assert.is(refused.bodies().length, 1);
  await refused.close();
});

test.run();
