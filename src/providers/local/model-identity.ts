import { createHash } from 'node:crypto';
import { type Adapter, HASHED_BYTES_MAX, textOfNamed } from '../../engine/index.ts';
import { filesOfModel, sha256Of } from '../../models/index.ts';

/**
 * Says which file it is: `sha256:` with its digest. While the digest of a large file is unknown,
 * what identifies it on its disk: two machines never agree by chance. Null: it cannot be read.
 */
export async function identityOf(
  path: string,
  recorded: () => Promise<string | null>,
): Promise<string | null> {
  try {
    const found = await filesOfModel(path);
    if (found === null) return null;
    if (found.size_bytes <= HASHED_BYTES_MAX) return `sha256:${await sha256Of(path)}`;
    return (await recorded()) ?? `file:${found.version}`;
  } catch {
    return null;
  }
}

/** What of the configuration computes an answer with a model file. */
export interface Additions {
  adapters: readonly Adapter[];
  /** In place of the chat template of the file: see `textOfNamed`. */
  templates: readonly string[];
}

/** The identity of a model with its additions. Null: an adapter cannot be read. */
export async function identityWith(
  own: string | null,
  { adapters, templates }: Additions,
): Promise<string | null> {
  if (own === null || adapters.length + templates.length === 0) return own;
  const all: unknown[] = [own];
  for (const { path, scale } of adapters) {
    const identity = await identityOf(path, async () => null);
    if (identity === null) return null;
    all.push([identity, scale]);
  }
  if (templates.length > 0) all.push({ templates: templates.map(textOrNull) });
  return `sha256:${createHash('sha256').update(JSON.stringify(all)).digest('hex')}`;
}

/** Null: it cannot be read, so that of the file is used. */
function textOrNull(template: string): string | null {
  try {
    return textOfNamed(template);
  } catch {
    return null;
  }
}

/** An identity in a message. */
export function shortIdentity(identity: string | null): string {
  return identity?.replace(/^(sha256:.{12}).*$/, '$1…') ?? 'a file that cannot be read';
}
