import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { attempt, includes, SVC_MODEL_ID, SVC_TOKEN, SVC_URL } from './cases.mjs';
import { run } from './programs.mjs';

const work = resolve('claude-work');
mkdirSync(work, { recursive: true });
writeFileSync(join(work, 'Paris'), 'the cat sat\n');
const claude = (...args) =>
  run(resolve('node_modules/.bin/claude'), ['-p', '--model', SVC_MODEL_ID, ...args], {
    env: {
      ANTHROPIC_BASE_URL: SVC_URL,
      ANTHROPIC_AUTH_TOKEN: SVC_TOKEN,
      ANTHROPIC_SMALL_FAST_MODEL: SVC_MODEL_ID,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      DISABLE_AUTOUPDATER: '1',
      CLAUDE_CONFIG_DIR: resolve('claude-home'),
    },
    cwd: work,
  });

await attempt('an answer', async () =>
  includes(await claude('say hello there', '--tools', ''), 'You said'),
);
await attempt('a tool that reads a file', async () => {
  const said = await claude(
    'use Read',
    '--tools',
    'Read',
    '--allowedTools',
    'Read',
    '--max-turns',
    '3',
  );
  includes(said, 'The tool said');
});
