import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { run } from '../../src/cli/upkeep/transfer/import.ts';
import type { SvcError } from '../../src/errors.ts';
import { findPaths } from '../../src/home/paths.ts';

test('an import that fails closes the log that it had opened', async () => {
  const home = mkdtempSync(join(tmpdir(), 'svc-import-'));
  try {
    const paths = findPaths({ SVC_HOME: home });
    const file = join(home, 'log');
    writeFileSync(file, 'no log\n');
    const code = () =>
      run({ name: 'import', args: [file], flags: {}, json: true, paths }).then(
        () => null,
        (error: SvcError) => error.code,
      );
    // An open log would belong to this process, and keep its write-ahead log.
    assert.is(await code(), 'import_invalid');
    assert.not.ok(existsSync(`${paths.database}-wal`));
    assert.is(await code(), 'import_invalid');
  } finally {
    rmSync(home, { recursive: true });
  }
});

test.run();
