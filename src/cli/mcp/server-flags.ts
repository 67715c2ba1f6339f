import { resolve } from 'node:path';
import { BUILT_IN, isMcpName, isPolicy, MCP_NAME, readMcpServer } from '../../config/mcp-file.ts';
import { listWithOr, POLICY_WORDS, TOOL_POLICIES } from '../../contract/words.ts';
import { SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import { asRecord } from '../../json.ts';
import { askHome } from '../terminal/connect/home.ts';
import type { Flags } from '../terminal/context.ts';
import { listFlag, textFlag } from '../terminal/parse/flag-values.ts';

const RULES = listWithOr(TOOL_POLICIES.map((policy) => `<tool>=${policy}`));

/** The server of the file with the changes that the flags say. Throws usage. */
export function withFlags(
  server: Readonly<Record<string, unknown>>,
  command: readonly string[],
  flags: Flags,
): Record<string, unknown> {
  const svc = asRecord(server.svc);
  const policy = textFlag(flags, 'policy');
  if (policy !== undefined && !isPolicy(policy)) throw flagErrorOf('policy', POLICY_WORDS);
  const trusted = flags.trusted === true ? true : flags.untrusted === true ? false : svc.trusted;
  const tools = pairs(flags, 'tool', (tool, rule) => {
    if (!isPolicy(rule)) throw flagErrorOf('tool', RULES);
    return [tool, rule];
  });
  const env = pairs(flags, 'env', (name, value) => [name, value ?? `\${env:${name}}`]);
  const headers = pairs(flags, 'header', (name, value) => [name, value?.trim() ?? ''], ':');
  const clientId = textFlag(flags, 'client-id');
  const own = without({
    ...svc,
    trusted,
    policy: policy ?? svc.policy,
    tools: addTo(svc.tools, tools),
  });
  return without({
    ...server,
    ...startOf(command, flags),
    cwd: textFlag(flags, 'cwd') ?? server.cwd,
    env: addTo(server.env, env),
    headers: addTo(server.headers, headers),
    // The secret is that of the client before.
    oauth:
      clientId === undefined
        ? server.oauth
        : without({ ...asRecord(server.oauth), clientId, clientSecret: undefined }),
    disabled: flags.disable === true ? true : flags.enable === true ? undefined : server.disabled,
    svc: Object.keys(own).length === 0 ? undefined : own,
  });
}

/** The target: a command, an address or a built-in server. Throws usage for more than one. */
function startOf([program, ...args]: readonly string[], flags: Flags): Record<string, unknown> {
  const url = textFlag(flags, 'url');
  const ways: Record<string, unknown>[] = [];
  if (program !== undefined) ways.push({ command: program, args });
  if (url !== undefined) ways.push({ url });
  for (const [type, { field, flag }] of Object.entries(BUILT_IN)) {
    const reach = listFlag(flags, flag);
    // The daemon has another working folder.
    const whole = flag === 'folder' ? reach?.map((path) => resolve(path)) : reach;
    if (whole !== undefined) ways.push({ type, [field]: whole });
  }
  if (ways.length === 0) return {};
  if (ways.length > 1) throw new SvcError('usage', ONE_WAY, { hint: 'See: svc mcp add --help' });
  const others = ['command', 'args', 'url', 'type', 'folders', 'hosts'];
  return { ...Object.fromEntries(others.map((field) => [field, undefined])), ...ways[0] };
}

const ONE_WAY = 'A tool server has a command, or one of --url, --folder and --host.';

/** Throws usage for a value that the daemon could not read. */
export function checkServer(name: string, server: unknown): void {
  if (!isMcpName(name)) throw new SvcError('usage', `A tool server has ${MCP_NAME}.`);
  const problem = readMcpServer(server);
  if (typeof problem === 'string') throw new SvcError('usage', `${name}: ${problem}.`);
}

/** The daemon reads the file: a server that changed is stopped. */
export async function tellDaemon(paths: Paths): Promise<void> {
  await askHome(paths, 'mcp.list');
}

function pairs(
  flags: Flags,
  flag: string,
  read: (name: string, value: string | undefined) => [string, string],
  mark = '=',
): Record<string, string> {
  const found = (listFlag(flags, flag) ?? []).map((text) => {
    const at = text.indexOf(mark);
    if (at === 0 || (at < 0 && mark === ':')) throw flagErrorOf(flag, `<name>${mark}<value>`);
    return at < 0 ? read(text, undefined) : read(text.slice(0, at), text.slice(at + 1));
  });
  return Object.fromEntries(found);
}

export function addTo(before: unknown, more: Record<string, string>): unknown {
  return Object.keys(more).length === 0 ? before : { ...asRecord(before), ...more };
}

export function without(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

function flagErrorOf(flag: string, expects: string): SvcError {
  return new SvcError('usage', `--${flag} must be ${expects}.`, { param: flag });
}
