import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/errors.ts';
import type { Home } from '../helpers/svc.ts';
import { hasTerminal, onTerminal } from '../helpers/terminal.ts';
import { type FakeDaemon, health, output, run, status, suiteWithDaemon } from './fake-daemon.ts';

/** Each command that prints foreign texts, on a terminal, with texts that try to command it. */
const test = suiteWithDaemon('foreign texts on the terminal');
const onTty = hasTerminal ? test : test.skip;

const FORGED = '12:00:00.000 ERROR forged';
const EVIL = `e\u001b]0;gone\u0007\u001b[8m\u009b2J\r\n${FORGED}\u202etxet\u2066\u2028\u007f\u0085`;

const evilRun = {
  ...run,
  state: 'failed',
  provider: EVIL,
  model: EVIL,
  prompt: EVIL,
  messages: [
    { role: EVIL, content: [{ type: 'text', text: EVIL }] },
    { role: 'assistant', content: [{ type: 'tool_call', id: EVIL, name: EVIL, arguments: EVIL }] },
    { role: 'tool', content: [{ type: 'tool_result', id: EVIL, text: EVIL, is_error: false }] },
  ],
  output_parts: [
    { type: 'reasoning', text: EVIL },
    { type: 'tool_call', id: EVIL, name: EVIL, arguments: EVIL },
  ],
  system: EVIL,
  output: EVIL,
  finish_reason: EVIL,
  client: EVIL,
  error: new SvcError('provider_failed', EVIL, { hint: EVIL }).body(),
};
const evilModel = {
  id: EVIL,
  provider: EVIL,
  name: EVIL,
  state: EVIL,
  size_bytes: 1,
  digest: EVIL,
  quantization: EVIL,
  parameters: 1,
  context_length: 1,
};
const model = { ...evilModel, capabilities: [EVIL], default: true, built_in: false, path: EVIL };
const provider = {
  id: EVIL,
  kind: 'local',
  adapter: EVIL,
  state: EVIL,
  reason: EVIL,
  since: status.since,
  base_url: EVIL,
  credential: EVIL,
  models: 1,
};
/** As a daemon of version 0.1.0 sends it: with a prompt instead of messages. */
const accepted = {
  seq: 1,
  version: 1,
  stream: 'run_1',
  type: 'run.accepted',
  at: status.since,
  boot_id: 'boot_1',
  data: {
    run_id: 'run_1',
    request: { prompt: EVIL, system: EVIL, provider: EVIL, model: EVIL, cloud: false, params: {} },
    client: EVIL,
    idempotency_key: EVIL,
    max_attempts: 1,
    queue_deadline_at: 1e15,
    deadline_at: 1e15,
    first_output_ms: 1,
    idle_ms: 1,
    cancel_grace_ms: 1,
  },
};
const snapshot = {
  status: { ...status, state: EVIL, state_path: EVIL, version: EVIL },
  runs: [evilRun],
  queue: { length: 0, capacity: 1 },
  providers: [provider],
  engine: { state_path: EVIL, model: EVIL },
  seq: 1,
  first_seq: 1,
  last_seq: 1,
  at: status.since,
  boot_id: EVIL,
};
const pull = {
  id: 'pull_1',
  file: EVIL,
  choices: [EVIL],
  existing: false,
  state: 'downloading',
  error: { message: EVIL },
  retry_at: status.since,
  sha256: EVIL,
  verified: null,
  offset_bytes: 5,
  attempt: 1,
  bytes: 5,
  hashed_bytes: 0,
  size_bytes: 10,
};

/** A daemon all of whose texts are hostile. */
function turnHostile(daemon: FakeDaemon): void {
  const answers: Record<string, unknown> = {
    status: {
      ...status,
      state_path: EVIL,
      version: EVIL,
      home: EVIL,
      addresses: { http: EVIL, grpc: EVIL, socket: EVIL },
    },
    why: { events: [{ ...accepted, type: EVIL, data: { text: EVIL } }] },
    health: { ...health, output: EVIL, state_path: EVIL, reason: EVIL },
    'model.list': { models: [model] },
    'model.show': { ...model, metadata: { [EVIL]: EVIL } },
    'model.remove': model,
    'provider.list': { providers: [provider] },
    'provider.add': provider,
    'provider.set': provider,
    'provider.use': provider,
    'provider.remove': provider,
    'provider.test': provider,
    'run.list': { runs: [evilRun], next: null },
    'run.get': evilRun,
    'run.cancel': { ...evilRun, id: EVIL, state: EVIL },
    state: snapshot,
    config: {
      model: EVIL,
      sources: {},
      file: EVIL,
      providers: { [EVIL]: { base_url: EVIL } },
      limits: {},
      history: { redact: [EVIL] },
    },
    console: { url: EVIL },
    report: {
      engine: {
        state: 'warm',
        state_path: 'warm',
        model: EVIL,
        threads: 1,
        context_length: 1,
        error: null,
      },
    },
  };
  for (const [method, answer] of Object.entries(answers))
    daemon.on(method, ({ result }) => result(answer));
  for (const method of ['log.stream', 'log.read'])
    daemon.on(method, ({ params, result }) =>
      result({ events: Number(params.from_seq ?? params.from_version) > 1 ? [] : [accepted] }),
    );
  daemon.on('model.pull', ({ event, result }) => {
    event(pull);
    result(model);
  });
  for (const method of ['run.start', 'run.follow']) {
    daemon.on(method, ({ event, result }) => {
      event({ run: evilRun });
      event(output(EVIL, 2));
      result(evilRun);
    });
  }
}

/** Commands of each kind of output; `own` prints nothing of ours that could be forged. */
const COMMANDS: { args: string[]; own?: boolean }[] = [
  { args: ['status'] },
  { args: ['status', '--why'] },
  { args: ['status', '--at', '1'] },
  { args: ['start'] },
  { args: ['health', '--source', 'socket'] },
  { args: ['logs'] },
  { args: ['model', 'list'] },
  { args: ['model', 'show', 'x'] },
  { args: ['model', 'remove', 'x'] },
  { args: ['model', 'pull', 'hf:user/x'] },
  { args: ['provider', 'list'] },
  { args: ['provider', 'add', 'x', '--base-url', 'http://127.0.0.1:1/v1'] },
  { args: ['provider', 'set', 'x', '--model', 'm'] },
  { args: ['provider', 'default', 'x'] },
  { args: ['provider', 'remove', 'x'] },
  { args: ['provider', 'test', 'x'] },
  { args: ['runs', 'list'] },
  { args: ['runs', 'show', 'x'] },
  { args: ['runs', 'cancel', 'x'] },
  { args: ['runs', 'why', 'run_1'] },
  { args: ['runs', 'replay', 'run_1'] },
  { args: ['runs', 'export', 'run_1'], own: true },
  { args: ['runs', 'export', '--all'], own: true },
  { args: ['runs', 'attach', 'run_1'], own: true },
  { args: ['run', 'p'], own: true },
  { args: ['config', 'show'] },
  { args: ['doctor'] },
  { args: ['console', '--no-open'] },
  { args: ['runs', 'show', EVIL] },
];

function writeLog(home: Home): void {
  mkdirSync(home.paths.logs, { recursive: true });
  const line = JSON.stringify({
    level: 'info',
    time: status.since,
    boot_id: 'boot_1',
    [EVIL]: EVIL,
    msg: EVIL,
    err: { message: EVIL, stack: EVIL },
  });
  writeFileSync(join(home.paths.logs, 'svc.log'), `${line}\n`);
}

/** What we write ourselves to go back over a line. */
const OWN = '\r\u001b[K';

onTty(
  'no command prints one that moves the cursor, turns the order, or forges a line',
  async ({ home, daemon }) => {
    turnHostile(daemon);
    writeLog(home);
    for (const { args, own } of COMMANDS) {
      const { text } = await onTerminal(args, { ...home.env, NO_COLOR: '1' });
      const shown = text.replaceAll(OWN, '\n');
      assert.match(shown, /forged/, `svc ${args.join(' ')} prints none: ${text}`);
      assert.not.match(
        shown.replaceAll('\n', ''),
        /(?!\t)[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u,
        `svc ${args.join(' ')}`,
      );
      if (!own)
        assert.not.ok(
          shown.split('\n').some((line) => line.startsWith(FORGED)),
          `svc ${args.join(' ')}: ${shown}`,
        );
    }
  },
);

onTty('with --json the value is the same, and none is written raw', async ({ home, daemon }) => {
  turnHostile(daemon);
  writeLog(home);
  for (const { args } of COMMANDS.filter(({ args }) => !args.includes('export'))) {
    const { text } = await onTerminal([...args, '--json'], home.env);
    const shown = text.replaceAll(OWN, '\n');
    assert.not.match(
      shown.replaceAll('\n', ''),
      /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u,
      `svc ${args.join(' ')}`,
    );
    const [first = ''] = shown.split('\n').filter((line) => line.startsWith('{'));
    const json =
      first === '{' ? shown.slice(shown.indexOf('{\n'), shown.indexOf('\n}') + 2) : first;
    assert.ok(
      JSON.stringify(JSON.parse(json)).includes('forged'),
      `svc ${args.join(' ')}: ${shown}`,
    );
  }
});

test('a client, a provider and a model are refused when their names hold control characters', async () => {
  const { parseRunInput } = await import('../../src/contract/inputs.ts');
  const { defaultLimits } = await import('../../src/limits.ts');
  for (const field of ['client', 'provider', 'model'])
    for (const character of ['\u0000', '\u001b', '\u007f', '\u009b', '\n'])
      assert.throws(
        () => parseRunInput({ prompt: 'p', [field]: `a${character}b` }, defaultLimits),
        (error: SvcError) => error.param === field,
      );
});

onTty('machines are a tree at a terminal', async ({ home }) => {
  const { text } = await onTerminal(['machines', 'pull'], { ...home.env, NO_COLOR: '1' });
  assert.match(text, /^pull\n[├└]─ /);
  assert.match((await home.svc(['machines', 'pull'])).stdout, /^stateDiagram-v2$/m);
});

test.run();
