import { mkdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { attempt, includes, SVC_MODEL_ID, SVC_TOKEN, SVC_URL } from './cases.mjs';
import { run } from './programs.mjs';

const work = resolve('qwen-work');
mkdirSync(work, { recursive: true });
const qwen = (prompt, { key = SVC_TOKEN, model = SVC_MODEL_ID } = {}) =>
  run(
    resolve('node_modules/.bin/qwen'),
    ['--auth-type', 'openai', '--model', model, '--yolo', '-p', prompt],
    { env: { OPENAI_BASE_URL: `${SVC_URL}/v1`, OPENAI_API_KEY: key }, cwd: work },
  );
const refusal = (asked) => qwen('hello there', asked).catch(({ said }) => said);

// Its own words before the question name a tool, which the scripted model calls.
await attempt('a call of a tool and its result', async () =>
  includes(await qwen('say hello there'), 'The tool said'),
);
await attempt('an unknown model says so', async () =>
  includes(await refusal({ model: 'up/none' }), 'does not have the model'),
);
await attempt('a wrong key says so', async () =>
  includes(await refusal({ key: 'wrong' }), '401 The request has no token, or a wrong one.'),
);
