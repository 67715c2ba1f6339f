import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { promptOf } from '../../../src/contract/messages/parts.ts';
import { SvcError } from '../../../src/errors.ts';
import type { AttemptRequest } from '../../../src/ports/providers.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { finish, output, ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { turns } from '../../helpers/turns.ts';
import { waitFor } from '../../helpers/wait.ts';

/** An engine that dies as soon as it begins a deadly prompt. Its other work dies with it. */
class FragileEngine extends ScriptedProvider {
  /** The number of runs computed next to the killer, for each of its attempts. */
  readonly beside: number[] = [];
  deaths = 0;
  onDeath: (deaths: number) => void = () => {};
  private readonly computed = new Map<string, (reason: unknown) => void>();

  constructor() {
    super('local', (request) => [
      this.compute(request),
      ...(promptOf(request.request) === 'long' ? [output('answer', 1)] : []),
      finish(),
    ]);
  }

  private compute({ run_id, request }: AttemptRequest) {
    return async () => {
      const death = new Promise<never>((_, reject) => this.computed.set(run_id, reject));
      death.catch(() => {});
      try {
        // By then all runs that may start have begun.
        await turns(30);
        if (promptOf(request) === 'killer') this.die();
        await Promise.race([death, turns(60)]);
      } finally {
        this.computed.delete(run_id);
      }
    };
  }

  private die(): void {
    const computing = this.computed.size;
    this.beside.push(computing - 1);
    this.deaths += 1;
    this.onDeath(this.deaths);
    const gone = new SvcError('engine_crashed', 'The engine process died.', {
      retryable: true,
      lost: true,
      computing,
    });
    for (const reject of [...this.computed.values()]) reject(gone);
  }
}

test('a prompt that kills the engine ends after its losses, and each of its neighbours is answered', async () => {
  const local = new FragileEngine();
  const { runtime, kernel } = await bootRuntime({
    local,
    limits: { local_runs: 4, run_losses: 3, run_attempts: 2 },
  });
  const start = async (prompt: string) => (await runtime.runs.start({ prompt }, prompt)).id;
  const killer = await start('killer');
  const neighbours = [await start('long'), await start('long'), await start('long')];
  for (const id of [...neighbours, killer])
    await waitFor(`${id} has ended`, () => !kernel.instances.has(id));
  for (const id of neighbours) {
    const { state, output: text, attempts } = await runtime.runs.get(id);
    assert.equal([state, text, attempts], ['completed', 'answer', 2]);
  }
  assert.equal(local.beside, [3, 0, 0, 0, 0], 'after the first death it is computed alone');
  const { state, error } = await runtime.runs.get(killer);
  assert.is(state, 'failed');
  assert.is(error?.code, 'engine_crashed');
  assert.match(error?.message ?? '', /4 times in a row.*The last time: /);
});

test('a run that arrives later is answered before the killer has used all its attempts', async () => {
  const local = new FragileEngine();
  const { runtime, kernel } = await bootRuntime({
    local,
    limits: { local_runs: 4, run_losses: 6 },
  });
  let later = '';
  local.onDeath = async (deaths) => {
    if (deaths === 2) later = (await runtime.runs.start({ prompt: 'long' }, 'b')).id;
  };
  const killer = (await runtime.runs.start({ prompt: 'killer' }, 'a')).id;
  await waitFor('the killer has ended', () => !kernel.instances.has(killer));
  await waitFor('the later run has ended', () => later !== '' && !kernel.instances.has(later));
  assert.is((await runtime.runs.get(later)).state, 'completed');
  assert.is(local.deaths, 7);
  const order = local.asked.map(({ request }) => promptOf(request));
  assert.ok(order.indexOf('long') <= 3, order.join(' '));
  assert.equal(local.beside, [0, 0, 0, 0, 0, 0, 0]);
});

test('a run waits out loads that are killed from outside, and why says it', async () => {
  const killed = new SvcError('engine_killed', undefined, { lost: true, computing: 0 });
  let kills = 12;
  const local = new ScriptedProvider('local', () =>
    kills-- > 0 ? [killed] : [output('answer', 1), finish()],
  );
  const { runtime, kernel } = await bootRuntime({ local });
  const { id } = await runtime.runs.start({ prompt: 'tell' }, 'test');
  await waitFor('it has ended', () => !kernel.instances.has(id));
  const { state, output: text, attempts } = await runtime.runs.get(id);
  assert.equal([state, text, attempts], ['completed', 'answer', 13]);
  const { explanation } = await runtime.history.whyRun(id);
  assert.match(explanation.join('\n'), /waits to resume: .*killed the engine while it loaded/);
});

test('a run whose model is another file now ends with its partial text, and says so', async () => {
  const died = new SvcError('engine_crashed', undefined, { lost: true, computing: 1 });
  const local = new ScriptedProvider('local', ({ resume }) =>
    resume === null ? [output('Once ', 1), died] : [new SvcError('model_changed')],
  );
  const { runtime, kernel } = await bootRuntime({ local });
  const { id } = await runtime.runs.start({ prompt: 'tell' }, 'test');
  await waitFor('it has ended', () => !kernel.instances.has(id));
  const { state, output: text, error } = await runtime.runs.get(id);
  assert.equal([state, text, error?.code], ['interrupted', 'Once ', 'model_changed']);
  const { explanation } = await runtime.history.whyRun(id);
  assert.match(
    explanation.at(-1) ?? '',
    /ended unfinished: .*begun with another file, template or adapter of the model/,
  );
});

test.run();
