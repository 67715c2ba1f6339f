import { type FileHandle, open, rm } from 'node:fs/promises';
import { type PullPaths, sizeOf } from './paths.ts';
import { readSidecar, type Sidecar, writeSidecar } from './sidecar.ts';

/** The identity of the wanted file. */
export type Identity = Pick<Sidecar, 'url' | 'etag' | 'size_bytes' | 'sha256'>;

/**
 * The downloaded part of a model.
 *
 * 1. All its bytes belong to the file that its sidecar names. While it is emptied, it has no
 *    sidecar.
 * 2. It survives cancels, crashes and restarts. After a power cut it continues from the last synced
 *    byte.
 */
export class PartialFile {
  /** Downloaded bytes. */
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

  /** Finds the part of the wanted file. Ignores the bytes of any other file. */
  static async find(
    paths: PullPaths,
    wanted: Identity,
    options: { sync_bytes: number; host_boot_id: string | null },
  ): Promise<PartialFile> {
    const sidecar = await readSidecar(paths.sidecar);
    const size = await sizeOf(paths.partial);
    if (sidecar === null || size === null || !isSame(sidecar, wanted))
      return new PartialFile(paths, options, null, 0);
    // Without a boot id of the host, a power cut may have happened.
    const sameLife = sidecar.host_boot_id !== null && sidecar.host_boot_id === options.host_boot_id;
    const bytes = sameLife ? size : Math.min(size, sidecar.synced_bytes);
    return new PartialFile(paths, options, sidecar, leaveOne(bytes, sidecar.size_bytes));
  }

  /** The file of the downloaded bytes. Null: there are none. */
  get identity(): Identity | null {
    return this.bytes === 0 ? null : this.sidecar;
  }

  /** Forgets the downloaded bytes. The next file overwrites them. */
  startOver(): void {
    this.sidecar = null;
    this.bytes = 0;
  }

  /** Opens the file to append after the downloaded bytes. */
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

  /** Makes all appended bytes durable. */
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
 * Drops the last byte of a complete file, so that a request can confirm the file. Drops all bytes
 * if there are too many.
 */
function leaveOne(bytes: number, size: number | null): number {
  if (size === null || bytes < size) return bytes;
  return bytes === size ? Math.max(0, size - 1) : 0;
}
