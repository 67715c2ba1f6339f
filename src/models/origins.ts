import { mkdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { writeAtomic } from '../home/atomic-write.ts';
import { isRecord } from '../json.ts';
import { filesOfModel } from './gguf/parts.ts';

/** Where a model in the models folder came from. */
export interface Origin {
  /** The reference of the pull, or the path of the imported file. */
  reference: string;
  /** Null: imported. */
  url: string | null;
  revision: string | null;
  sha256: string;
  at: string;
}

/**
 * A small file for each downloaded or imported model. It counts for one version of the model: its
 * size and modification time.
 */
export class Origins {
  private readonly folder: string;

  constructor(folder: string) {
    this.folder = folder;
  }

  /** A failed write only loses the memory. */
  async write(model: string, file: string, origin: Origin): Promise<void> {
    try {
      const files = await filesOfModel(model);
      if (files === null) return;
      const { size_bytes, modified_ms } = files;
      await mkdir(this.folder, { recursive: true, mode: 0o700 });
      const text = JSON.stringify({ ...origin, size_bytes, modified_ms });
      await writeAtomic(this.path(file), `${text}\n`);
    } catch {
      // The model itself is there.
    }
  }

  /** Null: unknown, or of another version. */
  async read(
    file: string,
    version: { size_bytes: number; modified_ms: number },
  ): Promise<Origin | null> {
    try {
      const value = JSON.parse(await readFile(this.path(file), 'utf8')) as unknown;
      if (!isRecord(value) || typeof value.reference !== 'string') return null;
      if (typeof value.sha256 !== 'string' || typeof value.at !== 'string') return null;
      if (value.size_bytes !== version.size_bytes || value.modified_ms !== version.modified_ms)
        return null;
      const { reference, sha256, at } = value;
      const text = (field: unknown) => (typeof field === 'string' ? field : null);
      return { reference, url: text(value.url), revision: text(value.revision), sha256, at };
    } catch {
      return null;
    }
  }

  async remove(file: string): Promise<void> {
    await rm(this.path(file), { force: true }).catch(() => undefined);
  }

  private path(file: string): string {
    return join(this.folder, `${encodeURIComponent(file)}.json`);
  }
}

/** The file that was pulled by this name: `hf:user/repo`, or `hf.co/user/repo` as Ollama has it. */
export async function findPulled<F>(
  name: string,
  files: readonly F[],
  originOf: (file: F) => Promise<Origin | null>,
): Promise<F | null> {
  const [, repository] = /^(?:hf:|hf\.co\/|huggingface\.co\/)(.+)$/.exec(name) ?? [];
  if (repository === undefined) return null;
  for (const file of files)
    if ((await originOf(file))?.reference === `hf:${repository}`) return file;
  return null;
}
