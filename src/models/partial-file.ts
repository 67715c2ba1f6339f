import { type FileHandle, open, readFile, rm } from 'node:fs/promises';
import { writeAtomic } from '../home/atomic-write.ts';
import { addInterval, bytesIn, endOf, type Interval, isIntervals } from './intervals.ts';
import { type PullPaths, sizeOf } from './paths.ts';

/** The identity of the wanted file. */
export type Identity = Pick<Sidecar, 'url' | 'etag' | 'size_bytes' | 'sha256'>;

/**
 * The downloaded part of a model.
 *
 * 1. All its bytes belong to the file that its sidecar names. While it is emptied, it has no
 *    sidecar.
 * 2. It survives cancels, crashes and restarts. After a power cut it continues from the last synced
 *    byte.
 * 3. With one connection the size of the file says how far it is. With several the sidecar lists
 *    the parts, at most `NOTE_BYTES` late. It does so before the second connection writes.
 */
export class PartialFile {
  private readonly paths: PullPaths;
  private readonly sync_bytes: number;
  private readonly host_boot_id: string | null;
  private sidecar: Sidecar | null;
  private handle: FileHandle | null = null;
  /** Downloaded bytes. */
  private have: readonly Interval[];
  /** Bytes that survive a power cut. */
  private synced: readonly Interval[];
  private noted = 0;
  private scattered: boolean;
  /** One change of the sidecar at a time. */
  private turn: Promise<unknown> = Promise.resolve();

  private constructor(
    paths: PullPaths,
    options: { sync_bytes: number; host_boot_id: string | null },
    found: { sidecar: Sidecar; have: readonly Interval[] } | null,
  ) {
    this.paths = paths;
    this.sync_bytes = options.sync_bytes;
    this.host_boot_id = options.host_boot_id;
    this.sidecar = found?.sidecar ?? null;
    this.have = found?.have ?? [];
    this.scattered = found?.sidecar.parts !== undefined;
    this.synced = this.scattered
      ? (found?.sidecar.synced_parts ?? [])
      : first(Math.min(found?.sidecar.synced_bytes ?? 0, this.bytes));
  }

  /** Finds the part of the wanted file. Ignores the bytes of any other file. */
  static async find(
    paths: PullPaths,
    wanted: Identity,
    options: { sync_bytes: number; host_boot_id: string | null },
  ): Promise<PartialFile> {
    const sidecar = await readSidecar(paths.sidecar);
    const size = await sizeOf(paths.partial);
    if (sidecar === null || size === null || !isSame(sidecar, wanted))
      return new PartialFile(paths, options, null);
    // Without a boot id of the host, a power cut may have happened.
    const sameLife = sidecar.host_boot_id !== null && sidecar.host_boot_id === options.host_boot_id;
    const parts = sameLife ? sidecar.parts : sidecar.synced_parts;
    const have = parts ?? first(sameLife ? size : Math.min(size, sidecar.synced_bytes ?? 0));
    return new PartialFile(paths, options, { sidecar, have: findUsable(have, size, sidecar) });
  }

  /** Number of downloaded bytes. */
  get bytes(): number {
    return bytesIn(this.have);
  }

  /** The first missing byte. */
  get offset(): number {
    const [from, to] = this.have[0] ?? [0, 0];
    return from === 0 ? to : 0;
  }

  get parts(): readonly Interval[] {
    return this.have;
  }

  /** The file of the downloaded bytes. Null: there are none. */
  get identity(): Identity | null {
    return this.bytes === 0 ? null : this.sidecar;
  }

  /** Forgets the downloaded bytes. The next file overwrites them. */
  startOver(): void {
    this.sidecar = null;
    this.have = [];
    this.synced = [];
    this.noted = 0;
    this.scattered = false;
  }

  /** Opens the file to write the missing bytes. */
  async begin(identity: Identity): Promise<void> {
    if (this.bytes === 0) await this.empty();
    this.handle ??= await open(this.paths.partial, 'r+');
    await this.handle.truncate(endOf(this.have));
    await this.note(identity);
  }

  /** From now on any missing byte may be written, not only the first one. */
  async scatter(): Promise<void> {
    this.scattered = true;
    await this.runInTurn(() => this.note(this.requireSidecar()));
  }

  /** Writes bytes at their position in the file. */
  async write(chunk: Uint8Array, position: number): Promise<void> {
    const handle = this.requireHandle();
    for (let written = 0; written < chunk.length; ) {
      const { bytesWritten } = await handle.write(
        chunk,
        written,
        chunk.length - written,
        position + written,
      );
      const from = position + written;
      written += bytesWritten;
      this.have = addInterval(this.have, [from, from + bytesWritten]);
    }
    if (this.isDue()) await this.runInTurn(async () => this.isDue() && (await this.keep()));
  }

  /** The first bytes of the file. */
  async head(length: number): Promise<Buffer> {
    const { buffer, bytesRead } = await this.requireHandle().read(
      Buffer.alloc(length),
      0,
      length,
      0,
    );
    return buffer.subarray(0, bytesRead);
  }

  /** Makes all written bytes durable. */
  async sync(): Promise<void> {
    await this.runInTurn(() => this.syncNow());
  }

  /** No connection may write any more. */
  async close(): Promise<void> {
    const { handle } = this;
    if (handle !== null && this.scattered && this.noted !== this.bytes)
      await this.runInTurn(() => this.note(this.requireSidecar())).catch(() => undefined);
    this.handle = null;
    await handle?.close();
  }

  private isDue(): boolean {
    return (
      this.bytes - bytesIn(this.synced) >= this.sync_bytes ||
      (this.scattered && this.bytes - this.noted >= NOTE_BYTES)
    );
  }

  private keep(): Promise<void> {
    const unsynced = this.bytes - bytesIn(this.synced);
    return unsynced >= this.sync_bytes ? this.syncNow() : this.note(this.requireSidecar());
  }

  private async syncNow(): Promise<void> {
    const { have } = this;
    await this.requireHandle().datasync();
    this.synced = have;
    await this.note(this.requireSidecar());
  }

  private async empty(): Promise<void> {
    this.startOver();
    await rm(this.paths.sidecar, { force: true });
    this.handle = await open(this.paths.partial, 'w+', 0o600);
  }

  private async note({ url, etag, size_bytes, sha256 }: Identity): Promise<void> {
    this.noted = this.bytes;
    const { host_boot_id } = this;
    this.sidecar = {
      url,
      etag,
      size_bytes,
      sha256,
      host_boot_id,
      // Earlier versions of svc ignore a sidecar without this number, and do not know parts.
      synced_bytes: this.scattered ? null : bytesIn(this.synced),
      ...(this.scattered ? { parts: [...this.have], synced_parts: [...this.synced] } : {}),
    };
    await writeSidecar(this.paths.sidecar, this.sidecar);
  }

  private runInTurn(work: () => Promise<unknown>): Promise<void> {
    const mine = this.turn.then(work).then(() => undefined);
    this.turn = mine.catch(() => undefined);
    return mine;
  }

  private requireSidecar(): Identity {
    if (this.sidecar === null) throw new Error('the partial file has no identity');
    return this.sidecar;
  }

  private requireHandle(): FileHandle {
    if (this.handle === null) throw new Error('the partial file is not open');
    return this.handle;
  }
}

/** The most that a crash loses of a download with several connections. */
const NOTE_BYTES = 4 * 1024 * 1024;

function first(bytes: number): Interval[] {
  return bytes > 0 ? [[0, bytes]] : [];
}

/** Whether the content is the same: by hash, or by URL and an ETag that the server will confirm. */
function isSame(sidecar: Sidecar, wanted: Identity): boolean {
  if (
    sidecar.size_bytes !== null &&
    wanted.size_bytes !== null &&
    sidecar.size_bytes !== wanted.size_bytes
  )
    return false;
  if (sidecar.sha256 !== null && wanted.sha256 !== null) return sidecar.sha256 === wanted.sha256;
  return sidecar.url === wanted.url && sidecar.etag !== null;
}

/**
 * The bytes that a request can continue from: 0 for a file that ends elsewhere. The last byte of a
 * whole file is left out, so that a request can confirm the file.
 */
function findUsable(
  have: readonly Interval[],
  there: number,
  { size_bytes }: Pick<Sidecar, 'size_bytes'>,
): readonly Interval[] {
  if (endOf(have) > Math.min(there, size_bytes ?? there)) return [];
  return bytesIn(have) === size_bytes ? first(size_bytes - 1) : have;
}

/** The identity of a partial file, and how much of it is durable. */
interface Sidecar {
  /** Without the query. */
  url: string;
  /** Only a strong ETag is kept. */
  etag: string | null;
  size_bytes: number | null;
  sha256: string | null;
  /** Bytes that survive a power cut. Null: `synced_parts` says it. */
  synced_bytes: number | null;
  /** The downloaded parts, of a download with several connections. */
  parts?: Interval[];
  /** The parts that survive a power cut. */
  synced_parts?: Interval[];
  /** Boot of the host that wrote it. In the same boot all written bytes are there. */
  host_boot_id: string | null;
}

/** Null: it is absent or unreadable. */
async function readSidecar(path: string): Promise<Sidecar | null> {
  try {
    const value = JSON.parse(await readFile(path, 'utf8')) as unknown;
    return isSidecar(value) ? value : null;
  } catch {
    return null;
  }
}

async function writeSidecar(path: string, sidecar: Sidecar): Promise<void> {
  await writeAtomic(path, `${JSON.stringify(sidecar)}\n`, { draft: `${path}.new` });
}

function isSidecar(value: unknown): value is Sidecar {
  if (typeof value !== 'object' || value === null) return false;
  const { url, etag, size_bytes, sha256, synced_bytes, host_boot_id, parts, synced_parts } =
    value as Record<string, unknown>;
  const text = (field: unknown) => field === null || typeof field === 'string';
  const count = (field: unknown) => Number.isSafeInteger(field) && (field as number) >= 0;
  return (
    typeof url === 'string' &&
    text(etag) &&
    text(sha256) &&
    text(host_boot_id) &&
    (parts === undefined ? count(synced_bytes) : isIntervals(parts) && isIntervals(synced_parts)) &&
    (size_bytes === null || count(size_bytes))
  );
}
