import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import {
  attempt,
  expect,
  includes,
  SVC_MODEL_ID as model,
  SVC_THINKING_ID,
  SVC_TOKEN,
  SVC_URL,
} from './cases.mjs';
import { run } from './programs.mjs';

// The program sends no header of ours, so the token is in its address.
const env = { OLLAMA_HOST: `${SVC_URL}/t/${SVC_TOKEN}` };
const program = resolve('ollama');
const ollama = (...args) => run(program, args, { env });

// The module proxy leaves out what its native parts include, so it is built from its checkout.
await run('go', ['build', '-o', program, '.'], { cwd: process.env.CHECKOUT, bound_ms: 840_000 });

await attempt('--version', async () => includes(await ollama('--version'), 'version'));
await attempt('list', async () => includes(await ollama('list'), model));
await attempt('show', async () => includes(await ollama('show', model), 'Capabilities'));
await attempt('run', async () =>
  includes(await ollama('run', model, 'hello there'), 'You said: hello there'),
);
await attempt('run --format json', async () =>
  includes(await ollama('run', model, '--format', 'json', 'x'), 'answer'),
);
await attempt('run --think', async () =>
  includes(await ollama('run', SVC_THINKING_ID, '--think', 'hello there'), 'think'),
);
await attempt('run --verbose', async () =>
  includes(await ollama('run', model, '--verbose', 'hello there'), 'eval count'),
);
await attempt('run of a local model', async () =>
  expect((await ollama('run', 'svc-mini', 'What is svc?')).length > 10, true),
);
await attempt('ps', async () => includes(await ollama('ps'), 'svc-mini'));
await attempt('stop', async () => void (await ollama('stop', 'svc-mini')));
await attempt('cp and rm', async () => {
  await ollama('cp', model, 'my-copy');
  includes(await ollama('run', 'my-copy', 'hello there'), 'hello there');
  await ollama('rm', 'my-copy');
});
await attempt('create from a Modelfile', async () => {
  writeFileSync('Modelfile', `FROM ${model}\n`);
  await ollama('create', 'mine', '-f', 'Modelfile');
  includes(await ollama('run', 'mine', 'hello there'), 'hello there');
});
await attempt('pull of a model that no hub has is an error', async () => {
  const error = await ollama('pull', 'no-such-model').then(
    () => null,
    (thrown) => thrown,
  );
  includes(error?.message, 'Error');
});
