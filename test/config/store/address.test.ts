import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  databaseName,
  maskPassword,
  readStoreAddress,
  splitPassword,
} from '../../../src/config/store/address.ts';
import { readPasswordFile } from '../../../src/config/store/password.ts';

test('sqlite and addresses of PostgreSQL are stores, and nothing else is', () => {
  for (const good of ['sqlite', 'postgres://h/db', 'postgresql://u@h:5/db?sslmode=verify-full'])
    assert.is(readStoreAddress(good), good);
  for (const bad of ['', 'mysql://h/db', 'postgres', 'h/db', 7, null, 'postgres://h/db#x'])
    assert.is(readStoreAddress(bad), undefined, String(bad));
});

test('a password leaves the address, wherever it is in there', () => {
  assert.equal(splitPassword('postgres://u:p%40w@h/db'), {
    address: 'postgres://u@h/db',
    password: 'p@w',
  });
  assert.equal(splitPassword('postgres:///db?host=/s&user=u&password=x%26y'), {
    address: 'postgres:///db?host=%2Fs&user=u',
    password: 'x&y',
  });
  assert.equal(splitPassword('postgres://u@h/db'), {
    address: 'postgres://u@h/db',
    password: null,
  });
  assert.equal(splitPassword('sqlite'), { address: 'sqlite', password: null });
});

test('a message never has the password, of a malformed address neither', () => {
  for (const text of [
    'postgres://u:hunter2@h/db',
    'postgres://u:hunter2/@h/db',
    'postgres://u:a@hunter2@h/db',
    'postgers://u:hunter2@h:port/db',
    'postgres:///db?password=hunter2&host=/s',
  ])
    assert.not.match(maskPassword(text), /hunter2/, text);
  assert.is(maskPassword('postgres://u:x@h/db'), 'postgres://u:***@h/db');
  assert.is(maskPassword('postgres://h:5432/db'), 'postgres://h:5432/db');
});

test('a message names the host and the database', () => {
  assert.is(databaseName('postgres://u@h:5433/db?sslmode=require'), 'h:5433/db');
  assert.is(databaseName('postgres:///db?host=/run/pg&port=6'), '/run/pg:6/db');
});

test('a password file is one that only its owner can read', () => {
  const file = join(process.env.TMPDIR ?? '/tmp', `password-${process.pid}`);
  writeFileSync(file, 'hunter2\n', { mode: 0o600 });
  assert.is(readPasswordFile(file), 'hunter2');
  chmodSync(file, 0o644);
  assert.throws(() => readPasswordFile(file), /can be used by other users/);
  assert.throws(
    () => readPasswordFile(`${file}-none`),
    /cannot be read: there is no such file \(ENOENT\)/,
  );
});

test.run();
