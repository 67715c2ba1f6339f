import { mkdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { attempt, includes, SVC_MODEL_ID } from './cases.mjs';
import { run } from './programs.mjs';

const { SVC_PROGRAM, SVC_HOME_FOLDER } = process.env;
const [cwd, home] = [resolve('launch-work'), resolve('launch-home')];
for (const folder of [cwd, home]) mkdirSync(folder, { recursive: true });
const quiet = '--no-git --no-check-update --no-show-model-warnings --no-analytics --no-pretty';
const words = ['--message', 'say hello there', '--yes-always', ...quiet.split(' ')];

await attempt('aider', async () =>
  includes(
    await run(
      process.execPath,
      [SVC_PROGRAM, 'launch', 'aider', '-m', SVC_MODEL_ID, '--', ...words],
      { env: { SVC_HOME: SVC_HOME_FOLDER, HOME: home }, cwd },
    ),
    'You said',
  ),
);
