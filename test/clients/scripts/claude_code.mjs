import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
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

// svc as a tool server of the program, whose model is the one that svc gives it.
const { SVC_PROGRAM, SVC_HOME_FOLDER } = process.env;
const sent = resolve('claude-home', 'sent.jsonl');
const SERVERS = {
  'svc mcp serve': {
    command: 'sh',
    args: ['-c', '"$1" "$2" mcp serve | tee "$3"', 'sh', process.execPath, SVC_PROGRAM, sent],
    env: { SVC_HOME: SVC_HOME_FOLDER },
  },
  'POST /mcp': {
    type: 'http',
    url: `${SVC_URL}/mcp`,
    headers: { Authorization: `Bearer ${SVC_TOKEN}` },
  },
};
for (const [name, svc] of Object.entries(SERVERS))
  await attempt(`${name}: the model calls ask`, async () => {
    const said = await claude(
      'use mcp__svc__ask with {"prompt":"say hello there"}',
      '--mcp-config',
      JSON.stringify({ mcpServers: { svc } }),
      '--strict-mcp-config',
      '--allowedTools',
      'mcp__svc__ask',
      '--max-turns',
      '3',
    );
    includes(said, 'The tool said');
    includes(said, 'You said: say hello there');
  });
await attempt('svc mcp serve: the program asked for progress', async () =>
  includes(readFileSync(sent, 'utf8'), 'notifications/progress'),
);
