import type { McpServerConfig } from '../config/mcp-file.ts';
import { type Reference, referencesIn } from '../config/reference.ts';
import { SvcError } from '../errors.ts';

/** The configuration that a server is started with, with the values of its references. */
export interface Launch {
  command: readonly string[] | null;
  env: Record<string, string>;
  cwd: string;
  url: string | null;
  headers: Record<string, string>;
  /** Texts that no log line and no message may have. */
  secrets: readonly string[];
}

export interface References {
  env: NodeJS.ProcessEnv;
  /** A stored key of the server. Null: it is not stored. */
  key(name: string): Promise<string | null>;
}

/**
 * Replaces references by their values: `${NAME}`, `${env:NAME}`, `${NAME:-default}`, and
 * `${key:NAME}` for a stored key. Throws mcp_unavailable for one without a value.
 */
export async function launchOf(
  config: McpServerConfig,
  references: References,
  cwd: string,
): Promise<Launch> {
  const secrets = new Set<string>();
  const note = (text: string) => {
    if (text.length >= SECRET_MIN) secrets.add(text);
    return text;
  };
  const expand = (text: string) => withValues(text, references, note);
  const expandAll = async (fields: Readonly<Record<string, string>>) => {
    const entries = Object.entries(fields);
    // A value in the file is as secret as a stored value.
    return Promise.all(
      entries.map(async ([name, text]) => [name, note(await expand(text))] as const),
    ).then(Object.fromEntries<string>);
  };
  return {
    command: config.command === null ? null : await Promise.all(config.command.map(expand)),
    env: { ...baseEnvironment(references.env), ...(await expandAll(config.env)) },
    cwd: config.cwd ?? cwd,
    url: config.url === null ? null : await expand(config.url),
    headers: await expandAll(config.headers),
    secrets: [...secrets].sort((a, b) => b.length - a.length),
  };
}

/** The text with the values of its references. Throws mcp_unavailable for one without a value. */
export async function withValues(
  text: string,
  references: References,
  note: (value: string) => string = (value) => value,
): Promise<string> {
  let out = '';
  let end = 0;
  for (const reference of referencesIn(text)) {
    out += text.slice(end, reference.index) + note(await valueFor(reference, references));
    end = reference.index + reference.text.length;
  }
  return out + text.slice(end);
}

/** A shorter text is in many lines by chance. */
const SECRET_MIN = 6;

async function valueFor(
  { text, kind, name, fallback }: Reference,
  { env, key }: References,
): Promise<string> {
  if (kind === 'key') {
    const stored = await key(name);
    if (stored !== null) return stored;
    throw missingError(
      `The tool server needs the key ${name}, which is not stored.`,
      `Store it: svc mcp set <name> --key ${name}`,
    );
  }
  if (kind === 'foreign')
    throw missingError(
      `The tool server needs ${text}, which only another program can fill in.`,
      `Write a value, \${env:NAME} or \${key:NAME} into mcp.json.`,
    );
  const value = name.toUpperCase().startsWith('SVC_') ? undefined : env[name];
  if (value) return value;
  if (fallback !== null) return fallback;
  throw missingError(
    `The tool server needs the variable ${name}, which the daemon does not have.`,
    'Set it where the daemon starts, then: svc restart. No variable SVC_… is passed on.',
  );
}

function missingError(message: string, hint: string): SvcError {
  return new SvcError('mcp_unavailable', message, { hint, retryable: false });
}

/**
 * Variables without which programs do not start. Others, such as keys, are only passed on if the
 * configuration names them. The list has whole names, because a prefix could match a secret.
 */
function baseEnvironment(env: NodeJS.ProcessEnv): Record<string, string> {
  const passed = Object.entries(env).filter(([name]) => BASE.has(name.toUpperCase()));
  return Object.fromEntries(passed) as Record<string, string>;
}

const BASE = new Set([
  'PATH',
  'HOME',
  'USER',
  'LOGNAME',
  'SHELL',
  'TERM',
  'LANG',
  'TZ',
  'TMPDIR',
  'TMP',
  'TEMP',
  'LC_ALL',
  'LC_CTYPE',
  'LC_MESSAGES',
  'LC_NUMERIC',
  'SSL_CERT_FILE',
  'SSL_CERT_DIR',
  'XDG_CACHE_HOME',
  'XDG_RUNTIME_DIR',
  'NODE_EXTRA_CA_CERTS',
  // Of Windows.
  'SYSTEMROOT',
  'SYSTEMDRIVE',
  'COMSPEC',
  'PATHEXT',
  'USERPROFILE',
  'APPDATA',
  'LOCALAPPDATA',
  'PROGRAMDATA',
  'PROGRAMFILES',
  'PROGRAMFILES(X86)',
]);

/** Whether the configuration says how svc is known there. Then no login counts. */
export function isAuthorized({ headers }: Launch): boolean {
  return Object.keys(headers).some((name) => name.toLowerCase() === 'authorization');
}

/** The text without the secrets of the server. */
export function withoutSecrets(text: string, { secrets }: Pick<Launch, 'secrets'>): string {
  return secrets.reduce((clean, secret) => clean.replaceAll(secret, '<secret>'), text);
}
