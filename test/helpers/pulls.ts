import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { ModelRecord } from '../../src/contract/model-record.ts';
import type { SvcError } from '../../src/errors.ts';
import type { PullRecord } from '../../src/runtime/pulls/record.ts';
import { encodeGguf } from '../fixtures/models/gguf-bytes.ts';
import { Hub } from './hub.ts';
import { bootRuntime, type RuntimeOptions } from './runtime.ts';
import { ScriptedProvider } from './scripted-provider.ts';
import { waitFor } from './wait.ts';

/** A small complete GGUF file, different for each seed. */
export function makeModel(kibibytes: number, seed = 1): Buffer {
  const data = new Float32Array(kibibytes * 256).map((_, index) =>
    Math.fround(Math.sin(index * seed)),
  );
  return encodeGguf(
    [['general.architecture', 'string', 'llama']],
    [{ name: 'token_embd.weight', shape: [256, kibibytes], data }],
  );
}

/** Lists the models folder, as the engine provider does. */
class FolderProvider extends ScriptedProvider {
  private readonly folder: string;

  constructor(folder: string) {
    super('local', []);
    this.folder = folder;
  }

  override models(): Promise<ModelRecord[]> {
    const names = readdirSync(this.folder).filter((file) => file.endsWith('.gguf'));
    return Promise.resolve(names.map((file) => this.record(file)));
  }

  private record(file: string): ModelRecord {
    const path = join(this.folder, file);
    const name = file.replace(/\.gguf$/, '');
    const unknown = {
      digest: null,
      quantization: null,
      parameters: null,
      context_length: null,
      capabilities: [],
    };
    return {
      id: `local/${name}`,
      provider: 'local',
      name,
      state: 'available',
      size_bytes: statSync(path).size,
      ...unknown,
      default: false,
      built_in: false,
      path,
    };
  }
}

export interface Ending {
  records: PullRecord[];
  /** The last record. */
  last: PullRecord | undefined;
  error: SvcError | null;
}

export type PullHarness = Awaited<ReturnType<typeof bootPulls>>;

/**
 * The runtime with a hub and an empty models folder. The clock moves only when a pull waits for its
 * next attempt.
 */
export async function bootPulls(
  files: Record<string, Buffer>,
  options: Partial<RuntimeOptions> = {},
) {
  const hub = await Hub.start(files);
  const others: Hub[] = [];
  const own = mkdtempSync(join(tmpdir(), 'svc-pull-'));
  const folder = options.puller?.folder ?? own;
  const limits = { pull_progress_ms: 10, pull_spare_bytes: 0, ...options.limits };
  const env = { HF_ENDPOINT: hub.url, ...options.env };
  const harness = await bootRuntime({
    local: new FolderProvider(folder),
    ...options,
    limits,
    env,
    puller: { ...options.puller, folder },
  });
  const { runtime, clock, store } = harness;
  const partials = () => readdirSync(folder).filter((name) => name.endsWith('.partial'));
  const beforeCut = (end: number) =>
    waitFor(
      'what was sent is on disk',
      () => partials().some((name) => statSync(join(folder, name)).size >= end),
      { within_ms: 5000 },
    ).catch(() => {});
  hub.beforeCut = beforeCut;

  const pull = async (
    reference: string,
    input: {
      name?: string;
      sha256?: string;
      anyway?: boolean;
      signal?: AbortSignal;
      onRecord?: (record: PullRecord) => unknown;
    } = {},
  ): Promise<Ending> => {
    const {
      name = null,
      sha256 = null,
      anyway = false,
      signal = new AbortController().signal,
      onRecord = () => undefined,
    } = input;
    const records: PullRecord[] = [];
    try {
      for await (const record of runtime.pulls.pull(
        { reference, name, sha256, anyway },
        'test',
        signal,
      )) {
        records.push(record);
        await onRecord(record);
        if (record.state === 'backoff') clock.advance(60_000);
      }
      return { records, last: records.at(-1), error: null };
    } catch (error) {
      return { records, last: records.at(-1), error: error as SvcError };
    }
  };

  return {
    ...harness,
    hub,
    /** A server of another origin with the same files. */
    elsewhere: async () => {
      const other = await Hub.start(files);
      other.beforeCut = beforeCut;
      others.push(other);
      return other;
    },
    folder,
    pull,
    inFolder: () => readdirSync(folder).sort(),
    path: (file: string) => join(folder, file),
    sizeOf: (file: string) =>
      readdirSync(folder).includes(file) ? statSync(join(folder, file)).size : 0,
    /** The events of every pull, in order. */
    events: async () =>
      (await store.readAll(1, 10_000)).filter(({ stream }) => stream.startsWith('pull:')),
    /** Waits until this many bytes are on disk. */
    fetched: (file: string, bytes: number) =>
      waitFor(
        `${bytes} bytes of ${file} are on disk`,
        () =>
          readdirSync(folder).includes(`${file}.partial`) &&
          statSync(join(folder, `${file}.partial`)).size >= bytes,
      ),
    close: async () => {
      await harness.pulls.close();
      await harness.puller.close();
      for (const each of [hub, ...others]) await each.stop();
      rmSync(own, { recursive: true, force: true });
    },
  };
}

export const MODEL = makeModel(512);
export const OTHER = makeModel(512, 2);
export const FILE = 'tiny-Q4_K_M.gguf';
/** Where a test cuts a download. */
export const CUT = 200_000;

/** A test with its own hub and folder; the hub has MODEL as FILE. */
export function pulls(
  name: string,
  body: (harness: PullHarness) => Promise<void>,
  options: Partial<RuntimeOptions> = {},
): void {
  test(name, async () => {
    const harness = await bootPulls({ [FILE]: MODEL }, options);
    try {
      await body(harness);
    } finally {
      await harness.close();
    }
  });
}

/** The address of FILE, for a pull without a hub. */
export function address({ hub }: PullHarness): string {
  return `${hub.url}/${FILE}`;
}

/** The model is complete, and the folder has no other file. */
export function isThere({ inFolder, path }: PullHarness, model = MODEL, file = FILE): void {
  assert.equal(inFolder(), [file]);
  assert.ok(readFileSync(path(file)).equals(model));
}
