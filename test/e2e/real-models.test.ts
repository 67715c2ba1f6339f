import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { testModel } from '../../tools/test-models/models.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import type { Life } from '../torture/daemon.ts';
import { withOneHome } from './local-life.ts';

/** A real model behind the APIs of a daemon. */
const test = suite<{ home: Home; life: Life }>('real models behind the APIs');

const minilm = testModel('minilm');
if (minilm === null) console.log('skipped: no models of npm run test-models');
const withVectors = minilm === null ? test.skip : test;

withOneHome(test, () => {
  const home = makeHome();
  mkdirSync(home.paths.models, { recursive: true, mode: 0o700 });
  if (minilm !== null) symlinkSync(minilm, join(home.paths.models, 'minilm.gguf'));
  return home;
});

withVectors('the vectors of all-MiniLM-L6-v2 are those of its model card', async ({ home }) => {
  const input = ['That is a happy person', 'That is a very happy person', 'Today is a sunny day'];
  const body = JSON.stringify({ model: 'minilm', input });
  const { code, stdout, stderr } = await home.svc(['api', 'POST', '/v1/embeddings', '-d', body]);
  assert.is(code, 0, stderr);
  const { data } = JSON.parse(stdout) as { data: { embedding: number[] }[] };
  const [asked, near, far] = data.map(({ embedding }) => embedding) as [
    number[],
    number[],
    number[],
  ];
  const cosine = (other: number[]) =>
    asked.reduce((sum, each, index) => sum + each * (other[index] ?? 0), 0);
  assert.is(asked.length, 384);
  assert.is(cosine(near).toFixed(3), '0.943');
  assert.is(cosine(far).toFixed(3), '0.257');
  const listed = await home.svc(['model', 'show', 'minilm']);
  assert.match(listed.stdout, /capabilities +embedding/);
});

test.run();
