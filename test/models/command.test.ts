import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { errors } from '../../src/errors.ts';
import { runtimeOf } from '../helpers/daemon.ts';
import { type ModelBench, modelSuite } from '../helpers/model-suite.ts';
import { makeModel } from '../helpers/pulls.ts';
import { waitFor } from '../helpers/wait.ts';

/** `svc model pull` as a process, with a daemon as a process. */

const FILE = 'tiny-Q4_K_M.gguf';
const MODEL = makeModel(2048);
const CUT = 700_000;
const TOKEN = 'hf_0123456789secret';

const ENV = { HF_TOKEN: TOKEN, SVC_LIMIT_PULL_PROGRESS_MS: '10' };
const test = modelSuite('a pull', { [FILE]: MODEL }, ENV);
const once = modelSuite(
  'a pull that is tried once',
  { [FILE]: MODEL },
  { ...ENV, SVC_LIMIT_PULL_FAILURES: '1' },
);

interface Bench extends ModelBench {
  partial: string;
  model: string;
}

/** A daemon whose hub has the model. */
function commands(name: string, body: (bench: Bench) => Promise<void>, on = test): void {
  on(name, async ({ bench }) => {
    const model = join(bench.paths.models, FILE);
    await body({ ...bench, model, partial: `${model}.partial` });
  });
}

const onDisk = (path: string, bytes: number) =>
  waitFor(`${bytes} bytes are on disk`, () => existsSync(path) && statSync(path).size === bytes, {
    within_ms: 30_000,
  });

commands(
  'stdout is the id of the model; progress is on stderr, a line at most for each tenth',
  async ({ svc, model, hub }) => {
    const { code, stdout, stderr } = await svc(['model', 'pull', 'hf:user/tiny']);
    assert.is(code, 0, stderr);
    assert.is(stdout, 'local/tiny-Q4_K_M\n');
    assert.not.ok(stderr.includes('\r') || stderr.includes('\u001b'));
    assert.ok(stderr.split('\n').length <= 22, stderr);
    assert.ok(readFileSync(model).equals(MODEL));
    const { models } = JSON.parse((await svc(['model', 'list', '--json'])).stdout) as {
      models: { id: string }[];
    };
    assert.ok(models.some(({ id }) => id === 'local/tiny-Q4_K_M'));
    const again = await svc(['model', 'pull', 'hf:user/tiny', '--json']);
    assert.is(again.code, 0);
    assert.is(again.stderr, '');
    const record = JSON.parse(again.stdout) as { id: string; path: string; size_bytes: number };
    assert.equal(
      [record.id, record.path, record.size_bytes],
      ['local/tiny-Q4_K_M', model, MODEL.length],
    );
    assert.is(hub.sent, MODEL.length);
  },
);

commands(
  'Ctrl-C ends the work, exits 130, and the next command goes on from there',
  async ({ spawn, svc, hub, partial, model }) => {
    hub.next.push({ hangAfter: CUT });
    const command = spawn(['model', 'pull', 'hf:user/tiny']);
    await onDisk(partial, CUT);
    command.child.kill('SIGINT');
    const { code, stdout, stderr } = await command.ended;
    assert.is(code, errors.pull_cancelled.exit);
    assert.is(code, 130);
    assert.is(stdout, '');
    assert.match(stderr, /is kept/);
    assert.is(hub.open.size, 0);
    assert.is(statSync(partial).size, CUT);
    const next = await svc(['model', 'pull', 'hf:user/tiny']);
    assert.is(next.code, 0);
    assert.match(next.stderr, /Resuming at/);
    assert.is(hub.sent, MODEL.length);
    assert.ok(readFileSync(model).equals(MODEL));
  },
);

commands(
  'a command that dies takes its pull with it; one of two that leaves does not',
  async ({ spawn, hub, partial }) => {
    hub.next.push({ hangAfter: CUT });
    const first = spawn(['model', 'pull', 'hf:user/tiny']);
    await onDisk(partial, CUT);
    const second = spawn(['model', 'pull', 'hf:user/tiny']);
    await waitFor('the second follows', () => second.stderr().includes('%'));
    first.child.kill('SIGINT');
    assert.match((await first.ended).stderr, /so the download continues/);
    assert.is(hub.open.size, 1);
    second.child.kill('SIGKILL');
    await second.ended;
    await waitFor('the work has stopped', () => hub.open.size === 0);
    assert.is(hub.downloads.length, 1);
  },
);

commands('a daemon that is killed costs no byte: started again it goes on', async (bench) => {
  const { spawn, svc, hub, partial, model } = bench;
  hub.next.push({ hangAfter: CUT });
  const command = spawn(['model', 'pull', 'hf:user/tiny']);
  await onDisk(partial, CUT);
  process.kill((await runtimeOf(bench)).pid, 'SIGKILL');
  assert.is((await command.ended).code, errors.connection_lost.exit);
  assert.is((await svc(['model', 'pull', 'hf:user/tiny'])).code, errors.daemon_not_running.exit);
  assert.is((await svc(['start'])).code, 0);
  assert.is((await svc(['model', 'pull', 'hf:user/tiny'])).code, 0);
  assert.is(hub.sent, MODEL.length);
  assert.ok(readFileSync(model).equals(MODEL));
});

commands(
  'each cause has its exit code, and an error in JSON when that is asked for',
  async ({ svc, hub, paths }) => {
    const pull = async (...args: string[]) => {
      const { code, stdout, stderr } = await svc(['model', 'pull', ...args, '--json']);
      assert.is(stdout, '');
      return [code, (JSON.parse(stderr) as { error: { code: string } }).error.code];
    };
    assert.equal(await pull('nonsense'), [2, 'invalid_request']);
    assert.equal(await pull('hf:user/tiny', '--name', '../x'), [2, 'invalid_request']);
    assert.equal(await pull('hf:user/tiny', '--sha256', 'x'), [2, 'invalid_request']);
    assert.equal(await pull('hf:user/tiny:Q8_0'), [7, 'model_unknown']);
    hub.nextLists.push({ status: 401 });
    assert.equal(await pull('hf:user/tiny'), [5, 'pull_refused']);
    hub.next.push({ status: 503 });
    assert.equal(await pull('hf:user/tiny'), [9, 'pull_failed']);
    hub.next.push({ bytes: Buffer.alloc(MODEL.length) });
    assert.equal(await pull('hf:user/tiny'), [7, 'model_invalid']);
    assert.equal(readdirSync(paths.models), []);
  },
  once,
);

commands(
  'the hint of a failed download fits its cause',
  async ({ svc, hub }) => {
    const hint = async (...args: string[]) => {
      const { stderr } = await svc(['model', ...args, '--json']);
      return (JSON.parse(stderr) as { error: { hint: string } }).error.hint;
    };
    const goesOn = /resumes where it stopped/;
    const unknown = await hint('pull', 'https://nowhere.invalid/tiny.gguf');
    assert.match(unknown, /network .* HTTPS_PROXY/);
    assert.not.match(unknown, goesOn);
    hub.next.push({ headers: { 'content-type': 'text/html' } });
    assert.match(await hint('pull', 'hf:user/tiny'), 'in a browser');
    hub.nextLists.push({ status: 403 });
    assert.match(await hint('pull', 'hf:user/tiny'), 'HF_TOKEN');
    hub.next.push({ status: 403 });
    const elsewhere = hub.url.replace('127.0.0.1', 'localhost');
    const plain = await hint('pull', `${elsewhere}/files/other.gguf`);
    assert.match(plain, 'Use an address that needs none');
    hub.nextLists.push({ status: 500 });
    assert.not.match(await hint('search', 'tiny', '--hub'), goesOn);
  },
  once,
);

commands('the token is in no output and in no file of the home', async ({ svc, hub, folder }) => {
  hub.next.push({ status: 401 });
  const outcomes = [
    await svc(['model', 'pull', 'hf:user/tiny']),
    await svc(['model', 'pull', 'hf:user/tiny']),
  ];
  assert.ok(hub.asked.every(({ headers }) => headers.authorization === `Bearer ${TOKEN}`));
  await svc(['stop']);
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  assert.ok(files.length > 3);
  for (const file of files)
    assert.not.ok(readFileSync(join(file.parentPath, file.name)).includes(TOKEN), file.name);
  for (const { stdout, stderr } of outcomes) assert.not.ok(`${stdout}${stderr}`.includes(TOKEN));
});

test.run();
once.run();
