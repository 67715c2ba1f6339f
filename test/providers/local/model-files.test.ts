import { linkSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { twinOf } from '../../../src/providers/local/model-files.ts';

test('the twin of a path is another name of the same file, and none of a file that is gone', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-twin-'));
  try {
    const at = (name: string) => join(folder, name);
    for (const name of ['one', 'two']) writeFileSync(at(name), 'the same bytes');
    linkSync(at('two'), at('linked'));
    symlinkSync(at('two'), at('symbolic'));
    const files = ['gone', 'one', 'two'].map((name) => ({ path: at(name) }));
    const twin = async (name: string) => (await twinOf(at(name), files))?.path ?? null;
    assert.is(await twin('linked'), at('two'));
    assert.is(await twin('symbolic'), at('two'));
    assert.is(await twin('one'), at('one'));
    assert.is(await twin('gone'), null);
    assert.is(await twin('also gone'), null);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test.run();
