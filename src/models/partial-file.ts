import { type FileHandle, open, rm } from 'node:fs/promises';
import { type PullPaths, sizeOf } from './paths.ts';
import { readSidecar, type Sidecar, writeSidecar } from './sidecar.ts';

/** What identifies the file that is fetched. */
export type Identity = Pick<Sidecar, 'url' | 'etag' | 'size_bytes' | 'sha256'>;

/**
 * The part of a model that is on disk.
 *
 * 1. All of its bytes are of the one file that its sidecar names; while it is emptied it has no sidecar.
 * 2. It outlives cancels, crashes and restarts; after a power cut it goes on from the bytes that were surely on disk.
 */
export class PartialFile {
  /** Bytes that are there. */
  bytes: number;
  private readonly paths: PullPaths;
  private readonly sync_bytes: number;
  private readonly host_boot_id: string | null;
  private sidecar: Sidecar | null;
  private handle: FileHandle | null = null;

  private constructor(
    paths: PullPaths,
    options: { sync_bytes: number; host_boot_id: string | null },
    sidecar: Sidecar | null,
    bytes: number,
  ) {
    this.paths = paths;
    this.sync_bytes = options.sync_bytes;
    this.host_boot_id = options.host_boot_id;
    this.sidecar = sidecar;
    this.bytes = bytes;
  }

  /** What is there of the wanted file; of a file that may be another, nothing. */
  static async find(
    paths: PullPaths,
    wanted: Identity,
    options: { sync_bytes: number; host_boot_id: string | null },
  ): Promise<PartialFile> {
    const sidecar = await readSidecar(paths.sidecar);
    const size = await sizeOf(paths.partial);
    if (sidecar === null || size === null || !isSame(sidecar, wanted))
      return new PartialFile(paths, options, null, 0);
    // Where the system does not tell its lives apart, the power may have been cut in between.
    const sameLife = sidecar.host_boot_id !== null && sidecar.host_boot_id === options.host_boot_id;
    const bytes = sameLife ? size : Math.min(size, sidecar.synced_bytes);
    return new PartialFile(paths, options, sidecar, leaveOne(bytes, sidecar.size_bytes));
  }

  /** What the present bytes are part of; null when there are none. */
  get identity(): Identity | null {
    return this.bytes === 0 ? null : this.sidecar;
  }

  /** Forgets what is there; it is overwritten once something else begins. */
  startOver(): void {
    this.sidecar = null;
    this.bytes = 0;
  }

  /** Gets ready to append: to what is there, or from nothing. */
  async begin(identity: Identity): Promise<void> {
    if (this.sidecar === null || this.bytes === 0) await this.empty();
    this.handle ??= await open(this.paths.partial, 'r+');
    await this.handle.truncate(this.bytes);
    await this.note({
      ...identity,
      synced_bytes: Math.min(this.sidecar?.synced_bytes ?? 0, this.bytes),
      host_boot_id: this.host_boot_id,
    });
  }

  async append(chunk: Uint8Array): Promise<void> {
    const handle = this.opened();
    for (let written = 0; written < chunk.length; ) {
      const { bytesWritten } = await handle.write(
        chunk,
        written,
        chunk.length - written,
        this.bytes,
      );
      written += bytesWritten;
      this.bytes += bytesWritten;
    }
    if (this.sidecar !== null && this.bytes - this.sidecar.synced_bytes >= this.sync_bytes)
      await this.sync();
  }

  /** The first bytes of the file. */
  async head(length: number): Promise<Buffer> {
    const { buffer, bytesRead } = await this.opened().read(Buffer.alloc(length), 0, length, 0);
    return buffer.subarray(0, bytesRead);
  }

  /** Everything appended is on disk, durably. */
  async sync(): Promise<void> {
    await this.opened().datasync();
    if (this.sidecar !== null) await this.note({ ...this.sidecar, synced_bytes: this.bytes });
  }

  async close(): Promise<void> {
    const { handle } = this;
    this.handle = null;
    await handle?.close();
  }

  private async empty(): Promise<void> {
    this.startOver();
    await rm(this.paths.sidecar, { force: true });
    this.handle = await open(this.paths.partial, 'w+', 0o600);
  }

  private async note(sidecar: Sidecar): Promise<void> {
    this.sidecar = sidecar;
    await writeSidecar(this.paths.sidecar, sidecar);
  }

  private opened(): FileHandle {
    if (this.handle === null) throw new Error('the partial file is not open');
    return this.handle;
  }
}

/** The same content for sure: the same hash, or the same place with a validator that the other side will be request to confirm. */
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

/** There is always something to ask for, and with it whether the file is still the same; more bytes than the file has are not of it. */
function leaveOne(bytes: number, size: number | null): number {
  if (size === null || bytes < size) return bytes;
  return bytes === size ? Math.max(0, size - 1) : 0;
}
