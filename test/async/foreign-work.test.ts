import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ForeignWork, PROCESS_BYTES } from '../../src/async/foreign-work.ts';

const work = new ForeignWork<{ rest?: number; work?: number }, number>({
  entry: new URL('../fixtures/foreign/worker.ts', import.meta.url),
  heap_bytes: 64 * 1024 * 1024,
  memory_bytes: PROCESS_BYTES + 64 * 1024 * 1024,
  places: 1,
  idle_ms: 60_000,
});

test('work is ended by its processor time, and not by the clock', async () => {
  assert.equal(await work.ask({ rest: 300 }, { ms: 100 }), { answer: 300 });
  assert.equal(await work.ask({ work: 10_000 }, { ms: 100 }), { excess: 'time' });
});

test('each question has its own time', async () => {
  for (let asked = 0; asked < 4; asked += 1)
    assert.equal(await work.ask({ work: 400 }, { ms: 1000 }), { answer: 400 });
});

test('work that rests for far longer than it may work is ended, too', async () => {
  assert.equal(await work.ask({ rest: 600_000 }, { ms: 10 }), { excess: 'time' });
});

test.run();
