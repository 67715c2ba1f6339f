import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { serve } from '../torture/daemon.ts';

/** What a daemon without work has loaded. It decides how much memory it takes, on any machine. */
const test = suite<{ home: Home }>('an idle daemon');

test.before.each((context) => {
  context.home = makeHome();
});
test.after.each(({ home }) => home.close());

/** Writes each file that a thread loads, and at a signal the modules of Node. */
const report = (loaded: string, builtin: string) => `
  import { appendFileSync, writeFileSync } from 'node:fs';
  import { registerHooks } from 'node:module';
  import { isMainThread } from 'node:worker_threads';
  registerHooks({
    load: (url, context, next) => {
      appendFileSync(${JSON.stringify(loaded)}, url + '\\n');
      return next(url, context);
    },
  });
  if (isMainThread)
    process.on('SIGUSR2', () =>
      writeFileSync(${JSON.stringify(builtin)}, JSON.stringify(process.moduleLoadList)));`;

test('has loaded three packages, and no client for HTTP', async ({ home }) => {
  const file = (name: string) => join(home.folder, name);
  writeFileSync(file('report.mjs'), report(file('loaded'), file('builtin')));
  const env = { NODE_OPTIONS: `--import ${file('report.mjs')}` };
  const life = await serve(home, { env });
  process.kill(life.pid, 'SIGUSR2');
  const builtin = await waitFor('the report', () => {
    try {
      return JSON.parse(readFileSync(file('builtin'), 'utf8')) as string[];
    } catch {
      return null;
    }
  });
  await life.stop();
  const { dependencies } = JSON.parse(readFileSync('package.json', 'utf8'));
  const loaded = readFileSync(file('loaded'), 'utf8');
  assert.equal(
    Object.keys(dependencies).filter((name) => loaded.includes(`/node_modules/${name}/`)),
    ['better-sqlite3', 'pino', 'ws'],
  );
  const heavy = ['internal/deps/undici/undici', 'http2', 'inspector', 'sqlite'];
  assert.equal(
    heavy.filter((name) => builtin.includes(`NativeModule ${name}`)),
    [],
  );
});

test.run();
