import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../../src/errors.ts';
import { packageRoot } from '../../../src/home/paths.ts';
import { checkGguf } from '../../../src/models/gguf/check.ts';
import type { Entry } from '../../fixtures/models/gguf-bytes.ts';
import { makeGguf } from '../../fixtures/models/make-gguf.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-gguf-'));
const HEADER_MAX = 16 * 1024 * 1024;

/** Null: it is a whole model. */
async function verdict(bytes: Buffer, headerMax = HEADER_MAX): Promise<string | null> {
  const path = join(folder, 'file.gguf');
  writeFileSync(path, bytes);
  try {
    await checkGguf(path, headerMax);
    return null;
  } catch (error) {
    assert.is((error as SvcError).code, 'model_invalid');
    return (error as SvcError).message;
  }
}

const model = readFileSync(makeGguf(join(folder, 'model.gguf')));

test('whole models are whole: those that were made, and the built-in one', async () => {
  assert.is(await verdict(model), null);
  const quantized = makeGguf(join(folder, 'quantized.gguf'), { width: 256, bits: 4 });
  assert.is(await verdict(readFileSync(quantized)), null);
  await checkGguf(join(packageRoot(), 'src/providers/mini/svc-mini.gguf'), HEADER_MAX);
});

test('a model that lost its last byte, or any more of its end, is not whole', async () => {
  for (const lost of [
    1,
    31,
    4096,
    model.length >> 1,
    model.length - 100,
    model.length - 24,
    model.length - 5,
    model.length,
  ]) {
    assert.ok(await verdict(model.subarray(0, model.length - lost)), `${lost} bytes lost`);
  }
});

test('a file of another kind is refused', async () => {
  for (const bytes of [
    Buffer.from('<html>'),
    Buffer.alloc(100),
    Buffer.from('GGML'),
    Buffer.from('GGUF'),
  ])
    assert.ok(await verdict(bytes));
  const at = (offset: number, value: bigint, size: 4 | 8) => {
    const copy = Buffer.from(model);
    if (size === 4) copy.writeUInt32LE(Number(value), offset);
    else copy.writeBigUInt64LE(value, offset);
    return copy;
  };
  assert.match((await verdict(at(4, 1n, 4))) ?? '', /version is 1/);
  assert.match((await verdict(at(4, 0x03000000n, 4))) ?? '', /byte order/);
  assert.match((await verdict(at(8, 0n, 8))) ?? '', /no weights/);
  assert.match((await verdict(at(8, 2n ** 63n, 8))) ?? '', /too large/);
  assert.match((await verdict(at(8, 10n ** 9n, 8))) ?? '', /tensors/);
  assert.match((await verdict(at(16, 10n ** 9n, 8))) ?? '', /entries/);
  assert.ok(await verdict(at(24, 2n ** 40n, 8)), 'a key longer than the file');
});

test('a header without an end is read no further than its bound', async () => {
  const head = Buffer.alloc(24 + 8 + 1 + 4 + 4 + 8);
  head.write('GGUF', 0);
  head.writeUInt32LE(3, 4);
  head.writeBigUInt64LE(1n, 8);
  head.writeBigUInt64LE(1n, 16);
  head.writeBigUInt64LE(1n, 24);
  head.write('k', 32);
  head.writeUInt32LE(9, 33);
  head.writeUInt32LE(8, 37);
  const bytes = Buffer.concat([head, Buffer.alloc(3_000_000)]);
  bytes.writeBigUInt64LE(2_000_000n, 41);
  assert.match((await verdict(bytes, 2_000_000)) ?? '', /longer than/);
  bytes.writeBigUInt64LE(2_000_001n, 41);
  assert.match((await verdict(bytes, 2_000_000)) ?? '', /lists more than 2000000 texts/);
  // Two lists: the first has one empty text.
  const entry = head.subarray(24);
  const both = Buffer.concat([head, Buffer.alloc(8), entry, Buffer.alloc(3_000_000)]);
  both.writeBigUInt64LE(2n, 16);
  both.writeBigUInt64LE(1n, 41);
  const second = head.length + 8 + 17;
  both.writeBigUInt64LE(1_999_999n, second);
  assert.match((await verdict(both, 2_000_000)) ?? '', /longer than/);
  both.writeBigUInt64LE(2_000_000n, second);
  assert.match((await verdict(both, 2_000_000)) ?? '', /lists more than 2000000 texts/);
});

test('an entry is decoded as its type says, and has a number for the estimate of memory', async () => {
  const path = join(folder, 'entries.gguf');
  const numbers = Array.from({ length: 1025 }, (_, at) => at);
  const metadata: Entry[] = [
    ['x.word', 'uint16', 65_535],
    ['x.whole', 'uint32', 4_294_967_295],
    ['x.minus', 'int32', -7],
    ['x.part', 'float32', 0.5],
    ['x.yes', 'bool', true],
    ['x.text', 'string', 'a\u00e9'],
    ['x.texts', 'strings', ['a', '', 'c']],
    ['x.layers', 'int32s', [2, 9, 4]],
    ['x.parts', 'float32s', [0.25, 2]],
    ['x.many', 'int32s', numbers],
    ['x.none', 'int32s', []],
  ];
  makeGguf(path, { metadata });
  const [{ entries, tensors }] = await checkGguf(path, HEADER_MAX);
  for (const [key, , value] of metadata) assert.equal(entries.value(key), value, key);
  const numbersOf = (...keys: string[]) => keys.map((key) => entries.number(`x.${key}`));
  assert.equal(numbersOf('whole', 'minus', 'part'), [4_294_967_295, -7, 0.5]);
  assert.equal(numbersOf('layers', 'parts', 'texts', 'many', 'none'), [9, 2, 3, 1025, 0]);
  assert.equal(numbersOf('yes', 'text', 'absent'), [undefined, undefined, undefined]);
  assert.equal([entries.count('x.texts'), entries.count('x.word')], [3, null]);
  assert.equal(entries.value('x.word', 4), undefined, 'it has another type');
  assert.ok(tensors.some(({ name, elements }) => name === 'output_norm.weight' && elements > 0));
});

test('a file with one wrong byte in its header is refused or accepted, and never crashes', async () => {
  for (let offset = 0; offset < 400; offset += 1) {
    for (const value of [0, 255]) {
      const copy = Buffer.from(model);
      copy.writeUInt8(value, offset);
      await verdict(copy);
    }
  }
});

test.after(() => rmSync(folder, { recursive: true, force: true }));

test.run();
