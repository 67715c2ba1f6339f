import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { boundCompiledCode, keepWhenIdle, tidyCompiledCode } from '../../src/home/compiled-code.ts';

const test = suite<{ folder: string }>('compiled code');
test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), 'svc-code-'));
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true }));

test('the oldest files leave, in the folders of Node.js too', async ({ folder }) => {
  mkdirSync(join(folder, 'v24'));
  const write = (name: string, age: number) => {
    writeFileSync(join(folder, name), 'x'.repeat(10));
    utimesSync(join(folder, name), 1_000_000 - age, 1_000_000 - age);
  };
  write('new', 1);
  write('v24/middle', 2);
  write('old', 4);
  write('v24/older', 5);
  const names = () => readdirSync(folder, { recursive: true }).sort();
  await boundCompiledCode(folder, 40);
  assert.equal(names(), ['new', 'old', 'v24', 'v24/middle', 'v24/older']);
  await boundCompiledCode(folder, 25);
  assert.equal(names(), ['new', 'v24', 'v24/middle']);
});

test('a process keeps its code once', async () => {
  let kept = 0;
  keepWhenIdle(() => {
    kept += 1;
  });
  await tidyCompiledCode();
  await tidyCompiledCode();
  assert.is(kept, 1);
});

test.run();
