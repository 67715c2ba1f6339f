import { isLoopback } from '../../config/address.ts';
import { SvcError } from '../../errors.ts';

/** The ways to request a model. */
export type Reference = HubReference | { kind: 'url'; url: URL };

export interface HubReference {
  kind: 'hub';
  repo: string;
  revision: string;
  /** Such as `Q4_K_M`. Null: none. */
  quant: string | null;
  /** Path of the file in the repository. Null: `chooseFile` chooses one. */
  path: string | null;
}

const LENGTH_MAX = 4096;
const DEFAULT_REVISION = 'main';

/** Parses a reference. A URL of a hub page becomes a hub reference. Throws invalid_request. */
export function parseReference(text: string, hub: URL): Reference {
  if (text.length > LENGTH_MAX) throw referenceError('The reference is too long.');
  if (text.startsWith('hf:')) return parseHub(text.slice(3));
  if (!/^https?:\/\//i.test(text)) throw referenceError();
  const url = parseAddress(text);
  return (url.origin === hub.origin ? parsePage(url, hub) : null) ?? { kind: 'url', url };
}

/** The reference without its query, which may contain a key. */
export function shownReference(reference: Reference): string {
  if (reference.kind === 'url') return shownAddress(reference.url);
  const { repo, revision, quant, path } = reference;
  const file = path === null ? '' : `/${path}`;
  const size = quant === null ? '' : `:${quant}`;
  return `hf:${repo}${file}${size}${revision === DEFAULT_REVISION ? '' : `@${revision}`}`;
}

export function shownAddress(url: URL): string {
  return `${url.origin}${url.pathname}`;
}

/** Whether a download from the URL is allowed: https, or http on loopback. */
export function isAllowed(url: URL): boolean {
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname));
}

function parseHub(text: string): HubReference {
  const at = text.indexOf('@');
  const revision = at < 0 ? DEFAULT_REVISION : text.slice(at + 1);
  const [place = '', quant = null, ...more] = (at < 0 ? text : text.slice(0, at)).split(':');
  const [user = '', repo = '', ...path] = place.split('/');
  if (more.length > 0 || (quant !== null && path.length > 0)) throw referenceError();
  if (!NAME.test(user) || !NAME.test(repo))
    throw referenceError('A repository is named user/repo.');
  if (quant !== null && !QUANT.test(quant))
    throw referenceError('The part after the colon must be a quantization, such as Q4_K_M.');
  return hubReference(`${user}/${repo}`, revision, path.length === 0 ? null : path, quant);
}

/**
 * Parses `/user/repo`, `/user/repo/blob/main/file.gguf` and `/user/repo/resolve/main/file.gguf`.
 * Null: another page.
 */
function parsePage(url: URL, hub: URL): HubReference | null {
  const prefix = hub.pathname.replace(/\/$/, '');
  if (!url.pathname.startsWith(`${prefix}/`)) return null;
  const [user = '', repo = '', page, revision = DEFAULT_REVISION, ...path] = url.pathname
    .slice(prefix.length + 1)
    .split('/')
    .map(decode)
    .filter((part) => part !== '');
  if (!NAME.test(user) || !NAME.test(repo) || !(page === undefined || PAGES.has(page))) return null;
  return hubReference(`${user}/${repo}`, revision, path.length === 0 ? null : path, null);
}

const NAME = /^(?!.*\.\.)[A-Za-z0-9][\w.-]{0,95}$/;
const QUANT = /^[A-Za-z0-9][\w.-]{0,31}$/;
const REVISION = /^(?!.*\.\.)[A-Za-z0-9][\w./-]{0,127}$/;
const PAGES = new Set(['blob', 'resolve', 'tree']);

function hubReference(
  repo: string,
  revision: string,
  path: string[] | null,
  quant: string | null,
): HubReference {
  if (!REVISION.test(revision))
    throw referenceError('The part after the @ must be a branch, a tag or a commit.');
  if (path === null) return { kind: 'hub', repo, revision, quant, path: null };
  if (path.some((part) => part === '' || part === '.' || part === '..' || UNPRINTABLE.test(part)))
    throw referenceError('The path of the file is not valid.');
  if (!/\.gguf$/i.test(path.at(-1) ?? ''))
    throw referenceError('The file must be a GGUF file, with a name that ends in .gguf.');
  return { kind: 'hub', repo, revision, quant, path: path.join('/') };
}

function parseAddress(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null) throw referenceError('The address cannot be read.');
  if (!isAllowed(url))
    throw referenceError('Downloads need https; http is allowed only from this machine.');
  if (url.username !== '' || url.password !== '')
    throw referenceError('The address must not contain a user name or a password.');
  url.hash = '';
  return url;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function referenceError(why = 'This is not a reference to a model.'): SvcError {
  return new SvcError('invalid_request', why, {
    param: 'reference',
    hint:
      'Give a short name such as qwen3:0.6b, hf:user/repo, hf:user/repo:Q4_K_M, ' +
      'hf:user/repo/file.gguf or https://…/file.gguf',
  });
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: the names must not hold them
const UNPRINTABLE = /[\u0000-\u001f\u007f\\]/;
