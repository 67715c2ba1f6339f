import { readFileSync } from 'node:fs';
import type { Failure } from '../../../machines/events.ts';
import { setNewest } from '../../async/newest.ts';
import { errors, SvcError } from '../../errors.ts';
import { writeAtomic } from '../../home/atomic-write.ts';
import type { Limits } from '../../limits.ts';
import { filesOfModel, type ModelShape, PROCESS_BYTES, weightsOf } from '../../models/index.ts';
import { type CheckResult, checkHeader } from './gguf-checker.ts';
import type { ModelFile } from './model-files.ts';
import { serverFiles } from './servers/server-process.ts';

export interface LoadGuardOptions {
  /** Path of the built-in model. */
  built_in: string;
  /** File of the refused versions. */
  file: string;
  limits: Pick<
    Limits,
    'model_inspect_ms' | 'model_header_bytes' | 'engine_quarantine_ms' | 'local_models'
  >;
  now?: () => number;
}

/**
 * Decides which model files the engine may load. It owns the knowledge about their versions.
 *
 * 1. The engine loads a file only after the strict check of its header. The built-in model needs no
 *    check.
 * 2. A version that exceeded a time limit is refused for a while. So is a version whose load killed
 *    the engine, or had to be killed, twice in a row.
 * 3. The error of llama.cpp for a version that it could not load is kept until it loads.
 * 4. A version is a path with size, modification time and inode of its files. A bounded number is
 *    kept.
 */
export class LoadGuard {
  private readonly options: LoadGuardOptions;
  private readonly quarantine: Quarantine;
  private readonly now: () => number;
  private readonly known = new Map<string, KnownVersion>();

  constructor(options: LoadGuardOptions) {
    this.options = options;
    this.now = options.now ?? Date.now;
    this.quarantine = new Quarantine(options.file, this.now);
  }

  /**
   * Call it before each load. Returns the numbers that determine the memory of the model, with
   * those of its draft model. Throws model_invalid, model_quarantined, descriptors_exhausted.
   */
  async admit(model: ModelFile): Promise<ModelShape> {
    const { draft } = model;
    const shape = await this.admitFile(model);
    return draft === undefined ? shape : { ...shape, draft: await this.admit(draft) };
  }

  private async admitFile(model: ModelFile): Promise<ModelShape> {
    const { path } = model;
    if (path === this.options.built_in) return { ...MINI, weights: await weightsOf(path) };
    const version = await versionOf(model);
    this.refuseQuarantined(model, version);
    let known = this.known.get(path);
    if (known?.version !== version) {
      const checked = await this.check(model);
      known = { version, ...checked, ...NOT_TRIED };
      this.remember(path, known);
    }
    const { problem, shape } = known;
    if (problem !== null || shape === null)
      throw new SvcError(
        'model_invalid',
        problem === null ? undefined : `${model.name}: ${problem}`,
        { retryable: false },
      );
    return shape;
  }

  /** The outcome of the last load of this version. */
  outcomeOf(path: string, version: string): LoadOutcome {
    const known = this.known.get(path);
    return known?.version === version ? known : NOT_TRIED;
  }

  private check({ path, server }: ModelFile): Promise<CheckResult> {
    return server === undefined ? checkHeader(path, this.options.limits) : serverShape(server);
  }

  /** Call it before each use of a loaded file. Throws model_quarantined. */
  async readmit(model: ModelFile): Promise<void> {
    if (this.quarantine.has(model.path)) this.refuseQuarantined(model, await versionOf(model));
  }

  private refuseQuarantined(model: ModelFile, version: string): void {
    const refusal = this.quarantine.find(model.path, version);
    if (refusal !== null) throw quarantineError(model, refusal);
  }

  /** Records that an admitted file failed: its load, or its chat template. */
  async noteFailure(
    { path, server }: Pick<ModelFile, 'path' | 'server'>,
    { code, retryable, message = '' }: Pick<Failure, 'code' | 'retryable'> & Partial<Failure>,
  ): Promise<void> {
    const known = this.known.get(path);
    if (known !== undefined && code === 'model_invalid') {
      known.reason = message;
      known.loaded = false;
    }
    if (known === undefined || (code !== 'engine_timed_out' && code !== 'engine_crashed')) return;
    known.deaths += 1;
    if (retryable && known.deaths < DEATHS_MAX) return;
    const until = this.now() + this.options.limits.engine_quarantine_ms;
    const ofFile = code === 'engine_timed_out' ? 'hung the engine' : 'killed the engine';
    const reason = server === undefined ? ofFile : message;
    await this.quarantine.add(path, { version: known.version, reason, until });
    known.deaths = 0;
  }

  noteLoaded({ path }: ModelFile): void {
    const known = this.known.get(path);
    if (known !== undefined) Object.assign(known, NOT_TRIED, { loaded: true });
  }

  /** The user says that it can start now. */
  async pardon({ path }: Pick<ModelFile, 'path'>): Promise<void> {
    if (this.quarantine.has(path)) await this.quarantine.drop(path);
  }

  private remember(path: string, known: KnownVersion): void {
    setNewest(this.known, path, known, this.options.limits.local_models);
  }
}

/** The shape of the built-in model. A test compares it with the file. */
export const MINI: Omit<ModelShape, 'weights'> = {
  layers: 4,
  width: 160,
  heads: 5,
  keys: 160,
  values: 160,
  vocabulary: 8430,
  context: 512,
};

/** The outcome of a load of a version. */
export interface LoadOutcome {
  loaded: boolean;
  /** Why llama.cpp could not load it. Null: it did, or was not asked. */
  reason: string | null;
}

const NOT_TRIED = { loaded: false, reason: null, deaths: 0 };

interface KnownVersion extends CheckResult, LoadOutcome {
  version: string;
  /** Loads in a row that ended with a death or a kill of the engine. */
  deaths: number;
}

/** One death may be chance: the system ran out of memory, or a user killed the process. */
const DEATHS_MAX = 2;

/** The known needs of a server. It has no file whose header could be checked. */
async function serverShape(server: NonNullable<ModelFile['server']>): Promise<CheckResult> {
  const { memory_bytes } = server;
  const bytes = memory_bytes === null ? (await serverFiles(server)).bytes : memory_bytes;
  const weights = memory_bytes === null ? bytes : Math.max(0, bytes - PROCESS_BYTES);
  return { problem: null, shape: { ...NO_SHAPE, weights } };
}

const NO_SHAPE = { layers: 0, width: 0, heads: 0, keys: 0, values: 0, vocabulary: 0, context: 0 };

async function versionOf({ path, server }: ModelFile): Promise<string> {
  if (server !== undefined) return (await serverFiles(server)).version;
  const unknown = (cause?: unknown) =>
    new SvcError('model_unknown', errors.model_unknown.meaning, { retryable: false, cause });
  const found = await filesOfModel(path).catch((cause: unknown) => {
    throw unknown(cause);
  });
  if (found === null) throw unknown();
  return found.version;
}

function quarantineError({ name, server }: ModelFile, { reason, until }: Refusal): SvcError {
  const time = new Date(until).toISOString();
  if (server === undefined)
    return new SvcError(
      'model_quarantined',
      `The model ${name} ${reason}, so this version of its file is refused until ${time}.`,
      { retryable: false },
    );
  return new SvcError(
    'model_quarantined',
    `The server of ${server.id} is not started again until ${time}: it failed twice in a row, or ` +
      `hung. To start it now: svc model load ${server.id}. ${reason}`,
    { retryable: false },
  );
}

/** A refused version of a file. */
interface Refusal {
  version: string;
  /** End of the refusal "The model …". */
  reason: string;
  until: number;
}

/**
 * Versions of model files that hung or killed the engine, by path.
 *
 * 1. A version is refused until its time is over, also after a restart. Another version is free at
 *    once.
 * 2. At most `ENTRIES_MAX` are kept. The oldest are dropped.
 * 3. An unreadable file counts as empty: its content only saves time.
 */
class Quarantine {
  private readonly file: string;
  private readonly now: () => number;
  private readonly refusals: Map<string, Refusal>;
  private writing: Promise<void> = Promise.resolve();

  constructor(file: string, now: () => number) {
    this.file = file;
    this.now = now;
    this.refusals = readRefusals(file);
  }

  has(path: string): boolean {
    return this.refusals.has(path);
  }

  find(path: string, version: string): Refusal | null {
    const refusal = this.refusals.get(path);
    return refusal !== undefined && refusal.version === version && refusal.until > this.now()
      ? refusal
      : null;
  }

  async drop(path: string): Promise<void> {
    this.refusals.delete(path);
    await this.save();
  }

  async add(path: string, refusal: Refusal): Promise<void> {
    this.refusals.delete(path);
    this.refusals.set(path, refusal);
    for (const [other, { until }] of this.refusals)
      if (until <= this.now() || this.refusals.size > ENTRIES_MAX) this.refusals.delete(other);
    await this.save();
  }

  private save(): Promise<void> {
    this.writing = this.writing.then(() => this.write());
    return this.writing;
  }

  /** A failed write only loses the memory of a restart. */
  private async write(): Promise<void> {
    const text = JSON.stringify({ held: Object.fromEntries(this.refusals) }, null, 2);
    await writeAtomic(this.file, `${text}\n`).catch(() => {});
  }
}

const ENTRIES_MAX = 64;

function readRefusals(file: string): Map<string, Refusal> {
  try {
    const { held } = JSON.parse(readFileSync(file, 'utf8')) as { held: Record<string, unknown> };
    const known = Object.entries(held).filter((entry): entry is [string, Refusal] =>
      isRefusal(entry[1]),
    );
    return new Map(known.slice(-ENTRIES_MAX));
  } catch {
    return new Map();
  }
}

function isRefusal(value: unknown): value is Refusal {
  const { version, reason, until } = (value ?? {}) as Partial<Refusal>;
  return typeof version === 'string' && typeof reason === 'string' && Number.isSafeInteger(until);
}
