import { mkdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { attempt, includes, SVC_MODEL_ID, SVC_TOKEN, SVC_URL } from './cases.mjs';
import { run } from './programs.mjs';

const { SVC_PROGRAM, SVC_HOME_FOLDER } = process.env;
const home = resolve('inspector-home');
mkdirSync(home, { recursive: true });
const inspect = (target, ...words) =>
  run(
    process.execPath,
    [resolve('node_modules/.bin/mcp-inspector'), '--cli', ...target, '--format', 'json', ...words],
    { env: { HOME: home, NO_COLOR: '1' } },
  );
const SERVERS = {
  'svc mcp serve': [
    process.execPath,
    SVC_PROGRAM,
    'mcp',
    'serve',
    '-e',
    `SVC_HOME=${SVC_HOME_FOLDER}`,
  ],
  'POST /mcp': [`${SVC_URL}/mcp`, '--header', `Authorization: Bearer ${SVC_TOKEN}`],
};

for (const [name, target] of Object.entries(SERVERS)) {
  const call = (tool, ...args) =>
    inspect(target, '--method', 'tools/call', '--tool-name', tool, ...args);
  await attempt(`${name}: its tools, with schemas that every model takes`, async () => {
    const said = await inspect(target, '--method', 'tools/list', '--strict');
    for (const tool of ['ask', 'list_models', 'search_runs', 'status']) includes(said, `"${tool}"`);
  });
  await attempt(`${name}: an answer`, async () => {
    const args = ['--tool-arg', 'prompt=say hello there', `model=${SVC_MODEL_ID}`];
    includes(await call('ask', ...args), 'You said: say hello there');
  });
  await attempt(`${name}: the state of the daemon`, async () =>
    includes(await call('status'), 'state_path'),
  );
  await attempt(`${name}: a run that there is not`, async () => {
    const said = await call('show_run', '--tool-arg', 'id=run_none').catch(
      (error) => error.said ?? error.message,
    );
    includes(said, 'run_unknown');
  });
}
