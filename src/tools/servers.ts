import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { McpServerEvent, McpServerSnapshot } from '../../machines/mcp-server.ts';
import { statePath } from '../../machines/step.ts';
import { timeoutSignal } from '../async/timers.ts';
import type { LoginStore } from '../config/keys/port.ts';
import {
  commandOf,
  editMcpFile,
  type McpFile,
  type McpServerConfig,
  readMcpFile,
  startOf,
  targetOf,
  transportOf,
} from '../config/mcp-file.ts';
import type { McpServerRecord, McpServersRecord, McpServerTools } from '../contract/mcp.ts';
import type { ToolPolicy } from '../contract/words.ts';
import { asSvcError, SvcError } from '../errors.ts';
import { asRecord } from '../json.ts';
import type { Limits } from '../limits.ts';
import type { EffectHandlers, Log, StreamPort } from '../ports/log.ts';
import type { Call, ManagedToolServers, ToolInfo, ToolResult } from '../ports/tools.ts';
import type { References } from './launch.ts';
import { McpServer } from './server.ts';
import type { ToolList } from './tool-list.ts';

/** The machines of the servers. */
export interface McpMachines {
  create(
    name: string,
    number: number,
    transport: McpServerRecord['transport'],
  ): Promise<StreamPort<McpServerSnapshot, McpServerEvent>>;
  /** Drops the machine of a server without a process. */
  forget(name: string, number: number): void;
}

export interface McpServersOptions {
  /** `mcp.json`. */
  file: string;
  /** Has the working folder of each server. */
  folder: string;
  machines: McpMachines;
  version: string;
  env: NodeJS.ProcessEnv;
  /** A stored key of a server. Null: it is not stored. */
  key(server: string, name: string): Promise<string | null>;
  login(server: string): LoginStore;
  /** Folders of svc, which no tool of svc may reach. */
  closed: readonly string[];
  limits: Limits;
  log: Log;
  now(): number;
}

interface Entry {
  config: McpServerConfig;
  /** Made on first use. */
  server: Promise<McpServer>;
  made: McpServer | null;
}

/**
 * The tool servers. The file says which there are, and is read again when it has changed: a server
 * that is not in it any more, or is started in another way, is stopped.
 */
export class McpServers implements ManagedToolServers {
  readonly handlers: Pick<EffectHandlers, 'startToolServer' | 'stopToolServer' | 'killToolServer'>;
  private readonly options: McpServersOptions;
  private readonly entries = new Map<string, Entry>();
  private readonly byNumber = new Map<number, McpServer>();
  private count = 0;
  private file: McpFile = { servers: new Map(), problems: new Map() };
  private stamp = '';
  private problem: string | null = null;
  private isClosed = false;

  constructor(options: McpServersOptions) {
    this.options = options;
    this.handlers = {
      startToolServer: ({ number, attempt }) => void this.byNumber.get(number)?.begin(attempt),
      stopToolServer: ({ number, attempt }) => this.byNumber.get(number)?.end(attempt),
      killToolServer: ({ number, attempt }) => this.byNumber.get(number)?.kill(attempt),
    };
  }

  names(): readonly string[] {
    const { servers } = this.read();
    return [...servers].filter(([, { disabled }]) => !disabled).map(([name]) => name);
  }

  async tools(name: string, signal: AbortSignal): Promise<readonly ToolInfo[]> {
    const server = await this.server(name);
    return (await server.tools(signal)).tools;
  }

  policy(name: string, tool: ToolInfo): ToolPolicy {
    const config = this.read().servers.get(name);
    if (config === undefined) return 'deny';
    const rule = ruleOf(config, tool.tool);
    if (rule !== undefined) return this.isChanged(name, tool) ? 'ask' : rule.policy;
    return config.policy ?? (config.trusted && tool.read_only ? 'allow' : 'ask');
  }

  isChanged(name: string, { tool, digest }: ToolInfo): boolean {
    const config = this.read().servers.get(name);
    const rule = config === undefined ? undefined : ruleOf(config, tool);
    return rule?.policy === 'allow' && rule.digest !== null && rule.digest !== digest;
  }

  async allowAlways(name: string, tool: string, seen: string | null = null): Promise<void> {
    const digest = seen ?? (await this.digestNow(name, tool));
    await editMcpFile(this.options.file, (servers) => {
      const before = asRecord(servers[name]);
      if (servers[name] === undefined) throw this.unknownServerError(name);
      const svc = asRecord(before.svc);
      const rule = { policy: 'allow', digest };
      const rules = { ...asRecord(svc.tools), [tool]: rule };
      return { [name]: { ...before, svc: { ...svc, tools: rules } } };
    });
  }

  target(name: string): string | null {
    const config = this.read().servers.get(name);
    return config === undefined ? null : commandOf(config);
  }

  async changes(name: string, tool: string, args: unknown): Promise<string | null> {
    const built_in = this.read().servers.get(name)?.built_in;
    if (built_in?.type !== 'svc:files') return null;
    const { closed, limits } = this.options;
    const { fileTools } = await import('./built-in/files.ts');
    const tools = await fileTools(built_in.reach, closed, limits).catch(() => []);
    return tools.find((each) => each.name === tool)?.changes?.(args) ?? null;
  }

  mayRepeat(name: string, { read_only, idempotent }: ToolInfo): boolean {
    return (read_only || idempotent) && this.read().servers.get(name)?.trusted === true;
  }

  async call(name: string, tool: string, args: unknown, call: Call): Promise<ToolResult> {
    const server = await this.server(name);
    if (call.digest != null && !(await this.isAsDecided(server, tool, call)))
      return { text: CHANGED, is_error: true };
    return server.call(tool, args, call);
  }

  /** What keeps the file from being read. Null: nothing. */
  get fileProblem(): string | null {
    this.read();
    return this.problem;
  }

  list(): McpServersRecord {
    const { servers, problems } = this.read();
    return {
      servers: [
        ...[...servers].map(([name, config]) => this.record(name, config)),
        ...[...problems].map(([name, reason]) => ({ ...BLANK, name, state: 'invalid', reason })),
      ],
      problem: this.problem,
    };
  }

  async show(name: string, isTest: boolean, signal: AbortSignal): Promise<McpServerTools> {
    const begun = performance.now();
    const server = await this.server(name);
    const { config } = server.options;
    const { tools, left_out } = await server.tools(signal, isTest);
    return {
      ...this.record(name, config),
      env: Object.keys(config.env),
      headers: Object.keys(config.headers),
      tools: tools.map(({ server: _, tool, ...info }) => ({
        name: tool,
        ...info,
        policy: this.policy(name, { server: name, tool, ...info }),
        changed: this.isChanged(name, { server: name, tool, ...info }),
      })),
      problems: [...left_out],
      took_ms: Math.round(performance.now() - begun),
    };
  }

  stop(name: string): void {
    const entry = this.entries.get(name);
    if (entry !== undefined) this.drop(name, entry);
  }

  /** Stops every server, with its machine. Resolves when no process is left. */
  async stopAll(): Promise<void> {
    this.isClosed = true;
    const signal = timeoutSignal(2 * this.options.limits.mcp_stop_ms);
    await Promise.allSettled(
      [...this.byNumber.values()].map((server) => server.stop('daemon_stopping', signal)),
    );
  }

  /** Kills the servers that are left, for when no event can be appended. */
  async close(): Promise<void> {
    this.isClosed = true;
    for (const server of this.byNumber.values()) server.close();
  }

  private async digestNow(name: string, tool: string): Promise<string> {
    const signal = timeoutSignal(this.options.limits.mcp_start_ms);
    const server = await this.server(name);
    const { tools } = server.list.tools.length > 0 ? server.list : await server.tools(signal);
    const known = tools.find((each) => each.tool === tool);
    if (known === undefined) throw unknownTool(name, tool);
    return known.digest;
  }

  /** Whether the tool of a decided call may still be called without another question. */
  private async isAsDecided(
    server: McpServer,
    tool: string,
    { digest, signal, isByPerson = false }: Call,
  ): Promise<boolean> {
    const { name } = server.options;
    const find = ({ tools }: ToolList) => tools.find((each) => each.tool === tool);
    const known = find(await server.tools(signal));
    if (!isByPerson && known !== undefined && this.policy(name, known) === 'allow') return true;
    // The decision may be long ago.
    const now = find(await server.toolsNow(signal));
    return now !== undefined && now.digest === digest && this.policy(name, now) !== 'deny';
  }

  private record(name: string, config: McpServerConfig): McpServerRecord {
    const made = this.entries.get(name)?.made;
    const snapshot = made?.snapshot;
    const context = snapshot?.context;
    const { trusted, policy } = config;
    const error = snapshot?.hasTag('absent') ? context?.error : null;
    const isTriedAgain = snapshot?.hasTag('failing') === true && error?.retryable !== false;
    const iso = (at: number) => new Date(at).toISOString();
    return {
      ...BLANK,
      name,
      transport: transportOf(config),
      state: config.disabled
        ? 'disabled'
        : snapshot === undefined
          ? 'stopped'
          : statePath(snapshot),
      since: context === undefined ? null : iso(context.since),
      reason: error?.message ?? null,
      code: error?.code ?? null,
      retry_at: isTriedAgain && context !== undefined ? iso(context.due_at) : null,
      target: targetOf(config),
      trusted,
      policy,
      tools: made == null || context?.attempt === 0 ? null : made.list.tools.length,
      left_out: made?.list.left_out.length ?? 0,
      server: context?.info?.server ?? null,
      protocol: context?.info?.protocol ?? null,
      pid: context?.info?.pid ?? null,
    };
  }

  /** Throws mcp_unknown, mcp_unavailable, daemon_stopping. */
  private server(name: string): Promise<McpServer> {
    const { servers, problems } = this.read();
    const config = servers.get(name);
    const problem = problems.get(name);
    if (this.isClosed) throw new SvcError('daemon_stopping');
    if (problem !== undefined)
      throw new SvcError('mcp_unavailable', `The tool server ${name} is invalid: ${problem}.`, {
        hint: `Correct it in ${this.options.file}.`,
        retryable: false,
      });
    if (config === undefined) throw this.unknownServerError(name);
    if (config.disabled)
      throw new SvcError('mcp_unavailable', `The tool server ${name} is switched off.`, {
        hint: `Switch it on: svc mcp set ${name} --enable`,
        retryable: false,
      });
    const entry = this.entries.get(name) ?? this.create(name, config);
    return entry.server;
  }

  private create(name: string, config: McpServerConfig): Entry {
    const { machines, folder, limits, log, version, env, key, login, closed, now } = this.options;
    this.count += 1;
    const number = this.count;
    const references: References = { env, key: (each) => key(name, each) };
    const make = async () => {
      const machine = await machines.create(name, number, transportOf(config));
      const server = new McpServer({
        name,
        number,
        version,
        config,
        machine,
        references,
        login: login(name),
        folder: join(folder, name),
        closed,
        limits,
        log,
        now,
      });
      this.byNumber.set(number, server);
      entry.made = server;
      return server;
    };
    const entry: Entry = { config, server: make(), made: null };
    this.entries.set(name, entry);
    entry.server.catch(() => this.entries.delete(name));
    return entry;
  }

  /** The file as it is now. An unreadable file changes nothing. */
  private read(): McpFile {
    const { file, log } = this.options;
    const stamp = stampOf(file);
    if (stamp === this.stamp) return this.file;
    this.stamp = stamp;
    try {
      this.file = readMcpFile(file);
      this.problem = null;
    } catch (thrown) {
      this.problem = asSvcError(thrown).message;
      log.warn({}, `the tool servers stay as they were: ${this.problem}`);
      return this.file;
    }
    for (const [name, entry] of this.entries) {
      const config = this.file.servers.get(name);
      if (config !== undefined && startOf(config) === startOf(entry.config)) entry.config = config;
      else this.drop(name, entry);
    }
    return this.file;
  }

  /** The machine goes when its process has. */
  private drop(name: string, entry: Entry): void {
    const { machines, limits, log } = this.options;
    this.entries.delete(name);
    void entry.server
      .then(async (server) => {
        await server.stop('changed', timeoutSignal(2 * limits.mcp_stop_ms));
        this.byNumber.delete(server.options.number);
        machines.forget(name, server.options.number);
      })
      .catch((error: unknown) =>
        log.warn({ err: error, server: name }, 'a tool server could not be stopped'),
      );
  }

  private unknownServerError(name: string): SvcError {
    const known = [...this.read().servers.keys()];
    const list = known.length === 0 ? 'none is configured' : `there are ${known.join(', ')}`;
    return new SvcError('mcp_unknown', `There is no tool server ${JSON.stringify(name)}; ${list}.`);
  }
}

export function unknownTool(server: string, tool: string): SvcError {
  return new SvcError(
    'mcp_unknown',
    `The tool server ${server} has no tool ${JSON.stringify(tool)}.`,
    { hint: `See its tools: svc mcp show ${server}` },
  );
}

/** The text that the model gets instead of a result. */
const CHANGED =
  'The call was not carried out: the tool, its server, or its policy has changed since the call ' +
  'was made. Call it again if it still fits.';

/** Changes with the file. */
function stampOf(file: string): string {
  try {
    const { ino, size, mtimeMs } = statSync(file);
    return `${ino} ${size} ${mtimeMs}`;
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code);
  }
}

const BLANK: McpServerRecord = {
  name: '',
  transport: 'stdio',
  state: 'stopped',
  since: null,
  reason: null,
  code: null,
  retry_at: null,
  target: '',
  trusted: false,
  policy: null,
  tools: null,
  left_out: 0,
  server: null,
  protocol: null,
  pid: null,
};

function ruleOf({ tools }: McpServerConfig, tool: string) {
  return Object.hasOwn(tools, tool) ? tools[tool] : undefined;
}
