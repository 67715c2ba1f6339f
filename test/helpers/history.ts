import type { RunSnapshot } from '../../machines/run/chart.ts';
import { statePath } from '../../machines/step.ts';
import { promptOf } from '../../src/contract/messages/parts.ts';
import { SvcError } from '../../src/errors.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import type { EventStore } from '../../src/kernel/store/port.ts';
import { manualClock } from './manual-clock.ts';
import { bootRuntime } from './runtime.ts';
import { finish, output, ScriptedProvider, untilAborted } from './scripted-provider.ts';
import { createMemoryStore } from './store/memory.ts';
import { turns } from './turns.ts';
import { waitFor } from './wait.ts';

/** The state of the daemon in memory right after an event. */
export interface MemoryState {
  /** The state of each active machine, by its stream. */
  states: Record<string, string>;
  outputs: Record<string, string>;
}

/**
 * Two boots of a daemon over one log. Their runs complete, fail, wait, are cancelled or are cut off
 * when the first boot crashes. The machines record their state after each event, so that a test can
 * compare the folded history.
 */
export async function makeHistory(store: EventStore = createMemoryStore()) {
  const clock = manualClock(Date.parse('2026-01-01T10:00:00.000Z'));
  const seen = new Map<number, MemoryState>();
  const script = new ScriptedProvider('local', ({ request }, signal) => {
    if (promptOf(request).startsWith('fail'))
      return [
        new SvcError('provider_rejected', `It does not like ${promptOf(request)}.`, {
          retryable: false,
        }),
      ];
    if (promptOf(request).startsWith('wait')) return [output('half ', 7, 8), untilAborted(signal)];
    return [output('one ', 1), output('two ', 2), output('three', 3), finish()];
  });
  const settings = { prices: { 'local/*': { input: 3, output: 5 } } };
  const options = { local: script, store, clock, settings, limits: { local_runs: 1 } };
  const first = await bootRuntime({ ...options, boot_id: 'boot_1' });
  note(first.kernel, seen);
  const ask = async (prompt: string) => {
    clock.advance(1000);
    const { id } = await first.runtime.runs.start(
      { prompt, system: 'secret system', recovery: 'restart' },
      'somebody',
    );
    await turns(20);
    return id;
  };
  const completed = await ask('secret prompt');
  const failed = await ask('fail secretly');
  const cancelled = await ask('wait for secrets');
  const queued = await ask('secret in the queue');
  await first.runtime.runs.cancel(cancelled, 'somebody');
  await waitFor('the queue is empty', () => !first.kernel.instances.has(queued));
  const cut = await ask('wait for the crash');
  await waitFor(
    'it has begun to answer',
    async () => (await first.runtime.runs.get(cut)).output === 'half ',
  );
  first.kernel.close();

  clock.advance(5000);
  script.script = () => [output('again', 9), finish()];
  const second = await bootRuntime({ ...options, boot_id: 'boot_2' });
  note(second.kernel, seen);
  await waitFor('the run that was cut off is over', () => !second.kernel.instances.has(cut));
  const last = await second.runtime.runs.start({ prompt: 'the last one' }, 'somebody');
  await waitFor('the last one is over', () => !second.kernel.instances.has(last.id));
  await turns(20);
  return {
    seen,
    script,
    first,
    ...second,
    ids: { completed, failed, cancelled, queued, cut, last: last.id },
  };
}

function note(kernel: Kernel, seen: Map<number, MemoryState>): void {
  kernel.subscribe('all', ({ seq }) => {
    const living = [...kernel.instances.values()].filter(
      ({ version, snapshot }) => version > 0 && snapshot.status === 'active',
    );
    seen.set(seq, {
      states: Object.fromEntries(
        living.map(({ stream, snapshot }) => [stream, statePath(snapshot)]),
      ),
      outputs: Object.fromEntries(
        living
          .filter(({ stream }) => stream.startsWith('run_'))
          .map(({ stream, snapshot }) => [stream, (snapshot as RunSnapshot).context.output]),
      ),
    });
  });
}
