import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** How the calls of each server are decided, and whether they may be repeated. */
export const SERVERS = {
  free: { tool: 'count', svc: { policy: 'allow' }, mayRepeat: false },
  careful: { tool: 'count', svc: { policy: 'ask' }, mayRepeat: false },
  safe: { tool: 'put', svc: { policy: 'allow', trusted: true }, mayRepeat: true },
  // Of svc itself.
  notes: { tool: 'edit', svc: { policy: 'allow' }, mayRepeat: false },
  ledger: { tool: 'edit', svc: {}, mayRepeat: false },
  drafts: { tool: 'write', svc: {}, mayRepeat: true },
  web: { tool: 'get', svc: {}, mayRepeat: true },
} as const;
export type ServerName = keyof typeof SERVERS;
export const BUILT_IN: readonly ServerName[] = ['notes', 'ledger', 'drafts', 'web'];

/**
 * Hostile servers: each answers a call with a bomb, without an end, or dies within its answer. They
 * append a line for each execution, too.
 */
export const HOSTILE = ['wide', 'many-small', 'huge-strings', 'endless', 'flood', 'dies'] as const;

export function isHostile(server: string): boolean {
  return server.startsWith('evil-');
}

const [JOURNAL, END] = ['journal', 'The end.'];
const PAGE = '/page/';

/**
 * The arguments of a call to a built-in server. It works in the daemon and gets no id of the call.
 * So the model gives each call a mark, and the call leaves it where it works.
 *
 * 1. An edit adds a line. A second one adds the same line again.
 * 2. A write makes a file.
 * 3. The site, `origin`, counts the requests for its pages.
 */
export function argumentsOf(tool: string, mark: string, origin: string): object {
  if (tool === 'edit') return { path: JOURNAL, old: END, new: `${mark}\n${END}` };
  if (tool === 'write') return { path: mark, content: mark };
  return tool === 'get' ? { url: `${origin}${PAGE}${mark}` } : { id: mark };
}

/** The request of a client, the turn of its model, and the server. */
const MARK = /\d+-\d+-\d+\.\d+\.\w+/;

/** The mark in the arguments of a call. */
export function markIn(args: unknown): string {
  return MARK.exec(String(args))?.[0] ?? '';
}

/** Makes what the servers may reach: a folder for each, outside of the home, which is closed. */
export function makeFolders(): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-tools-'));
  for (const name of BUILT_IN) {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, JOURNAL), END);
  }
  return folder;
}

/** The entry of `mcp.json`, without its policy. */
export function reachOf(name: ServerName, folder: string, origin: string): object {
  return SERVERS[name].tool === 'get'
    ? { type: 'svc:http', hosts: [origin] }
    : { type: 'svc:files', folders: [join(folder, name)] };
}

/** Each mark as often as it was left. `asked`: the paths that the site was asked for. */
export function marksIn(folder: string, asked: readonly string[]): string[] {
  const left = BUILT_IN.flatMap((name) => {
    const lines = readFileSync(join(folder, name, JOURNAL), 'utf8').split('\n');
    const files = readdirSync(join(folder, name)).filter((file) => MARK.test(file));
    return [...lines.filter((line) => line !== END), ...files];
  });
  const pages = asked.filter((path) => path.startsWith(PAGE));
  return [...left, ...pages.map((path) => path.slice(PAGE.length))];
}
