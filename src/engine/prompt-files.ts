import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { mkdir, open, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { isAlive } from '../home/process-alive.ts';
import { asRecord } from '../json.ts';
import type { Log } from '../ports/log.ts';
import type { PromptReport } from './protocol/from-engine.ts';

/**
 * Files of computed prompts. Each has the state of one sequence of llama.cpp, its description in
 * JSON, and a tail: the length and the checksum of the description, and a mark.
 *
 * 1. A file gets its name when it is whole and on the disk. Until then it is a draft, with the pid
 *    of its writer.
 * 2. Its name says the model file, the engine and the tokens.
 * 3. While it is read it is a draft too: a file that ends its reader is not read again.
 * 4. The least recently used leave when all files together exceed their budget.
 */

/** What computed a sequence. Another one computes other numbers, or reads other bytes. */
export interface PromptKey {
  /** The identity of the model file. */
  model: string;
  /** The engine, its build and its settings. */
  engine: string;
}

/** The metadata of a file about its sequence. */
export interface PromptMeta extends PromptKey {
  client: string;
  /** The run that left the sequence so. */
  run: string;
  tokens: number[];
  /** How they were computed, and how many of them without other runs. */
  parts: number[];
  alone: number;
  /** The state before the description, and its checksum. */
  state_bytes: number;
  state_crc: number;
}

export interface PromptFile {
  path: string;
  bytes: number;
  meta: PromptMeta;
}

const SUFFIX = '.prompt';
const DRAFT = /^(\d+)\.\d+\.draft$/;
/** Files of all models. The tail of each is read at a load. */
const FILES_MAX = 256;
const MARK = 'svcprm1\n';
const TAIL_BYTES = 8 + MARK.length;
/** Of a description: a million tokens need less. */
const META_BYTES_MAX = 16 * 1024 * 1024;
const READ_BYTES = 1024 * 1024;
/** No draft takes so long. */
const DRAFT_MS = 600_000;

export function promptFileName(key: PromptKey, tokens: readonly number[]): string {
  return `${keyName(key)}-${digest(Buffer.from(Uint32Array.from(tokens).buffer))}${SUFFIX}`;
}

function keyName({ model, engine }: PromptKey): string {
  return `${digest(model)}-${digest(engine)}`;
}

function digest(of: string | Buffer): string {
  return createHash('sha256').update(of).digest('hex').slice(0, 16);
}

let drafts = 0;

/** A name that ends with this process. */
export function draftPath(folder: string): string {
  drafts += 1;
  return join(folder, `${process.pid}.${drafts}.draft`);
}

/** The path of a new empty draft. Only its owner can read it. */
export async function newDraft(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const path = draftPath(folder);
  await rm(path, { force: true });
  await (await open(path, 'wx', 0o600)).close();
  return path;
}

/** Completes a draft that has a state, and waits until it is on the disk. */
export async function seal(
  draft: string,
  meta: Omit<PromptMeta, 'state_bytes' | 'state_crc'>,
): Promise<void> {
  const file = await open(draft, 'r+');
  try {
    const { size } = await file.stat();
    const state_crc = await crcOf(file, size);
    const described = Buffer.from(JSON.stringify({ ...meta, state_bytes: size, state_crc }));
    const tail = Buffer.alloc(TAIL_BYTES);
    tail.writeUInt32LE(described.length, 0);
    tail.writeUInt32LE(crc32(described), 4);
    tail.write(MARK, 8);
    const end = Buffer.concat([described, tail]);
    await file.write(end, 0, end.length, size);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** The metadata of the file. Null: it is damaged. Throws if it is unreadable. */
export async function readPromptFile(path: string): Promise<PromptFile | null> {
  const file = await open(path, 'r');
  try {
    const meta = await readMeta(file);
    return meta === null ? null : { path, bytes: (await file.stat()).size, meta };
  } finally {
    await file.close();
  }
}

/** Whether each byte of the file is as it was written. Throws if it is unreadable. */
export async function isWhole({ path, meta }: PromptFile): Promise<boolean> {
  const file = await open(path, 'r');
  try {
    const now = await readMeta(file);
    return (
      now !== null &&
      JSON.stringify(now) === JSON.stringify(meta) &&
      (await crcOf(file, meta.state_bytes)) === meta.state_crc
    );
  } finally {
    await file.close();
  }
}

async function readMeta(file: FileHandle): Promise<PromptMeta | null> {
  const { size } = await file.stat();
  if (size < TAIL_BYTES) return null;
  const tail = await read(file, size - TAIL_BYTES, TAIL_BYTES);
  const [length, crc] = [tail.readUInt32LE(0), tail.readUInt32LE(4)];
  const start = size - TAIL_BYTES - length;
  if (tail.toString('latin1', 8) !== MARK || length > META_BYTES_MAX || start < 0) return null;
  const described = await read(file, start, length);
  if (crc32(described) !== crc) return null;
  const meta = asRecord(JSON.parse(described.toString()));
  return meta.state_bytes === start ? (meta as unknown as PromptMeta) : null;
}

/** Short at the end of the file. */
async function read(file: FileHandle, from: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, from);
  return bytesRead < length ? buffer.subarray(0, bytesRead) : buffer;
}

async function crcOf(file: FileHandle, bytes: number): Promise<number> {
  const buffer = Buffer.alloc(READ_BYTES);
  let crc = 0;
  for (let at = 0; at < bytes; ) {
    const { bytesRead } = await file.read(buffer, 0, Math.min(READ_BYTES, bytes - at), at);
    if (bytesRead === 0) return -1;
    crc = crc32(buffer.subarray(0, bytesRead), crc);
    at += bytesRead;
  }
  return crc;
}

interface Listed {
  path: string;
  name: string;
  bytes: number;
  /** When it was used or written. */
  used: number;
}

/** The files of a folder, the least recently used first. `key`: those of it alone. */
export async function listPrompts(folder: string, key?: PromptKey): Promise<Listed[]> {
  const names = await readdir(folder).catch(() => []);
  const wanted = key === undefined ? '' : `${keyName(key)}-`;
  const found = await Promise.all(
    names
      .filter((name) => name.endsWith(SUFFIX) && name.startsWith(wanted))
      .map(async (name) => {
        const path = join(folder, name);
        const info = await stat(path).catch(() => null);
        return info === null ? [] : [{ path, name, bytes: info.size, used: info.mtimeMs }];
      }),
  );
  return found.flat().sort((one, other) => one.used - other.used);
}

/** Removes files until there is room for so many bytes more. Returns their paths. */
export async function makeRoom(folder: string, budget: number, bytes: number): Promise<string[]> {
  await removeOldDrafts(folder);
  const files = await listPrompts(folder);
  let sum = files.reduce((all, file) => all + file.bytes, bytes);
  const removed: string[] = [];
  for (const file of files) {
    if (sum <= budget && files.length - removed.length <= FILES_MAX) break;
    await rm(file.path, { force: true });
    sum -= file.bytes;
    removed.push(file.path);
  }
  return removed;
}

/** Drafts of processes that are gone. After a reboot another process may have the pid. */
async function removeOldDrafts(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    const pid = Number(DRAFT.exec(name)?.[1]);
    if (!(pid > 0)) continue;
    const path = join(folder, name);
    const changed = await stat(path).then(
      ({ mtimeMs }) => mtimeMs,
      () => 0,
    );
    if (!isAlive(pid) || Date.now() - changed > DRAFT_MS) await rm(path, { force: true });
  }
}

/** The files of computed prompts, as the daemon sees them. Engines write and read them. */
export class PromptFiles {
  readonly folder: string;
  readonly budget_bytes: number;
  private readonly log: Log;
  private readonly hasRun: (run_id: string) => Promise<boolean>;

  constructor({
    cache,
    budget_bytes,
    log,
    hasRun = async () => true,
  }: {
    /** The cache folder of the home. */
    cache: string;
    budget_bytes: number;
    log: Log;
    /** Whether the history still has a run. */
    hasRun?: ((run_id: string) => Promise<boolean>) | undefined;
  }) {
    this.folder = join(cache, 'prompts');
    this.budget_bytes = budget_bytes;
    this.log = log;
    this.hasRun = hasRun;
  }

  /** Logs what an engine did with a file. */
  note(model: string, { did, reason, ...report }: PromptReport): void {
    const fields = { model, ...report };
    if (did === 'removed')
      this.log.warn({ ...fields, reason }, 'the file of a computed prompt is refused and removed');
    else this.log.info(fields, `the file of a computed prompt was ${did}`);
    // The run may have been removed while its engine had the prompt, or read the file.
    if (did !== 'removed') void this.removeWithout([join(this.folder, report.file)]);
  }

  /** Removes the files of runs that the history has no more, and all if none may be kept. */
  async sweep(): Promise<void> {
    const files = await listPrompts(this.folder);
    if (this.budget_bytes === 0) await makeRoom(this.folder, 0, 0);
    else await this.removeWithout(files.map(({ path }) => path));
  }

  private async removeWithout(paths: readonly string[]): Promise<void> {
    try {
      for (const path of paths) {
        const run = (await readPromptFile(path).catch(() => null))?.meta.run;
        if (run !== undefined && !(await this.hasRun(run))) await rm(path, { force: true });
      }
    } catch (error) {
      // The next sweep asks again.
      this.log.debug({ err: error }, 'computed prompts were not compared with the history');
    }
  }
}
