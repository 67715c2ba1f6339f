import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { PullRecord } from '../../src/runtime/pulls/record.ts';
import { Hub } from '../helpers/hub.ts';
import { makeModel } from '../helpers/pulls.ts';
import { waitFor } from '../helpers/wait.ts';

const FILE = 'tiny-Q4_K_M.gguf';
const MODEL = makeModel(3 * 1024);
const KILLS = [300_000, 1_000_000, 2_345_678];

/** A child process that downloads the model. The test kills it. */
function fetchIn(folder: string, hub: Hub): { child: ChildProcess; ended: Promise<string> } {
  const child = spawn(
    process.execPath,
    ['test/helpers/pull-process.ts', hub.url, folder, 'hf:user/tiny'],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  let stdout = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  return { child, ended: new Promise((resolve) => child.once('close', () => resolve(stdout))) };
}

test('killed again and again, a pull goes on each time with what it has: the model is right byte for byte and no byte came twice', async () => {
  const hub = await Hub.start({ [FILE]: MODEL });
  const folder = mkdtempSync(join(tmpdir(), 'svc-pull-'));
  try {
    const kept = await killOften(folder, hub);
    const told = JSON.parse(await fetchIn(folder, hub).ended) as {
      last: PullRecord;
      error: string | null;
    };
    assert.is(told.error, null);
    assert.is(told.last.offset_bytes, kept);
    assert.is(told.last.verified, true);
    assert.is(hub.sent, MODEL.length);
    assert.equal(readdirSync(folder), [FILE]);
    assert.ok(readFileSync(join(folder, FILE)).equals(MODEL));
  } finally {
    await hub.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});

/** Resolves with the bytes that are on disk after the last kill. */
async function killOften(folder: string, hub: Hub): Promise<number> {
  const partial = join(folder, `${FILE}.partial`);
  let before = 0;
  for (const bytes of KILLS) {
    hub.next.push({ hangAfter: bytes - before });
    const { child, ended } = fetchIn(folder, hub);
    try {
      await waitFor(
        `${bytes} bytes are on disk`,
        () => existsSync(partial) && statSync(partial).size === bytes,
        { within_ms: 60_000 },
      );
    } finally {
      child.kill('SIGKILL');
    }
    assert.is(await ended, '');
    assert.is(statSync(partial).size, bytes);
    before = bytes;
  }
  return before;
}

test.run();
