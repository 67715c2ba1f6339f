import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { RunSnapshot } from '../../machines/run/chart.ts';
import type { RunEvent } from '../../machines/run/context.ts';
import { callsAfter, FILES_MAX } from '../../machines/run/turns.ts';
import { init, step } from '../../machines/step.ts';
import { newCall, type ToolCall } from '../../machines/tool-call.ts';
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

test('a request has the newest files of results, within their bound', () => {
  const [model] = runModels;
  assert.ok(model);
  const half = 'A'.repeat(FILES_MAX / 2);
  const call = (number: number, data: string): ToolCall => ({
    ...newCall({ call: number, id: `c${number}`, name: 'shot', arguments: '{}', at: NOW }),
    state: 'started',
    result: { text: 'shot', is_error: false, media: [{ ...PICTURE, data }] },
  });
  const after = (...datas: string[]) => {
    const calls = datas.map((data, index) => call(index + 1, data));
    const last = { ...call(datas.length + 1, ''), result: null };
    const media = [{ ...PICTURE, data: half }];
    const of = { call: datas.length + 1, text: 'shot', is_error: false, media };
    const next = callsAfter([...calls, last], { type: 'run.tool_finished', at: NOW, ...of });
    return next?.map(({ result }) => `${result?.text} ${result?.media?.length ?? 0}`);
  };
  assert.equal(after(half), ['shot 1', 'shot 1']);
  const old = 'shot\n[svc: its files were left out: those of later results fill the request] 0';
  assert.equal(after(half, `${half}A`, half), [old, old, 'shot 1', 'shot 1']);
  assert.equal(after(`${half}A`), [old, 'shot 1']);
});

const PICTURE = { type: 'image', media_type: 'image/png' } as const;

test.run();
