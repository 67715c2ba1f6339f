import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { RunSnapshot } from '../../machines/run/chart.ts';
import type { RunEvent } from '../../machines/run/context.ts';
import { init, step } from '../../machines/step.ts';
import { runModels } from './models/all.ts';
import { NOW } from './models/model.ts';

/** What a run knows after these events of its first attempt. */
function contextAfter(...outputs: Partial<Extract<RunEvent, { type: 'run.output_appended' }>>[]) {
  const [model] = runModels;
  assert.ok(model);
  const first = init(model.machine, model.created).snapshot as RunSnapshot;
  const events: RunEvent[] = [
    { type: 'run.started', at: NOW, attempt: 1 },
    ...outputs.map(
      (output): RunEvent => ({
        type: 'run.output_appended',
        at: NOW,
        attempt: 1,
        text: 'a',
        token_ids: [1],
        ...output,
      }),
    ),
  ];
  return events.reduce((run, event) => step(model.machine, run, event).snapshot, first).context;
}

test('an answer that was once computed with others is not exact any more', () => {
  assert.is(contextAfter({}, {}).batched, false);
  assert.is(contextAfter({ batched: true }).batched, true);
  assert.is(contextAfter({}, { batched: true }, {}).batched, true);
});

test('what is said once of the computation counts until it is said again', () => {
  const { threads, model_file } = contextAfter({ threads: 2, model_file: 'a' }, {});
  assert.equal([threads, model_file], [2, 'a']);
  assert.is(contextAfter({ threads: 2 }, { threads: 1 }).threads, 1);
});

test.run();
