import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { NARROW } from '../../src/engine/open-model.ts';
import { makeLocalProvider, readAnswer } from '../helpers/local-provider.ts';

const isLinux = process.platform === 'linux' && process.arch === 'x64';
const has = (file: string, text: string) => readFileSync(file, 'utf8').includes(text);
const hasAvx2 = isLinux && has('/proc/cpuinfo', ' avx2 ');

if (!hasAvx2) console.log('skipped: the processor has no AVX2, or cannot be read');
const whereKnown = hasAvx2 ? test : test.skip;
whereKnown('the built-in model has the build for AVX2, also with AVX-512', async () => {
  const local = makeLocalProvider();
  try {
    assert.ok((await readAnswer(local)).text.length > 0);
    assert.equal(builds(readFileSync(`/proc/${local.pid()}/maps`, 'utf8')), [NARROW]);
  } finally {
    await local.close();
  }
});

whereKnown('if that build cannot be loaded, llama.cpp chooses one', () => {
  const module = import.meta.resolve('../../src/engine/native/library.ts');
  const program = `
    const { openLlama } = await import(${JSON.stringify(module)});
    const { gpu } = openLlama({ gpu: false, processor: 'none.so', log() {} });
    const { readFileSync } = await import('node:fs');
    console.log(gpu, readFileSync('/proc/self/maps', 'utf8'));`;
  const folder = mkdtempSync(join(tmpdir(), 'svc-build-'));
  const script = join(folder, 'start.mjs');
  writeFileSync(script, program);
  const printed = execFileSync(process.execPath, [script], { encoding: 'utf8' });
  rmSync(folder, { recursive: true, force: true });
  assert.match(printed, /^null /m);
  assert.is(builds(printed).length, 1);
});

/** The files of the builds that a process has in memory. */
function builds(maps: string): string[] {
  return [...new Set(maps.match(/libggml-cpu[^ \n]*/g) ?? [])];
}

test.run();
