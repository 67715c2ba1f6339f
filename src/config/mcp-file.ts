import { dirname, isAbsolute, join } from 'node:path';
import { POLICY_WORDS, TOOL_POLICIES, type ToolPolicy } from '../contract/words.ts';
import { SvcError } from '../errors.ts';
import { MCP_SERVERS_MAX } from '../limits.ts';
import { type ConfigText, type Property, plainValue, properties, readConfigText } from './text.ts';

/**
 * The tool servers: `mcp.json`, beside the configuration file.
 *
 * 1. It has the form that other programs use: `mcpServers`, or `servers` as in VS Code. What svc
 *    adds is in the field `svc` of a server. Fields that svc does not know stay as they are.
 * 2. People may edit it. Comments stay when svc changes a server.
 * 3. A server with a mistake is left out, with the reason. The others work.
 */

/** `digest`: of the tool as it was when it was allowed. Null: whatever the tool says. */
export interface ToolRule {
  policy: ToolPolicy;
  digest: string | null;
}

/**
 * The tools that svc has itself, by the `type` of their server. The field, or the flag of a
 * command, says which folders and hosts they may reach.
 */
export const BUILT_IN = {
  'svc:files': { field: 'folders', flag: 'folder', isValid: isWholePath, form: 'whole paths' },
  'svc:http': { field: 'hosts', flag: 'host', isValid: isHost, form: 'such as docs.python.org' },
} as const;

export interface BuiltIn {
  type: keyof typeof BUILT_IN;
  reach: readonly string[];
}

export interface McpServerConfig {
  /** The program. Null: it is `built_in`, or is reached over HTTP. */
  command: readonly string[] | null;
  built_in: BuiltIn | null;
  env: Readonly<Record<string, string>>;
  cwd: string | null;
  url: string | null;
  headers: Readonly<Record<string, string>>;
  /** For a login: the registration of svc, the secret as a reference, and its port. */
  client_id: string | null;
  client_secret: string | null;
  login_port: number;
  disabled: boolean;
  /** Its annotations are believed: a tool that only reads is called without a question. */
  trusted: boolean;
  /** Of the tools without a rule. Null: see `trusted`. */
  policy: ToolPolicy | null;
  tools: Readonly<Record<string, ToolRule>>;
}

export interface McpFile {
  servers: ReadonlyMap<string, McpServerConfig>;
  /** Why a server of the file is left out, by its name. */
  problems: ReadonlyMap<string, string>;
}

/** A name is also a folder, and a part of `mcp:<server>/<tool>`. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;
export const MCP_NAME = 'a name of letters, digits, "-", "_" and "."';

export function isMcpName(name: string): boolean {
  return NAME.test(name);
}

export function mcpFile(configFile: string): string {
  return join(dirname(configFile), 'mcp.json');
}

/** None without a file. Throws config_invalid for a file that is not JSON. */
export function readMcpFile(file: string): McpFile {
  const servers = new Map<string, McpServerConfig>();
  const problems = new Map<string, string>();
  const text = readConfigText(file);
  for (const { name, value } of text === null ? [] : serversOf(text).list) {
    const config = isMcpName(name) ? readMcpServer(plainValue(value)) : `a server has ${MCP_NAME}`;
    const problem =
      typeof config === 'string'
        ? config
        : servers.size >= MCP_SERVERS_MAX
          ? `there are more than ${MCP_SERVERS_MAX} servers`
          : null;
    if (problem === null) servers.set(name, config as McpServerConfig);
    else problems.set(name, problem);
  }
  return { servers, problems };
}

/** The servers as the file has them, for an import. Throws config_invalid. */
export function readForeignServers(file: string): { name: string; value: unknown }[] {
  const text = readConfigText(file);
  if (text === null) throw new SvcError('config_invalid', `There is no file ${file}.`);
  return serversOf(text).list.map(({ name, value }) => ({ name, value: plainValue(value) }));
}

/**
 * Changes servers: `edit` gets each server of the file by its name, and returns those to set, or to
 * remove (null). Throws config_invalid, home_unusable, busy.
 */
export async function editMcpFile(
  file: string,
  edit: (servers: Readonly<Record<string, unknown>>) => Readonly<Record<string, object | null>>,
): Promise<void> {
  // Not imported above: commands only read, and writing needs slow modules of Node.
  const { editUserFile } = await import('./user-file.ts');
  await editUserFile(file, () => {
    const text = readConfigText(file);
    const { path, list } = text === null ? { path: MAIN, list: [] } : serversOf(text);
    const before = Object.fromEntries(list.map(({ name, value }) => [name, plainValue(value)]));
    return Object.entries(edit(before)).map(([name, server]) => [
      [...path, name],
      server ?? undefined,
    ]);
  });
}

const MAIN = ['mcpServers'];
/** Where the files of other programs have their servers. */
const PLACES = [MAIN, ['servers'], ['mcp', 'servers']];

function serversOf(text: ConfigText): { path: string[]; list: Property[] } {
  for (const path of PLACES) {
    let node = text.root;
    for (const key of path) {
      const all = node === undefined ? [] : properties(text, node, 'mcp.json');
      node = all.find(({ name }) => name === key)?.value;
    }
    if (node !== undefined) return { path, list: properties(text, node, path.join('.')) };
  }
  return { path: MAIN, list: [] };
}

/** How svc speaks to the server. */
export function transportOf({ command, built_in }: McpServerConfig): 'svc' | 'stdio' | 'http' {
  return built_in !== null ? 'svc' : command === null ? 'http' : 'stdio';
}

/** The target of a server, for people. */
export function targetOf({ command, built_in, url }: McpServerConfig): string {
  if (built_in !== null) return `${built_in.type} ${built_in.reach.join(' ')}`;
  return command === null ? (url ?? '') : shortCommand(command);
}

/** A command up to its program: `npx -y server`. Later words may have a secret. */
function shortCommand([program = '', ...args]: readonly string[]): string {
  const named = args.findIndex((word) => !word.startsWith('-'));
  const shown = args.slice(0, named + 1);
  const isPlain = shown.every((word) => /^[\w./:@+-]+$/.test(word));
  const words = isPlain ? shown : [];
  return [program, ...words, ...(words.length < args.length ? ['…'] : [])].join(' ');
}

/** The same with all arguments, as a shell takes them. */
export function commandOf(config: McpServerConfig): string {
  return config.command?.map(shellWord).join(' ') ?? targetOf(config);
}

/** The command that has a person asked about a tool again. */
export function askAgainCommand(server: string, tool: string): string {
  return `svc mcp set ${shellWord(server)} --tool ${shellWord(`${tool}=ask`)}`;
}

function shellWord(word: string): string {
  return /^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** The settings of a server's start, as the file has them: references stay references. */
export function startOf({
  command,
  built_in,
  env,
  cwd,
  url,
  headers,
  disabled,
}: McpServerConfig): string {
  return JSON.stringify([command, built_in, env, cwd, url, headers, disabled]);
}

/** A text describes the mistake. It never repeats a value, which may have a secret. */
export function readMcpServer(value: unknown): McpServerConfig | string {
  const { command, args, env, url, headers, oauth, cwd, type, disabled, svc } =
    asObject(value) ?? {};
  if (asObject(value) === null) return 'a server is an object';
  if (type === 'sse') return 'the transport sse is out of use; give the address of its newer one';
  const built_in = readBuiltIn(asObject(value) ?? {});
  if (typeof built_in === 'string') return built_in;
  const isHttp = built_in === null && command === undefined;
  const isProgram = built_in === null && !isHttp;
  if (isHttp && url === undefined) return 'a server has a command, a url, or a type of svc';
  if (!isHttp && url !== undefined) return 'a server has a command or a url, not both';
  if (isProgram && !isText(command)) return 'command must be the name of a program';
  const words = args === undefined ? [] : args;
  if (!Array.isArray(words) || !words.every((word) => typeof word === 'string'))
    return 'args must be a list of texts';
  const variables = readTexts(env);
  if (variables === null) return 'env must be an object of texts';
  const fields = readTexts(headers);
  if (fields === null) return 'headers must be an object of texts';
  if (isHttp && !isAddress(url)) return 'url must be an http or https address without credentials';
  const { clientId = null, clientSecret = null, callbackPort = 0 } = asObject(oauth ?? {}) ?? {};
  if (clientId !== null && !isText(clientId)) return 'oauth.clientId must be a text';
  if (clientSecret !== null && !isReference(clientSecret))
    return `oauth.clientSecret must be a reference, such as \${key:CLIENT_SECRET}`;
  if (clientSecret !== null && clientId === null) return 'oauth.clientSecret needs oauth.clientId';
  if (!isPort(callbackPort)) return 'oauth.callbackPort must be the number of a port';
  if (cwd !== undefined && !isWholePath(cwd)) return 'cwd must be a whole path';
  const own = svc === undefined ? {} : asObject(svc);
  if (own === null) return 'svc must be an object';
  const { trusted = built_in !== null, policy = null } = own;
  if (typeof trusted !== 'boolean') return 'svc.trusted must be true or false';
  if (policy !== null && !isPolicy(policy)) return `svc.policy must be ${POLICY_WORDS}`;
  const tools = readRules(own.tools ?? {});
  if (tools === null) return `svc.tools must be an object of ${POLICY_WORDS} by tool`;
  return {
    command: isProgram ? [command as string, ...words] : null,
    built_in,
    env: variables,
    cwd: (cwd as string | undefined) ?? null,
    url: isHttp ? (url as string) : null,
    headers: fields,
    client_id: clientId,
    client_secret: clientSecret,
    login_port: callbackPort,
    disabled: disabled === true,
    trusted,
    policy,
    tools,
  };
}

function readBuiltIn(server: Record<string, unknown>): BuiltIn | string | null {
  const { type, command } = server;
  if (typeof type !== 'string' || !Object.hasOwn(BUILT_IN, type)) return null;
  const { field, isValid, form } = BUILT_IN[type as BuiltIn['type']];
  const reach = server[field];
  if (command !== undefined) return `a server with the type ${type} has no command`;
  if (!Array.isArray(reach) || reach.length === 0 || reach.length > REACH_MAX)
    return `${field} must be a list of at most ${REACH_MAX} texts`;
  return reach.every(isValid)
    ? { type: type as BuiltIn['type'], reach }
    : `${field} must be ${form}`;
}
const REACH_MAX = 64;

function isWholePath(value: unknown): boolean {
  return isText(value) && isAbsolute(value);
}

/** A host means its address with https. Another scheme or port is written out. */
function isHost(value: unknown): boolean {
  if (!isText(value) || !URL.canParse(originOf(value))) return false;
  const { origin, href, protocol } = new URL(originOf(value));
  return href === `${origin}/` && /^https?:$/.test(protocol);
}

export function originOf(host: string): string {
  return host.includes('://') ? host : `https://${host}`;
}

function readRules(value: unknown): Record<string, ToolRule> | null {
  const entries = Object.entries(asObject(value) ?? { '': null });
  const read = entries.map(([tool, rule]): [string, ToolRule] | null => {
    const { policy, digest = null } = asObject(rule) ?? { policy: rule };
    const isValid = isPolicy(policy) && (digest === null || typeof digest === 'string');
    return isValid ? [tool, { policy, digest }] : null;
  });
  return read.some((rule) => rule === null)
    ? null
    : Object.fromEntries(read as [string, ToolRule][]);
}

export function isPolicy(value: unknown): value is ToolPolicy {
  return TOOL_POLICIES.includes(value as ToolPolicy);
}

function isPort(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) < 65_536;
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && !value.includes('\0');
}

function isReference(value: unknown): value is string {
  return typeof value === 'string' && /^\$\{[^}]+\}$/.test(value);
}

/** The address may have a reference to a variable. */
function isAddress(value: unknown): boolean {
  if (typeof value !== 'string') return false;
  const plain = value.replace(/\$\{[^}]*\}/g, 'x');
  if (!URL.canParse(plain)) return false;
  const { protocol, username, password } = new URL(plain);
  return /^https?:$/.test(protocol) && username === '' && password === '';
}

/** Numbers and switches count as their text, as in the programs whose files these are. */
function readTexts(value: unknown): Record<string, string> | null {
  if (value === undefined) return {};
  const entries = Object.entries(asObject(value) ?? { '': null });
  const isPlain = (each: unknown) => ['string', 'number', 'boolean'].includes(typeof each);
  return entries.every(([, each]) => isPlain(each) && !String(each).includes('\0'))
    ? Object.fromEntries(entries.map(([name, each]) => [name, String(each)]))
    : null;
}

function asObject(value: unknown): Record<string, unknown> | null {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? (value as Record<string, unknown>) : null;
}
