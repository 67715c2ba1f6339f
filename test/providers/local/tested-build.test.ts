import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { TESTER } from '../../../src/providers/local/engine/library.ts';
import { TestedBuild } from '../../../src/providers/local/engine/llama.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-build-'));
const file = join(folder, 'build.json');
const module = new URL('../../../src/providers/local/engine/llama.ts', import.meta.url);

/** What the library says, in another process, about a build that cannot be loaded. */
function worksFor(gpu: string): string {
  const program = `
    const { TestedBuild } = await import(${JSON.stringify(module.href)});
    await new TestedBuild(${JSON.stringify(file)}).trust();
    const { testBindingBinary } = await import(${JSON.stringify(TESTER)});
    console.log(await testBindingBinary('/nowhere.node', undefined, ${gpu}));
    process.exit(0);`;
  const script = join(folder, 'start.mjs');
  writeFileSync(script, program);
  return execFileSync(process.execPath, [script], { encoding: 'utf8', stdio: 'pipe' }).trim();
}

test.after(() => rmSync(folder, { recursive: true, force: true }));

test('a build without a note is tested', () => {
  assert.is(worksFor('false'), 'false');
});

test('a noted build is used untested, and its note is gone until the engine has started', async () => {
  await new TestedBuild(file).note({ gpu: false });
  assert.is(worksFor('false'), 'true');
  assert.not(existsSync(file));
});

test('a note of another build, of other versions, or an unreadable one counts as none', async () => {
  await new TestedBuild(file).note({ gpu: false });
  const noted = readFileSync(file, 'utf8');
  assert.is(worksFor('"cuda"'), 'false');
  for (const text of [noted.replace('"key":"', '"key":"0.'), 'no JSON', '{"gpu":false}']) {
    writeFileSync(file, text);
    assert.is(worksFor('false'), 'false', text);
  }
  mkdirSync(join(file, 'inside'), { recursive: true });
  assert.is(worksFor('false'), 'false', 'a folder in its place');
  assert.not(existsSync(file));
});

test.run();
