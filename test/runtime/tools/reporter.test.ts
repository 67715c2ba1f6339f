import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Reporter } from '../../../src/runtime/tools/reporter.ts';
import { callingModel as model, settled } from '../../helpers/calling-model.ts';
import { manualClock } from '../../helpers/manual-clock.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { gate } from '../../helpers/scripted-provider.ts';
import { ScriptedServers } from '../../helpers/scripted-servers.ts';
import { waitFor } from '../../helpers/wait.ts';

test('the first report is recorded at once, then the newest one at each time', async () => {
  const clock = manualClock();
  const recorded: string[] = [];
  const reporter = new Reporter(clock, 1000, async (text) => recorded.push(text));
  for (const text of ['a', 'b', 'c']) reporter.take(text);
  assert.equal(recorded, ['a']);
  clock.advance(999);
  assert.equal(recorded, ['a']);
  clock.advance(1);
  assert.equal(recorded, ['a', 'c']);
  clock.advance(5000);
  reporter.take('c');
  assert.equal(recorded, ['a', 'c'], 'the same text says nothing new');
  reporter.take('d');
  reporter.take('e');
  await reporter.flush();
  assert.equal(recorded, ['a', 'c', 'd', 'e']);
  clock.advance(60_000);
  assert.equal(recorded, ['a', 'c', 'd', 'e'], 'a flush ends the wait');
});

test('a call of a day that reports all the time has about two hundred reports', () => {
  const clock = manualClock();
  let count = 0;
  const reporter = new Reporter(clock, 1000, async () => {
    count += 1;
  });
  for (let second = 0; second < 86_400; second += 1) {
    reporter.take(String(second));
    clock.advance(1000);
  }
  assert.ok(count > 150 && count < 250, String(count));
});

test('the wait grows to a twentieth of the age of the call', () => {
  const clock = manualClock(1_000_000_000);
  const recorded: string[] = [];
  const reporter = new Reporter(clock, 1000, async (text) => recorded.push(text));
  clock.advance(60_000);
  for (const text of ['a', 'b']) reporter.take(text);
  clock.advance(2999);
  assert.equal(recorded, ['a']);
  clock.advance(1);
  assert.equal(recorded, ['a', 'b']);
});

test('what a server says of a call is in the record and the events, also once it has ended', async () => {
  const end = gate();
  const servers = new ScriptedServers({
    'a/b': {
      policy: 'allow',
      run: async (_, __, report) => {
        report('1 of 3');
        report('2 of 3');
        report('3 of 3: almost');
        await end.opened;
        return { text: 'page', is_error: false };
      },
    },
  });
  const { runtime, kernel } = await bootRuntime({ local: model([['a__b', '{}']]), servers });
  const { id } = await runtime.runs.start({ prompt: 'go', tool_servers: ['a'] }, 'test');
  const report = async () => (await runtime.runs.get(id)).tool_calls?.[0]?.report;
  await waitFor('the first report', async () => (await report()) === '1 of 3');
  end.open();
  await settled(kernel, id);
  assert.is(await report(), '3 of 3: almost');
  const { explanation } = await runtime.history.whyRun(id);
  const said = explanation.flatMap((line) => /call 1 .*$/.exec(line) ?? []);
  assert.equal(
    said.map((line) => line.replace(/\.$/, '')),
    [
      'call 1 is a/b',
      'call 1 was allowed (by policy)',
      'call 1 began',
      'call 1 reported: 1 of 3',
      'call 1 reported: 3 of 3: almost',
      'call 1 ended',
    ],
  );
});

test.run();
