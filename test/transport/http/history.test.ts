import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { statePath } from '../../../machines/step.ts';
import { parseRunFile } from '../../../src/observability/history/run-file.ts';
import { finish, output } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';
import { ask } from './boot.ts';
import { bootReal, type Real } from './real.ts';

/** The machines and the history over HTTP, from the real runtime. */
const test = suite('machines and the past');
let real: Real;
let id: string;

test.before(async () => {
  real = await bootReal({ script: [output('secret ', 1), output('answer', 2), finish()] });
  id = (await real.runtime.runs.start({ prompt: 'secret prompt' }, 'test')).id;
  await waitFor(
    'it is settled',
    () => !real.kernel.instances.has(id) && real.runtime.status().state === 'ready',
  );
});
test.after(() => real.close());

test('the machines have states, transitions and live instances', async () => {
  const { status, json } = await real.get('/v1/machines');
  assert.is(status, 200);
  assert.is(json.seq, real.kernel.durableSeq);
  assert.equal(
    json.machines.map(({ name }: { name: string }) => name),
    ['daemon', 'run', 'tool_call', 'provider', 'engine', 'pull', 'mcp', 'lease', 'conversation'],
  );
  const [daemon, run] = json.machines;
  assert.is(daemon.initial, 'starting.binding');
  assert.equal(
    daemon.states.find(({ path }: { path: string }) => path === 'running.accepting'),
    {
      path: 'running.accepting',
      parent: 'running.serving',
      type: 'atomic',
      tags: ['live', 'stable', 'ready'],
      initial: null,
      effects: [],
      deadline: null,
    },
  );
  assert.ok(
    daemon.transitions.some(
      ({ source, event, target }: Record<string, string>) =>
        source === 'ready' && event === 'daemon.run_admitted' && target === 'running.accepting',
    ),
  );
  assert.match(daemon.mermaid, /^---\ntitle: daemon\n---\nstateDiagram-v2/);
  assert.equal(
    daemon.instances.map(({ stream, state_path }: Record<string, string>) => [stream, state_path]),
    [['daemon:boot_1', 'ready']],
  );
  assert.equal(run.instances, [], 'a run that is over is not among them');
});

test('every machine has a diagram, and nothing else does', async () => {
  for (const name of [
    'daemon',
    'run',
    'provider',
    'engine',
    'pull',
    'mcp',
    'lease',
    'conversation',
  ]) {
    const { status, headers, text } = await real.get(`/v1/machines/${name}/diagram`);
    assert.is(status, 200);
    assert.match(headers['content-type'] ?? '', /^image\/svg\+xml/);
    assert.is(headers['x-content-type-options'], 'nosniff');
    assert.is(text, readFileSync(`machines/diagrams/${name}.svg`, 'utf8'));
    assert.is(
      (
        await real.get(`/v1/machines/${name}/diagram`, {
          headers: { 'if-none-match': headers.etag ?? '' },
        })
      ).status,
      304,
    );
  }
  for (const name of ['nobody', '..%2fdaemon', '__proto__', '%00', 'daemon.svg'])
    assert.ok([400, 404].includes((await real.get(`/v1/machines/${name}/diagram`)).status), name);
});

test('the state is read, now and at an earlier position', async () => {
  const now = (await real.get('/v1/runtime/state')).json;
  assert.is(now.status.state, 'ready');
  assert.is(now.runs[0].output, 'secret answer');
  const accepted = (await real.store.readStream(id, 1, 1))[0]?.seq ?? 0;
  const then = (await real.get(`/v1/runtime/state?at=${accepted}`)).json;
  assert.equal(
    [then.seq, then.status.state_path, then.runs[0].state, then.runs[0].output],
    [accepted, 'running.accepting', 'queued', ''],
  );
  assert.equal([then.first_seq, then.last_seq], [1, real.kernel.durableSeq]);
  assert.is((await real.get(`/v1/runs/${id}?at=${accepted}`)).json.state, 'queued');
  assert.is((await real.get(`/v1/runs/${id}`)).json.state, 'completed');
});

test('an invalid or unknown position is refused by name', async () => {
  for (const at of ['0', '-1', '1e3', '1.5', 'now', '99999', '9007199254740993', '']) {
    for (const path of ['/v1/runtime/state', `/v1/runs/${id}`]) {
      const { status, json } = await real.get(`${path}?at=${at}`);
      assert.is(status, 400, `${path}?at=${at}`);
      assert.is(json.error.param, 'at');
    }
  }
  assert.is((await real.get('/v1/runtime/state?seq=1')).json.error.param, 'seq');
  assert.is((await real.get('/v1/runs/run_nobody?at=3')).json.error.code, 'run_unknown');
});

test('a run has an explanation and an export', async () => {
  const why = (await real.get(`/v1/runs/${id}/why`)).json;
  assert.is(why.events.at(-1).state_path, 'completed');
  assert.ok(why.explanation.length >= 3);
  const { headers, text } = await real.get(`/v1/runs/${id}/export`);
  assert.is(headers['content-disposition'], `attachment; filename="${id}.json"`);
  assert.is(parseRunFile(text).events.length, (await real.store.readStream(id, 1, 100)).length);
  const redacted = await real.get(`/v1/runs/${id}/export?redact=1`);
  assert.not.match(redacted.text, /secret|answer/);
  assert.is(parseRunFile(redacted.text).redacted, true);
  for (const path of ['why', 'export']) {
    const unknown = await real.get(`/v1/runs/run_nobody/${path}`);
    assert.equal([unknown.status, unknown.json.error.code], [404, 'run_unknown']);
    assert.is((await real.get(`/v1/runs/${id}/${path}?x=1`)).status, 400);
  }
});

test('all of these routes need the token', async () => {
  for (const path of [
    '/v1/machines',
    '/v1/machines/run/diagram',
    '/v1/runtime/state',
    '/v1/runtime/state?at=1',
    `/v1/runs/${id}/why`,
    `/v1/runs/${id}/export`,
    '/v1/events',
    '/v1/session',
  ])
    assert.is((await ask(`${real.url}${path}`)).status, 401, path);
});

test('the machines of an answer agree with the kernel', () => {
  for (const { machine, state_path, stream } of real.runtime.history
    .machines()
    .machines.flatMap(({ instances }) => instances)) {
    const instance = real.kernel.instances.get(stream);
    assert.ok(
      instance !== undefined &&
        instance.machine.id === machine &&
        statePath(instance.snapshot) === state_path,
      stream,
    );
  }
});

test.run();
