import { rename, rm, utimes } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { freeBytes, syncFolder } from '../../home/disk.ts';
import {
  draftPath,
  isWhole,
  listPrompts,
  makeRoom,
  newDraft,
  type PromptFile,
  type PromptKey,
  promptFileName,
  readPromptFile,
  seal,
} from '../prompt-files.ts';
import type { PromptReport } from '../protocol/from-engine.ts';
import type { Decoder } from './decoder.ts';
import type { Slot } from './sequences.ts';

export interface PromptCacheOptions {
  folder: string;
  /** Bytes of all files of the folder. */
  budget_bytes: number;
  key: PromptKey;
  decoder: Pick<Decoder, 'change'>;
  report(report: PromptReport): void;
}

/**
 * Computed prompts in files, so that they outlive the engine process: docs/decisions/0067.
 *
 * 1. A file is read only after a check of each of its bytes. llama.cpp itself trusts them.
 * 2. No fault of a file or of the disk fails a run: its prompt is computed.
 */
export class PromptCache {
  private readonly options: PromptCacheOptions;
  private known: PromptFile[] = [];

  constructor(options: PromptCacheOptions) {
    this.options = options;
  }

  /** The files that this engine can use. */
  get files(): readonly PromptFile[] {
    return this.known;
  }

  /** Reads the metadata of the files of this model and engine. */
  async open(): Promise<void> {
    const { folder, budget_bytes, key } = this.options;
    await makeRoom(folder, budget_bytes, 0);
    for (const { path, name, bytes } of await listPrompts(folder, key)) {
      const file = await readPromptFile(path).catch(() => null);
      const meta = file?.meta;
      if (file === null || meta === undefined) await this.refuse({ file: name, bytes }, DAMAGED);
      else if (meta.model !== key.model || meta.engine !== key.engine)
        await this.refuse(reportOf(file), 'it is of another model or engine');
      else if (promptFileName(key, meta.tokens) !== name)
        await this.refuse(reportOf(file), 'its name is of other tokens');
      else this.known.push(file);
    }
  }

  /** Fills the sequence of a run from the file. It is empty if the file cannot be used. */
  async restore(file: PromptFile, slot: Slot, run: string): Promise<void> {
    const { folder, decoder, report } = this.options;
    const { meta, path } = file;
    clear(slot);
    const reading = draftPath(folder);
    let refusal: string | null = DAMAGED;
    try {
      await rename(path, reading);
      if (await isWhole({ ...file, path: reading })) {
        const tokens = await decoder.change((native) =>
          native.loadState(reading, slot.place, meta.tokens.length),
        );
        if (tokens.length === meta.tokens.length) {
          slot.tokens.push(...tokens);
          [slot.parts, slot.alone] = [meta.parts, meta.alone];
          [slot.run, slot.saved] = [meta.run, tokens.length];
          const now = new Date();
          await utimes(reading, now, now).catch(() => {});
          await rename(reading, path);
          report({ did: 'used', ...reportOf(file), used_by: run });
          return;
        }
      }
    } catch (error) {
      refusal = (error as NodeJS.ErrnoException).code === 'ENOENT' ? null : String(error);
    }
    clear(slot);
    this.known = this.known.filter((other) => other !== file);
    await rm(reading, { force: true }).catch(() => {});
    if (refusal !== null) await this.refuse(reportOf(file), refusal);
  }

  /**
   * Writes a sequence that no run owns. `isFree`: whether that is still so.
   */
  async save(slot: Slot, isFree: () => boolean): Promise<void> {
    let draft: string | null = null;
    try {
      const older = this.known.filter((file) => isReplaced(file, slot));
      const state = await this.options.decoder.change((native) => native.sizeOf(slot.place));
      if (!(await this.hasRoom(state, older))) return;
      draft = await newDraft(this.options.folder);
      const meta = await this.writeState(draft, slot, isFree);
      if (meta !== null) await this.publish(draft, meta, older);
    } catch (error) {
      slot.saved = 0;
      console.error('a computed prompt was not kept:', error);
    } finally {
      if (draft !== null) await rm(draft, { force: true }).catch(() => {});
    }
  }

  /** Makes room, unless that much has none. A full disk is left to the log. */
  private async hasRoom(bytes: number, older: readonly PromptFile[]): Promise<boolean> {
    const { folder, budget_bytes } = this.options;
    const replaced = older.reduce((sum, file) => sum + file.bytes, 0);
    const free = await freeBytes(join(folder, '..'));
    if (bytes > budget_bytes || free < bytes + SPARE_BYTES) {
      console.error(`a computed prompt is not kept: ${bytes} bytes, of ${free} on the disk`);
      return false;
    }
    await makeRoom(folder, budget_bytes, Math.max(0, bytes - replaced));
    return true;
  }

  private writeState(draft: string, slot: Slot, isFree: () => boolean) {
    return this.options.decoder.change((native) => {
      if (!isFree()) return null;
      const { place, client, run, parts, alone } = slot;
      const tokens = [...slot.tokens];
      const meta = { ...this.options.key, client, run, tokens, parts: [...parts], alone };
      slot.saved = tokens.length;
      native.saveState(draft, place, tokens);
      return meta;
    });
  }

  private async publish(
    draft: string,
    meta: Parameters<typeof seal>[1],
    older: readonly PromptFile[],
  ): Promise<void> {
    const { folder, budget_bytes, key, report } = this.options;
    const path = join(folder, promptFileName(key, meta.tokens));
    await seal(draft, meta);
    await rename(draft, path);
    await syncFolder(folder);
    const file = await readPromptFile(path);
    if (file === null) throw new Error(`${path} cannot be read back`);
    for (const other of older) if (other.path !== path) await rm(other.path, { force: true });
    const gone = new Set(await makeRoom(folder, budget_bytes, 0));
    const stays = (other: PromptFile) =>
      other.path !== path && !older.includes(other) && !gone.has(other.path);
    this.known = [...this.known.filter(stays), file];
    report({ did: 'written', ...reportOf(file) });
  }

  private async refuse(
    report: Pick<PromptReport, 'file' | 'bytes'> & Partial<PromptReport>,
    reason: string,
  ): Promise<void> {
    await rm(join(this.options.folder, report.file), { force: true }).catch(() => {});
    this.options.report({ run: '', tokens: 0, ...report, did: 'removed', reason });
  }
}

function clear(slot: Slot): void {
  slot.tokens.length = 0;
  [slot.parts, slot.alone, slot.saved] = [[], 0, 0];
}

/** Whether no run would read the file if another one had the sequence. */
function isReplaced({ meta }: PromptFile, { client, tokens, parts, alone }: Slot): boolean {
  const different = meta.tokens.findIndex((token, index) => token !== tokens[index]);
  const same = different === -1 ? meta.tokens.length : different;
  // Runs of each kind reuse as much of it: see Sequences.
  const least = Math.min(same, alone, parts[0] ?? 0);
  const usual = Math.min(meta.tokens.length, meta.alone, meta.parts[0] ?? 0);
  return (
    meta.client === client &&
    meta.tokens.length <= tokens.length &&
    meta.tokens.length - same < FILE_TOKENS &&
    usual - least < FILE_TOKENS
  );
}

function reportOf({ path, bytes, meta }: PromptFile) {
  return { file: basename(path), bytes, run: meta.run, tokens: meta.tokens.length };
}

const DAMAGED = 'it is damaged';
/** Space of a disk that is left to the log and to other programs. */
const SPARE_BYTES = 1024 * 1024 * 1024;
/**
 * The tokens that a file saves at least. Fewer tokens are computed about as soon as they are read.
 */
export const FILE_TOKENS = 256;
