import { closeSync, mkdirSync, openSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { defaultLimits } from '../../../src/limits.ts';
import { text, uint32, uint64 } from '../../fixtures/models/gguf-bytes.ts';
import type { Attack } from '../attack.ts';

const TEXTS = { short: 200, long: 720 };
const FILES = { short: 8, long: 40 };
const TEXT_BYTES = 65_536;

/**
 * A list keeps a few values of each file. The metadata is read for one model at a time, as far as
 * its bound.
 */
export const attack: Attack = {
  summary: 'many small files whose metadata is large lie in the models folder',
  env: () => ({ SVC_LIMIT_MODEL_INSPECT_MS: '60000' }),
  memory_mib: { short: 450, long: 600 },
  async run({ home, life }, scale) {
    mkdirSync(home.paths.models, { recursive: true, mode: 0o700 });
    for (let index = 0; index < FILES[scale]; index += 1)
      writeSparse(join(home.paths.models, `large-${index}.gguf`), TEXTS[scale]);
    const list = async () => (await life.ask((client) => client.call('model.list'))).models;
    const end = performance.now() + 300_000;
    for (let models = await list(); ; models = await list()) {
      if (models.length <= FILES[scale]) throw new Error(`${models.length} models are listed.`);
      if (models.every(({ parameters }) => parameters !== null)) break;
      if (performance.now() > end) throw new Error('The files were not read.');
    }
    const { stdout } = await home.svc(['model', 'show', 'local/large-0', '--json']);
    const { metadata, metadata_left_out } = JSON.parse(stdout) as {
      metadata: object;
      metadata_left_out: number;
    };
    if (metadata_left_out < TEXTS[scale] / 2)
      throw new Error(`${metadata_left_out} entries are left out.`);
    if (Buffer.byteLength(JSON.stringify(metadata)) > 1.1 * defaultLimits.model_metadata_bytes)
      throw new Error('More metadata is shown than its bound.');
  },
};

/** A GGUF file of one tensor with many texts of zeros, which take no space on the disk. */
function writeSparse(path: string, texts: number): void {
  const file = openSync(path, 'w');
  let at = 0;
  const put = (...bytes: Buffer[]) => {
    const all = Buffer.concat(bytes);
    writeSync(file, all, 0, all.length, at);
    at += all.length;
  };
  put(
    Buffer.from('GGUF'),
    uint32(3),
    uint64(1),
    uint64(texts + 1),
    text('general.architecture'),
    uint32(8),
    text('llama'),
  );
  for (let index = 0; index < texts; index += 1) {
    put(text(`x.${index}`), uint32(8), uint64(TEXT_BYTES));
    at += TEXT_BYTES;
  }
  put(text('w'), uint32(1), uint64(32), uint32(0), uint64(0));
  at = Math.ceil(at / 32) * 32;
  put(Buffer.alloc(128));
  closeSync(file);
  if (statSync(path).size < texts * TEXT_BYTES) throw new Error('The file was not written.');
}
