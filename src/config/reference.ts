/** A place in a text of `mcp.json` whose value is elsewhere. */
export interface Reference {
  /** With its braces. */
  text: string;
  index: number;
  /** Of the daemon, or stored for the server. `foreign`: only another program can fill it in. */
  kind: 'variable' | 'key' | 'foreign';
  name: string;
  /** The value where the variable has none. Null: it must have one. */
  fallback: string | null;
}

/** Finds `${NAME}`, `${env:NAME}`, `${NAME:-default}`, and `${key:NAME}` for a stored key. */
export function referencesIn(text: string): Reference[] {
  return [...text.matchAll(/\$\{([^}]*)\}/g)].map(({ 0: whole, 1: inner = '', index }) => {
    const at = inner.indexOf(':');
    const [before, rest] = at < 0 ? [inner, ''] : [inner.slice(0, at), inner.slice(at + 1)];
    const place = { text: whole, index };
    if (before === 'key' && at >= 0) return { ...place, kind: 'key', name: rest, fallback: null };
    if (before === 'env' && at >= 0)
      return { ...place, kind: 'variable', name: rest, fallback: null };
    const fallback = rest.startsWith('-') ? rest.slice(1) : null;
    const isPlain = at < 0 || fallback !== null;
    return isPlain
      ? { ...place, kind: 'variable', name: before, fallback }
      : { ...place, kind: 'foreign', name: inner, fallback: null };
  });
}
