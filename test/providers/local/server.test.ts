import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { fixedKey } from '../../../src/config/keys/keys.ts';
import { defaultLimits, type Limits } from '../../../src/limits.ts';
import type { OutputPart, ProviderPort, Resume } from '../../../src/ports/providers.ts';
import { createRemote } from '../../../src/providers/adapters.ts';
import { failure } from '../../helpers/failure.ts';
import { type LocalHarness, makeLocalProvider, runRequest } from '../../helpers/local-provider.ts';
import { providerConfig } from '../../helpers/provider-config.ts';
import { waitFor } from '../../helpers/wait.ts';

/** A server that svc starts itself: a second engine beside llama.cpp. */
const test = suite<{ folder: string; local: LocalHarness | null; taken: Server[] }>('a server');

const SCRIPT = fileURLToPath(new URL('../../helpers/scripted-server.mjs', import.meta.url));
const signal = () => AbortSignal.timeout(30_000);

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), 'svc-server-'));
  context.local = null;
  context.taken = [];
});
test.after.each(async ({ local, folder, taken }) => {
  await local?.close();
  for (const server of taken) server.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Served extends LocalHarness {
  port: ProviderPort;
}

function serve(
  context: { local: LocalHarness | null },
  flags: readonly string[] = [],
  options: { memory_bytes?: number; limits?: Partial<Limits>; command?: readonly string[] } = {},
): Served {
  const local = makeLocalProvider({ limits: options.limits ?? {} });
  context.local = local;
  const limits = { ...defaultLimits, ...options.limits };
  const config = providerConfig({ model: 'scripted', like: 'llama-server', command: ['x'] });
  const command = options.command ?? [process.execPath, SCRIPT, '--port={port}', ...flags];
  const at = (base_url: string, key: string) =>
    createRemote({
      id: 'vl',
      config: { ...config, base_url },
      env: {},
      keys: fixedKey(key),
      limits,
      adapters: '',
    });
  const { memory_bytes = null } = options;
  return Object.assign(local, {
    port: local.serve({ id: 'vl', command, memory_bytes, at }, 'scripted'),
  });
}

async function answer(
  { port }: Served,
  prompt = 'Hi',
  abort = signal(),
  { resume = null, ...changes }: { resume?: Resume | null; max_tokens?: number } = {},
): Promise<OutputPart[]> {
  const request = { ...runRequest({ prompt }), provider: 'vl', model: 'scripted', ...changes };
  const parts: OutputPart[] = [];
  const attempt = { run_id: 'run_1', attempt: 1, request, resume };
  for await (const part of port.stream(attempt, abort)) parts.push(part);
  return parts;
}

const textOf = (parts: readonly OutputPart[]) =>
  parts.map((part) => (part.type === 'output' ? part.text : '')).join('');
const isAlive = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};
const gone = (pid: number) => waitFor('the process is gone', () => !isAlive(pid));

test('is started by its first work, with a key that it needs, and answers again at once', async (context) => {
  const served = serve(context);
  assert.equal((await served.port.probe(signal())).models, ['scripted']);
  assert.is(served.models.loaded(Date.now()).models.length, 0, 'a probe starts nothing');
  const parts = await answer(served);
  assert.match(textOf(parts), /^w0 w1 .* w11 $/);
  const finish = parts.at(-1);
  assert.ok(finish?.type === 'finish' && (finish.load_ms ?? -1) >= 0);
  const again = (await answer(served)).at(-1);
  assert.ok(again?.type === 'finish' && again.load_ms === undefined);
  assert.is(served.engine.events.filter(({ type }) => type === 'engine.load_requested').length, 1);
  const vectors = await served.port.embed?.('scripted', ['a', 'b'], {}, signal());
  assert.equal(vectors?.vectors, [
    [1, 0],
    [1, 1],
  ]);
  const ranked = await served.port.rank?.('scripted', 'a', ['a', 'b'], signal());
  assert.equal(ranked, { scores: [-0, -1], input_tokens: 4 });
});

test('is in the list of what is loaded, with its memory, and is unloaded by name', async (context) => {
  const served = serve(context, ['--memory=200']);
  const name = served.models.serverOf('vl');
  assert.is(served.models.serverOf('other'), null);
  await served.models.load(name ?? '', null, signal());
  const pid = served.pid();
  await waitFor('its memory is counted', () => {
    const [model] = served.models.loaded(Date.now()).models;
    return (model?.memory_bytes ?? 0) > 200 * 1024 * 1024;
  });
  const loaded = () => served.models.loaded(Date.now()).models[0];
  await waitFor('it has no work', () => loaded()?.state === 'idle');
  assert.is(loaded()?.id, 'vl/scripted');
  assert.is(await served.models.unload(name ?? ''), 'vl/scripted');
  assert.is(served.models.loaded(Date.now()).models.length, 0);
  await gone(pid);
});

test('stops when its time without work is over, with what it started', async (context) => {
  const served = serve(context, ['--child']);
  await answer(served);
  const pid = served.pid();
  await waitFor('it has no work', () => served.state() === 'warm.idle');
  await served.engine.fireDeadline();
  await waitFor('it is cold', () => served.state() === 'cold');
  await waitFor('its group is gone', () => {
    try {
      return !process.kill(-pid, 0);
    } catch {
      return true;
    }
  });
});

test('a load without a waiting request is stopped', async (context) => {
  const served = serve(context, ['--unready']);
  const abort = new AbortController();
  const asked = answer(served, 'Hi', abort.signal).catch((error: unknown) => error);
  await waitFor('it loads', () => served.state().endsWith('loading'));
  abort.abort(new Error('cancelled'));
  assert.match(String(await asked), /cancelled/);
  await waitFor('it is cold', () => served.state() === 'cold');
});

test('one that is never ready is given up, and not started again for a while', async (context) => {
  const served = serve(context, ['--unready']);
  const asked = failure(answer(served));
  await waitFor('it loads', () => served.state().endsWith('loading'));
  await served.engine.fireDeadline();
  const late = await asked;
  assert.is(late.code, 'engine_timed_out');
  const refused = await failure(answer(served));
  assert.is(refused.code, 'model_quarantined');
  assert.match(refused.message, /The server of vl is not started again until .*engine_load_ms/);
});

test('a start that fails says what the server printed last, and the second in a row is the last', async (context) => {
  const served = serve(context, ['--says=unknown_model_architecture', '--exit=3']);
  for (const _ of [1, 2]) {
    const failed = await failure(answer(served));
    assert.is(failed.code, 'engine_crashed');
    assert.match(failed.message, /exit code 3 before it was ready.*unknown model architecture/);
    assert.is(failed.retryable, true);
  }
  const refused = await failure(answer(served));
  assert.is(refused.code, 'model_quarantined');
  assert.match(refused.message, /unknown model architecture/);
  const name = served.models.serverOf('vl') ?? '';
  const retried = await failure(served.models.load(name, null, signal()));
  assert.is(retried.code, 'engine_crashed', 'a user may start it at once');
});

test('the first line about an error is repeated, also if many lines come after it', async (context) => {
  const served = serve(context, ['--says=a;error_loading_model:_x;b;error_2;c;d;e;f', '--exit=1']);
  const { message } = await failure(answer(served));
  assert.match(
    message,
    /It printed last: error loading model: x \| … \| error 2 \| c \| d \| e \| f$/,
  );
  const [listed] = await served.port.models(signal());
  assert.is(listed?.default, false, 'the default is a model of the local engine');
});

test('a program that is not there fails the probe and the work, and is no reason to try again', async (context) => {
  const served = serve(context, [], { command: ['/no/such/program'] });
  const probed = await failure(served.port.probe(signal()));
  assert.match(probed.message, /\/no\/such\/program/);
  assert.is(probed.retryable, false);
  const failed = await failure(answer(served));
  assert.equal([failed.code, failed.retryable], ['engine_failed', false]);
});

test('a crash in an answer is one of the engine, and the next work starts it again', async (context) => {
  const served = serve(context);
  const failed = await failure(answer(served, 'crash'));
  assert.is(failed.code, 'engine_crashed');
  assert.equal([failed.lost, failed.computing, failed.retryable], [true, 1, true]);
  await waitFor('it crashed', () => served.state() === 'crashed');
  await served.engine.fireDeadline();
  assert.match(textOf(await answer(served)), /w11/);
});

const cutOff: Resume = {
  text: 'w0 w1 w2 w3 ',
  parts: [],
  token_ids: [],
  threads: null,
  batched: false,
  model_file: null,
};

test('an answer goes on with its text, with the rest of its tokens', async (context) => {
  const served = serve(context);
  const parts = await answer(served, 'Hi', signal(), { resume: cutOff, max_tokens: 6 });
  assert.is(textOf(parts), 'w4 w5 ');
  const end = parts.at(-1);
  assert.ok(end?.type === 'finish');
  assert.equal([end.usage.input_tokens, end.usage.output_tokens], [5, 6]);
  const cut = await answer(served, 'Hi', signal(), { resume: cutOff, max_tokens: 4 });
  assert.equal(
    cut.map((part) => part.type === 'finish' && part.finish_reason),
    ['length'],
  );
  const parted = { ...cutOff, parts: [{ type: 'reasoning', text: 'hm' } as const] };
  const refused = await failure(answer(served, 'Hi', signal(), { resume: parted }));
  assert.is(refused.code, 'capability_missing');
});

test('its memory has a bound', async (context) => {
  const served = serve(context, ['--memory=300', '--unready'], { memory_bytes: 150 * 1024 * 1024 });
  const failed = await failure(answer(served));
  assert.is(failed.code, 'engine_crashed');
  assert.match(failed.message, /more memory/);
});

test('an answer that takes too much memory says so, and is no reason to try again', async (context) => {
  const served = serve(context, [], { memory_bytes: 200 * 1024 * 1024 });
  const failed = await failure(answer(served, 'grow'));
  assert.equal([failed.code, failed.lost, failed.computing], ['engine_crashed', true, 1]);
  assert.match(failed.message, /memory_bytes of its model/);
  assert.not.ok(failed.retryable);
});

test('what it prints is bounded, and the key of nothing else is in its environment', async (context) => {
  process.env.OPENAI_API_KEY = 'secret-of-another';
  try {
    const served = serve(context, ['--environment', '--flood=20000'], {
      limits: { engine_log_lines: 100 } as Partial<Limits>,
    });
    await answer(served);
    assert.ok(served.printed.length <= 202, String(served.printed.length));
    assert.not.match(served.printed.join('\n'), /secret-of-another/);
  } finally {
    delete process.env.OPENAI_API_KEY;
  }
});

test('another program at its port gets no request', async (context) => {
  // It waits until the port is taken, so the other program is first.
  const script = `
    const net = require('node:net');
    const look = () => {
      const probe = net.connect(Number(process.argv[1]), '127.0.0.1');
      probe.on('connect', () => process.exit(9));
      probe.on('error', () => setTimeout(look, 10));
    };
    look();`;
  const served = serve(context, [], { command: [process.execPath, '-e', script, '{port}'] });
  const asked = failure(answer(served));
  await waitFor('it has a process', () => served.state().endsWith('loading'));
  let requests = 0;
  const port = await portOf(served.engine.all.get(1)?.snapshot().context.attempt ?? 0, served);
  const other = createServer((socket) => {
    socket.on('data', (data) => {
      if (String(data).includes('POST')) requests += 1;
      socket.end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}');
    });
    socket.on('error', () => {});
  });
  context.taken.push(other);
  await new Promise<void>((resolve) => other.listen(port, '127.0.0.1', resolve));
  assert.is((await asked).code, 'engine_crashed');
  assert.is(requests, 0);
});

/** The last argument of the process that is being started. */
async function portOf(_attempt: number, served: Served): Promise<number> {
  const { readFileSync } = await import('node:fs');
  const pid = await waitFor('the pid is known', () => {
    const started = served.engine.events.find(({ type }) => type === 'engine.process_started');
    return started?.type === 'engine.process_started' && started.pid;
  });
  return waitFor('its program runs', () => {
    const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').filter(Boolean);
    const isProgram = words[0] === process.execPath;
    return isProgram && Number(words.at(-1));
  });
}

test.run();
