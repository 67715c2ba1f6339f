import { isRecord } from '../../json.ts';
import type { Schema } from './merge.ts';

/** Where a reference of a schema leads. */
export interface Target {
  /** The same for each reference to this place. */
  to: string;
  target: unknown;
}

/** The places of a schema that references name: by pointer, by `$id` and by `$anchor`. */
export class References {
  /** Schemas with an address of their own. */
  private readonly named = new Map<string, unknown>();
  /** The address that references in a part begin at. */
  private readonly bases = new Map<unknown, string>();

  constructor(root: unknown) {
    this.named.set(ROOT, root);
    this.visit(root, ROOT);
  }

  /** Null: there is no such place. */
  targetOf(schema: Schema): Target | null {
    const to = addressOf(String(schema.$ref), this.bases.get(schema) ?? ROOT);
    if (to === null) return null;
    const at = to.indexOf('#');
    const [place, fragment] =
      at < 0 ? [to, ''] : [to.slice(0, at), decodeFragment(to.slice(at + 1))];
    const isPointer = fragment === '' || fragment.startsWith('/');
    if (!this.named.has(isPointer ? place : to)) return null;
    let target = this.named.get(isPointer ? place : to);
    for (const part of isPointer ? fragment.split('/').slice(1) : []) {
      const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
      if (!isRecord(target) || !Object.hasOwn(target, name)) return null;
      target = target[name];
    }
    return { to, target };
  }

  private visit(part: unknown, above: string): void {
    if (!isRecord(part)) return;
    let base = above;
    if (typeof part.$id === 'string') {
      base = addressOf(part.$id, above) ?? above;
      if (!this.named.has(base)) this.named.set(base.replace(/#$/, ''), part);
      base = base.replace(/#.*$/, '');
    }
    for (const anchor of [part.$anchor, part.$dynamicAnchor])
      if (typeof anchor === 'string') this.named.set(`${base}#${anchor}`, part);
    this.bases.set(part, base);
    for (const [word, each] of Object.entries(part)) if (!VALUES.has(word)) this.visit(each, base);
  }
}

/** References of a schema without `$id` begin here. */
const ROOT = 'schema:///';
/** Keywords with values, which are not schemas. */
const VALUES: ReadonlySet<string> = new Set(['const', 'enum', 'default', 'examples', 'example']);

function addressOf(reference: string, base: string): string | null {
  return URL.canParse(reference, base) ? new URL(reference, base).href : null;
}

function decodeFragment(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
