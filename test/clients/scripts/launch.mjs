import { mkdirSync, writeFileSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { attempt, includes, SVC_MODEL_ID } from './cases.mjs';
import { run } from './programs.mjs';

const { SVC_PROGRAM, SVC_HOME_FOLDER, PATH } = process.env;
const [cwd, home] = [resolve('launch-work'), resolve('launch-home')];
for (const folder of [cwd, home]) mkdirSync(folder, { recursive: true });
const options = {
  env: {
    PATH: `${resolve('node_modules/.bin')}${delimiter}${PATH}`,
    SVC_HOME: SVC_HOME_FOLDER,
    HOME: home,
    DISABLE_AUTOUPDATER: '1',
  },
  cwd,
};
const launch = (program, ...words) =>
  run(process.execPath, [SVC_PROGRAM, 'launch', program, '-m', SVC_MODEL_ID, ...words], options);

await attempt('codex', async () =>
  includes(
    await launch('codex', '--', 'exec', '--skip-git-repo-check', '--json', 'say hello there'),
    'You said',
  ),
);
await attempt('claude', async () =>
  includes(await launch('claude', '--', '-p', 'say hello there', '--tools', ''), 'You said'),
);
await attempt('opencode', async () =>
  includes(await launch('opencode', '--', 'run', 'say hello there'), 'You said'),
);
await attempt('continue', async () => {
  const said = await launch('continue', '--config');
  const file = join(home, 'continue.yaml');
  writeFileSync(file, said.slice(said.indexOf('name:')));
  includes(await run('cn', ['--config', file, '-p', 'say hello there'], options), 'You said');
});
