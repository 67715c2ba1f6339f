import { dirname, resolve } from 'node:path';
import { syncFolder } from './disk.ts';
import { platform } from './platform.ts';

// Not imported: see paths.ts.
const fs = process.getBuiltinModule('node:fs');

export interface AtomicWriteOptions {
  mode?: number;
  /** Waits until the content and the name are on disk. */
  sync?: boolean;
  /** Keeps the file if it exists. Default: replaces it. */
  keep?: boolean;
  /** Where the content is written first. Default: a name of this process. */
  draft?: string;
}

/**
 * Writes a file at once.
 *
 * 1. A reader sees the old content or the new one, whole.
 * 2. The file has its mode before it has its name.
 * 3. A write that fails leaves no draft. A process that dies may leave one.
 */
export async function writeAtomic(
  file: string,
  text: string,
  { mode = 0o600, sync = false, keep = false, draft = draftOf(file) }: AtomicWriteOptions = {},
): Promise<void> {
  try {
    await writeDraft(draft, text, mode, sync);
    if (!keep) await renameOver(draft, file);
    else await linkOrRename(draft, file);
    if (sync) await syncFolder(dirname(file));
  } finally {
    // The first failure is the one to report.
    await fs.promises.rm(draft, { force: true }).catch(() => {});
  }
}

async function writeDraft(draft: string, text: string, mode: number, sync: boolean): Promise<void> {
  const handle = await fs.promises.open(draft, 'w', mode);
  try {
    await handle.chmod(mode);
    await handle.writeFile(text);
    if (sync) await handle.sync();
  } finally {
    await handle.close();
  }
}

/** A file system without links lets the last writer win. */
async function linkOrRename(draft: string, file: string): Promise<void> {
  await fs.promises.link(draft, file).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') await renameOver(draft, file);
  });
}

/** Replaces a file, also if another program has it open for a moment. */
export async function renameOver(
  from: string,
  to: string,
  rename: typeof fs.promises.rename = fs.promises.rename,
): Promise<void> {
  for (let left = platform.renameTries - 1; ; left -= 1)
    try {
      return await rename(from, to);
    } catch (error) {
      if (left <= 0 || !IN_USE.has((error as NodeJS.ErrnoException).code ?? '')) throw error;
      await new Promise((resolve) => setTimeout(resolve, RENAME_PAUSE_MS));
    }
}

const IN_USE: ReadonlySet<string> = new Set(['EPERM', 'EACCES', 'EBUSY']);
const RENAME_PAUSE_MS = 25;

let drafts = 0;

function draftOf(file: string): string {
  drafts += 1;
  return `${file}.${process.pid}.${drafts}.tmp`;
}

/**
 * The file that a link leads to, also where it does not exist yet. Replacing a link of a folder of
 * dotfiles would leave its target behind.
 */
export function targetOf(file: string): string {
  let target = file;
  for (let links = 0; links < LINKS_MAX; links += 1) {
    try {
      target = resolve(dirname(target), fs.readlinkSync(target));
    } catch {
      return target;
    }
  }
  return file;
}

/** As many as Linux follows. */
const LINKS_MAX = 40;
