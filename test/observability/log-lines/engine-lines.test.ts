import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { logEvents } from '../../../src/observability/log-lines/log-lines.ts';
import type { Log } from '../../../src/ports/log.ts';
import { subscribedKernel } from '../../helpers/subscribed-kernel.ts';

function boot() {
  const lines: string[] = [];
  const keep = (level: string) => (_: object, message: string) =>
    void lines.push(`${level} ${message}`);
  const log: Log = { debug() {}, info: keep('info'), warn: keep('warn'), error: keep('error') };
  const { kernel, happen } = subscribedKernel();
  logEvents(kernel, 'daemon_1' as never, log);
  return { lines, happen };
}

const info = {
  model: 'm',
  path: '/absent',
  load_ms: 1500,
  threads: 1,
  context_length: 4096,
  gpu_layers: 2,
  attention: { cache_keys: 'q8_0', cache_values: 'f16', flash: true },
};

test('a model that is loaded has what it was loaded with', () => {
  const { lines, happen } = boot();
  happen('engine.model_loaded', { context: { info } });
  const attention = { cache_keys: 'f16', cache_values: 'f16', flash: 'auto' };
  happen('engine.model_loaded', {
    context: { info: { model: 'm', path: '/absent', load_ms: 200, attention } },
  });
  assert.equal(lines, [
    'info model m loaded in 1.5 s: 1 thread, 4096 tokens of context, cache of q8_0/f16, ' +
      'with flash attention, 2 layers on the GPU',
    'info model m loaded in 0.2 s',
  ]);
});

test('a model that leaves memory says why, where there is a reason', () => {
  for (const [reason, said] of [
    ['idle', 'it had no work'],
    ['room', 'another model needs its memory'],
    ['model_changed', 'it starts again with other threads'],
    ['requested', 'a client requested it'],
    ['daemon_stopping', null],
  ]) {
    const { lines, happen } = boot();
    happen('engine.load_requested', { data: { model: 'm' }, context: {} });
    happen('engine.stop_requested', { data: { reason }, context: {} });
    happen('engine.exited', { context: {} });
    assert.equal(lines, said === null ? [] : [`info model m left memory: ${said}`]);
  }
});

test('an engine that dies says how, with its model', () => {
  const { lines, happen } = boot();
  const ends = [
    { signal: null, exit_code: 3 },
    { signal: 'SIGSEGV', exit_code: null },
    { signal: 'SIGKILL', reason: 'memory' },
    { signal: 'SIGKILL', reason: 'outside' },
  ];
  for (const data of ends) {
    happen('engine.load_requested', { data: { model: 'm' } });
    happen('engine.exited', { data, isFailing: true });
  }
  happen('engine.load_requested', { data: { model: 'm' } });
  happen('engine.load_failed', { data: { error: { code: 'model_invalid', message: 'no model' } } });
  happen('engine.exited', { data: ends[0] ?? {} });
  happen('engine.exited', { data: ends[0] ?? {}, isFailing: true });
  assert.equal(lines, [
    'warn the engine of m died: exit code 3',
    'warn the engine of m died: SIGSEGV',
    'warn the engine of m died: it took more memory than it may',
    'warn the engine of m died: something else killed it, SIGKILL',
    'warn model m could not be loaded: no model',
    'warn the engine of no model died: exit code 3',
  ]);
});

test.run();
