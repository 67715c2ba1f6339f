import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { attempt, includes, SVC_MODEL_ID, SVC_TOKEN, SVC_URL } from './cases.mjs';
import { run } from './programs.mjs';

const home = resolve('codex-home');
const work = resolve('codex-work');
for (const folder of [home, work]) mkdirSync(folder, { recursive: true });
writeFileSync(join(work, 'note.txt'), 'the cat sat\n');
writeFileSync(
  join(home, 'config.toml'),
  `model = "${SVC_MODEL_ID}"
model_provider = "svc"
[model_providers.svc]
name = "svc"
base_url = "${SVC_URL}/v1"
env_key = "SVC_TOKEN"
wire_api = "responses"
`,
);
const codex = (prompt) =>
  run(
    resolve('node_modules/.bin/codex'),
    [
      'exec',
      '--skip-git-repo-check',
      '--dangerously-bypass-approvals-and-sandbox',
      '--json',
      '-o',
      join(work, 'last.txt'),
      prompt,
    ],
    { env: { CODEX_HOME: home, SVC_TOKEN }, cwd: work },
  );

await attempt('an answer', async () => {
  await codex('say hello there');
  includes(readFileSync(join(work, 'last.txt'), 'utf8'), 'You said');
});
await attempt('a command of the shell, and what it printed', async () => {
  // The scripted model calls a tool that the prompt names, with arguments of its schema.
  await codex('use exec_command or shell_command');
  includes(readFileSync(join(work, 'last.txt'), 'utf8'), 'The tool said');
});
