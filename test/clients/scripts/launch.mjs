import { mkdirSync } from 'node:fs';
import { delimiter, resolve } from 'node:path';
import { attempt, includes, SVC_MODEL_ID } from './cases.mjs';
import { run } from './programs.mjs';

const { SVC_PROGRAM, SVC_HOME_FOLDER, PATH } = process.env;
const work = resolve('launch-work');
for (const folder of [work, resolve('launch-home')]) mkdirSync(folder, { recursive: true });
const launch = (program, ...words) =>
  run(process.execPath, [SVC_PROGRAM, 'launch', program, '-m', SVC_MODEL_ID, '--', ...words], {
    env: {
      PATH: `${resolve('node_modules/.bin')}${delimiter}${PATH}`,
      SVC_HOME: SVC_HOME_FOLDER,
      HOME: resolve('launch-home'),
      DISABLE_AUTOUPDATER: '1',
    },
    cwd: work,
  });

await attempt('codex', async () =>
  includes(
    await launch('codex', 'exec', '--skip-git-repo-check', '--json', 'say hello there'),
    'You said',
  ),
);
await attempt('claude', async () =>
  includes(await launch('claude', '-p', 'say hello there', '--tools', ''), 'You said'),
);
await attempt('opencode', async () =>
  includes(await launch('opencode', 'run', 'say hello there'), 'You said'),
);
