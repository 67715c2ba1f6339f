import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { RotatingFile, type RotatingFileOptions } from '../../src/logs/rotating-file.ts';

const test = suite<{ folder: string }>('rotating file');

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), 'svc-log-'));
});

test.after.each(({ folder }) => {
  rmSync(folder, { recursive: true, force: true });
});

const lostLine = (lost: number, reason: string) => `lost ${lost} ${reason}`;

function open(folder: string, more: Partial<RotatingFileOptions> = {}): RotatingFile {
  return new RotatingFile({ folder, file_bytes: 100, files: 3, lostLine, ...more });
}

function contents(folder: string): Record<string, string> {
  return Object.fromEntries(
    readdirSync(folder)
      .sort()
      .map((name) => [name, readFileSync(join(folder, name), 'utf8')]),
  );
}

/** A disk with room for so many bytes. */
function disk(room: number) {
  const left = { room };
  const write = (fd: number, data: Buffer, offset: number): number => {
    const taken = Math.min(data.length - offset, left.room);
    if (taken === 0) throw Object.assign(new Error('no space'), { code: 'ENOSPC' });
    left.room -= taken;
    return writeSync(fd, data, offset, taken);
  };
  return { left, write };
}

test('the log rotates before a file exceeds its size, and the total stays within the bound', ({
  folder,
}) => {
  const file = open(folder);
  for (let index = 0; index < 100; index += 1) {
    file.write(`${String(index).padStart(29, '.')}`);
    const sizes = readdirSync(folder).map((name) => statSync(join(folder, name)).size);
    assert.ok(Math.max(...sizes) <= 100);
    assert.ok(sizes.length <= 3);
  }
  file.close();
  const lines = ['svc.2.log', 'svc.1.log', 'svc.log'].flatMap(
    (name) => contents(folder)[name]?.trim().split('\n') ?? [],
  );
  assert.equal(
    lines.map((line) => Number(line.replaceAll('.', ''))),
    [93, 94, 95, 96, 97, 98, 99].slice(-lines.length),
  );
  assert.is(file.lost, 0);
});

test('the next process appends to a file that is not full, and removes files beyond the bound', ({
  folder,
}) => {
  writeFileSync(join(folder, 'svc.log'), 'before\n');
  writeFileSync(join(folder, 'svc.7.log'), 'old\n');
  writeFileSync(join(folder, 'stderr.txt'), 'not ours to remove');
  const file = open(folder);
  file.write('after');
  file.close();
  assert.equal(contents(folder), {
    'svc.log': 'before\nafter\n',
    'stderr.txt': 'not ours to remove',
  });
});

test('with a bound of one file, one file is kept', ({ folder }) => {
  const file = open(folder, { files: 1 });
  for (let index = 0; index < 20; index += 1) file.write(`${'x'.repeat(39)}`);
  file.close();
  assert.equal(readdirSync(folder), ['svc.log']);
  assert.ok(statSync(join(folder, 'svc.log')).size <= 100);
});

test('only the owner can read the files, also one that was open to others before', ({ folder }) => {
  writeFileSync(join(folder, 'svc.log'), 'a\n');
  chmodSync(join(folder, 'svc.log'), 0o644);
  const file = open(folder);
  for (let index = 0; index < 10; index += 1) file.write(`${'x'.repeat(59)}`);
  file.close();
  for (const name of readdirSync(folder))
    assert.is(statSync(join(folder, name)).mode & 0o777, 0o600, name);
});

test('a torn line of the previous process ends before the next line begins', ({ folder }) => {
  writeFileSync(join(folder, 'svc.log'), '{"half":');
  const file = open(folder);
  file.write('whole');
  file.close();
  assert.is(contents(folder)['svc.log'], '{"half":\nwhole\n');
});

test('lines lost on a full disk are counted, and reported when there is space', ({ folder }) => {
  const { left, write } = disk(6);
  const file = open(folder, { write });
  file.write('first');
  file.write('second');
  file.write('third');
  assert.is(file.lost, 2);
  left.room = 1000;
  file.write('fourth');
  assert.is(file.lost, 0);
  file.close();
  assert.is(contents(folder)['svc.log'], 'first\nlost 2 ENOSPC\nfourth\n');
});

test('half a line on a full disk never runs into the next one', ({ folder }) => {
  const { left, write } = disk(9);
  const file = open(folder, { write });
  file.write('first');
  file.write('second');
  left.room = 2;
  file.write('third');
  left.room = 1000;
  file.write('fourth');
  file.close();
  const lines = contents(folder)['svc.log']?.split('\n') ?? [];
  assert.equal(
    lines.filter((line) => ['first', 'fourth', 'lost 2 ENOSPC'].includes(line)),
    ['first', 'lost 2 ENOSPC', 'fourth'],
  );
  assert.not.ok(lines.includes('second') || lines.includes('third'));
});

test('a removed folder is created again, and no line is lost', ({ folder }) => {
  const file = open(folder);
  file.write('first');
  rmSync(folder, { recursive: true });
  file.write('second');
  file.close();
  assert.equal(contents(folder), { 'svc.log': 'second\n' });
  assert.is(statSync(folder).mode & 0o777, 0o700);
});

test('an impossible folder loses lines without an error, and reports them later', ({ folder }) => {
  const file = open(folder);
  file.write('first');
  rmSync(folder, { recursive: true });
  writeFileSync(folder, 'a file in its place');
  file.write('second');
  file.write('third');
  assert.is(file.lost, 2);
  rmSync(folder);
  file.write('fourth');
  file.close();
  assert.match(contents(folder)['svc.log'] ?? '', /^lost 2 E\w+\nfourth\n$/);
});

test('after the close, a write does nothing and throws nothing', ({ folder }) => {
  const file = open(folder);
  file.close();
  file.write('late');
  file.close();
  assert.is(contents(folder)['svc.log'], '');
  assert.ok(existsSync(folder));
});

test.run();
