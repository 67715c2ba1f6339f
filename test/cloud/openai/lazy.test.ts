import { registerHooks } from 'node:module';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { outcome, remote } from '../../helpers/remote.ts';
import { Upstream } from '../../helpers/upstream.ts';

const HEAVY = ['undici', '@ai-sdk/openai-compatible', 'zod', 'valibot'];
const loaded = new Set<string>();
registerHooks({
  resolve(specifier, context, next) {
    loaded.add(specifier);
    return next(specifier, context);
  },
});

test('an answer needs the HTTP client, which loads with the first request, and no other package', async () => {
  const heavy = () => HEAVY.filter((name) => loaded.has(name));
  const upstream = await Upstream.start((x) =>
    x.received.method === 'GET' ? x.reply(200, []) : x.answer('Hello'),
  );
  await remote(upstream.base_url).close();
  const provider = remote(upstream.base_url);
  assert.equal(heavy(), [], 'made and closed');
  await provider.probe(new AbortController().signal);
  assert.equal(heavy(), ['undici'], 'probed');
  assert.is((await outcome(provider)).text, 'Hello');
  assert.equal(heavy(), ['undici'], 'asked');
  await provider.close();
  await upstream.stop();
});

test.run();
