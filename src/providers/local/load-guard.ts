import type { Failure } from '../../../machines/events.ts';
import { setNewest } from '../../async/newest.ts';
import { SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import type { ModelShape } from '../../models/index.ts';
import type { CheckResult } from './load-check.ts';
import type { ModelFile } from './model-files.ts';

/** The outcome of the last load of a version. */
export interface LoadOutcome {
  loaded: boolean;
  /** Why llama.cpp could not load it. Null: it did, or was not asked. */
  reason: string | null;
}

interface KnownVersion extends CheckResult, LoadOutcome {
  version: string;
  /** Loads in a row that ended with a death or a kill of the engine. */
  deaths: number;
}

/** A refused version of a file. */
interface Refusal {
  version: string;
  /** End of the refusal "The model …". */
  reason: string;
  until: number;
}

export interface LoadGuardOptions {
  limits: Pick<Limits, 'engine_quarantine_ms' | 'local_models'>;
  now(): number;
  /** The refusals of an earlier boot, as `text` had them. Null: none. */
  refused: string | null;
}

/**
 * Decides which versions of model files the engine may load.
 *
 * 1. A version is a path with size, modification time and inode of its files. A bounded number is
 *    kept.
 * 2. A version that exceeded a time limit is refused for a while. So is a version whose load killed
 *    the engine, or had to be killed, twice in a row.
 * 3. It is refused until its time is over, also after a restart. Another version is free at once.
 * 4. The error of llama.cpp for a version that it could not load is kept until it loads.
 */
export class LoadGuard {
  private readonly options: LoadGuardOptions;
  private readonly known = new Map<string, KnownVersion>();
  /** By path. */
  private readonly refusals: Map<string, Refusal>;

  constructor(options: LoadGuardOptions) {
    this.options = options;
    this.refusals = readRefusals(options.refused);
  }

  /** The check and the last load of this version. Null: it was not checked yet. */
  find(path: string, version: string): (CheckResult & LoadOutcome) | null {
    const known = this.known.get(path);
    return known?.version === version ? known : null;
  }

  learn(path: string, version: string, checked: CheckResult): CheckResult {
    const known = { version, ...checked, ...NOT_TRIED };
    setNewest(this.known, path, known, this.options.limits.local_models);
    return known;
  }

  /** Whether a version of the file is refused. */
  hasRefused({ path }: Pick<ModelFile, 'path'>): boolean {
    return this.refusals.has(path);
  }

  /** Throws model_quarantined. */
  refuse(model: ModelFile, version: string): void {
    const refusal = this.refusals.get(model.path);
    if (refusal?.version === version && refusal.until > this.options.now())
      throw quarantineError(model, refusal);
  }

  /**
   * Notes that an admitted file failed: its load, or its chat template. True: it is refused from
   * now on.
   */
  noteFailure(
    { path, server }: Pick<ModelFile, 'path' | 'server'>,
    { code, retryable, message = '' }: Pick<Failure, 'code' | 'retryable'> & Partial<Failure>,
  ): boolean {
    const known = this.known.get(path);
    if (known === undefined) return false;
    if (code === 'model_invalid') Object.assign(known, { reason: message, loaded: false });
    if (code !== 'engine_timed_out' && code !== 'engine_crashed') return false;
    known.deaths += 1;
    if (retryable && known.deaths < DEATHS_MAX) return false;
    known.deaths = 0;
    const now = this.options.now();
    const ofFile = code === 'engine_timed_out' ? 'hung the engine' : 'killed the engine';
    const reason = server === undefined ? ofFile : message;
    const until = now + this.options.limits.engine_quarantine_ms;
    setNewest(this.refusals, path, { version: known.version, reason, until }, REFUSALS_MAX);
    for (const [other, refusal] of this.refusals)
      if (refusal.until <= now) this.refusals.delete(other);
    return true;
  }

  noteLoaded({ path }: Pick<ModelFile, 'path'>): void {
    const known = this.known.get(path);
    if (known !== undefined) Object.assign(known, NOT_TRIED, { loaded: true });
  }

  /** The user says that it can start now. True: it was refused. */
  pardon({ path }: Pick<ModelFile, 'path'>): boolean {
    return this.refusals.delete(path);
  }

  /** The refusals for the next boot. */
  get text(): string {
    const text = JSON.stringify({ held: Object.fromEntries(this.refusals) }, null, 2);
    return `${text}\n`;
  }
}

const NOT_TRIED = { loaded: false, reason: null, deaths: 0 };

/** One death may be chance: the system ran out of memory, or a user killed the process. */
const DEATHS_MAX = 2;
const REFUSALS_MAX = 64;

/** The numbers of a checked model. Throws model_invalid. */
export function shapeIn({ problem, shape }: CheckResult, { name }: ModelFile): ModelShape {
  if (problem === null && shape !== null) return shape;
  const message = problem === null ? undefined : `${name}: ${problem}`;
  throw new SvcError('model_invalid', message, { retryable: false });
}

function quarantineError({ name, server }: ModelFile, { reason, until }: Refusal): SvcError {
  const time = new Date(until).toISOString();
  const message =
    server === undefined
      ? `The model ${name} ${reason}, so this version of its file is refused until ${time}.`
      : `The server of ${server.id} is not started again until ${time}: it failed twice in a ` +
        `row, or hung. To start it now: svc model load ${server.id}. ${reason}`;
  return new SvcError('model_quarantined', message, { retryable: false });
}

/** An unreadable file counts as empty: its content only saves time. */
function readRefusals(text: string | null): Map<string, Refusal> {
  try {
    const { held } = JSON.parse(text ?? '') as { held: Record<string, unknown> };
    const known = Object.entries(held).filter((entry): entry is [string, Refusal] =>
      isRefusal(entry[1]),
    );
    return new Map(known.slice(-REFUSALS_MAX));
  } catch {
    return new Map();
  }
}

function isRefusal(value: unknown): value is Refusal {
  const { version, reason, until } = (value ?? {}) as Partial<Refusal>;
  return typeof version === 'string' && typeof reason === 'string' && Number.isSafeInteger(until);
}
