import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { attempt, includes } from './cases.mjs';
import { home, launch, options } from './launching.mjs';
import { run } from './programs.mjs';

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
