import { resolve } from 'node:path';
import { attempt, SVC_MODEL_ID, SVC_TOKEN, SVC_URL } from './cases.mjs';
import { run } from './programs.mjs';

// The suite of the specification. Its own command prints one JSON object with a result for each test.
const args = [
  'bin/compliance-test.ts',
  '--base-url',
  `${SVC_URL}/v1`,
  '--api-key',
  SVC_TOKEN,
  '--model',
  SVC_MODEL_ID,
  '--json',
];
const said = await run(resolve('node_modules/.bin/bun'), args, { cwd: process.env.CHECKOUT }).catch(
  (error) => error.said ?? error.message,
);
const { results } = JSON.parse(said.slice(said.indexOf('{'), said.lastIndexOf('}') + 1));
for (const { id, status, errors = [] } of results)
  await attempt(id, async () => {
    if (status !== 'passed') throw new Error(errors.join('; ') || status);
  });
