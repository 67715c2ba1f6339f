import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { request } from 'node:http';
import { createServer } from 'node:net';
import { isAbsolute } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { ENGINE_CRASHED } from '../../../../machines/retry.ts';
import { timeoutSignal } from '../../../async/timers.ts';
import { hasCode, SvcError } from '../../../errors.ts';
import { hasSocket, listenersAt } from '../../../home/listeners.ts';
import { platform } from '../../../home/platform.ts';
import { asGroupLeader, signalGroup } from '../../../home/restrained.ts';
import { asRecord, parseForeignJson } from '../../../json.ts';
import { jsonBudgets, SERVER_EXIT_SEEN_MS, SERVER_HEALTH_MS } from '../../../limits.ts';
import type { ProviderPort } from '../../../ports/providers.ts';
import {
  EngineChild,
  type EngineChildOptions,
  engineEnvironment,
  type Spawn,
} from '../engine-child.ts';
import { processTree } from '../memory-watch.ts';

/** A server that svc starts. */
export interface ServerSpec {
  /** The provider that it answers for. */
  id: string;
  /** The program and its arguments, with the places of port and key. */
  command: readonly string[];
  /** Memory that it needs and may have. Null: the files that the command names say it. */
  memory_bytes: number | null;
  /** Asks the server at an address. */
  at(base_url: string, key: string): ProviderPort;
}

export interface ServerProcessOptions extends EngineChildOptions {
  server: ServerSpec;
  /** A port that was free a moment ago. */
  port: number;
  /** The bound of its private memory. */
  memoryBytes: number;
  /** The memory that it has now. */
  onUse(bytes: number): void;
}

/** The settings of the next process of a server. `grow`: its attempt has so much memory. */
export async function prepareServer(
  server: ServerSpec,
  { env, limits, log }: Pick<EngineChildOptions, 'env' | 'limits' | 'log'>,
  grow: (attempt: number, bytes: number) => void,
): Promise<Spawn<ServerProcess>> {
  const { bytes } = await serverFiles(server);
  const memoryBytes = server.memory_bytes ?? limits.engine_memory_bytes + bytes;
  const port = await freePort();
  return ({ started, report }) =>
    new ServerProcess({
      started,
      env,
      limits,
      log,
      server,
      port,
      memoryBytes,
      onUse: (used) => grow(started.attempt, used),
      report,
    });
}

/**
 * The process of a server that serves OpenAI's API, such as llama-server or vLLM.
 *
 * 1. It has a private port and a fresh key. It gets a request only when one of its processes
 *    listens there: another program may have taken the port (Linux).
 * 2. It leads a group of processes. The group is killed when the server exits, and when the daemon
 *    is gone.
 * 3. Its last lines of output are part of the error when it does not start. While it answers, it
 *    may print prompts, so that stays in the log.
 */
export class ServerProcess extends EngineChild<ServerProcessOptions> {
  readonly remote: ProviderPort;
  /** The models that it lists. */
  models: readonly string[] = [];
  private readonly key: string;
  private readonly begun = performance.now();
  private readonly tail: string[] = [];
  /** The first line about an error. Others may come after it. */
  private complaint: string | null = null;
  private exited: (() => void) | null = null;
  private computing = 0;

  constructor(options: ServerProcessOptions) {
    const { server, port, env, memoryBytes } = options;
    const key = randomBytes(24).toString('base64url');
    const words = server.command.map((word) =>
      word.replaceAll('{port}', String(port)).replaceAll('{key}', key),
    );
    const { program, args, options: how } = asGroupLeader(words);
    const child = spawn(program, args, {
      ...how,
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      // Not in the arguments, which every user of the machine can read.
      env: { ...engineEnvironment(env), LLAMA_API_KEY: key, VLLM_API_KEY: key },
    });
    child.stdio[3]?.on('error', () => {});
    super(options, child, memoryBytes);
    this.key = key;
    this.remote = server.at(`http://127.0.0.1:${port}/v1`, key);
    if (child.pid === undefined) return;
    this.hasStarted = true;
    options.report({ type: 'engine.process_started', attempt: this.attempt, pid: child.pid });
    this.becomeReady().catch((error: unknown) =>
      options.log.error({ err: error }, 'the health of a server could not be watched'),
    );
  }

  /**
   * Why work at the server failed. Its connections break a moment before its exit is known, and
   * then the exit is the reason.
   */
  async causeOf(thrown: unknown): Promise<unknown> {
    if (!hasCode(thrown, 'provider_unreachable', 'stream_truncated')) return thrown;
    await Promise.race([this.gone, wait(SERVER_EXIT_SEEN_MS, undefined, { ref: false })]);
    return this.isGone ? this.loss(this.computing) : thrown;
  }

  /** The number of tokens of a text, from llama-server or else an estimate. */
  async tokensIn(text: string): Promise<number> {
    const reply = await this.reply('/tokenize', JSON.stringify({ content: text }));
    const { tokens } = asRecord(
      reply?.status === 200 ? parseForeignJson(reply.text, jsonBudgets.tokens) : null,
    );
    return Array.isArray(tokens) ? tokens.length : Math.ceil(Buffer.byteLength(text) / TOKEN_BYTES);
  }

  protected override requestExit(): void {
    this.signal(platform.endSignal ?? 'SIGKILL');
  }

  protected override killNow(): void {
    this.signal('SIGKILL');
  }

  protected override noteUse(bytes: number): void {
    this.options.onUse(bytes);
  }

  protected override noteLine(line: string): void {
    if (this.isLoaded) return;
    const short = line.slice(0, TAIL_LINE).replaceAll(this.key, '<key>');
    if (/\berror\b/i.test(short)) this.complaint ??= short;
    this.tail.push(short);
    if (this.tail.length > TAIL_LINES) this.tail.shift();
  }

  /** Waits for the last output, but not for ever: children of the server may keep its streams. */
  protected override noteExit(exit_code: number | null, signal: string | null): void {
    this.exited ??= () => {
      this.exited = () => {};
      this.end(exit_code, signal);
    };
    this.child.stdio[3]?.destroy();
    this.child.once('close', () => this.exited?.());
    setTimeout(() => this.exited?.(), SERVER_EXIT_SEEN_MS).unref();
  }

  protected override noteEnd(exit_code: number | null, signal: string | null): void {
    this.computing = this.orders;
    void this.remote?.close();
    // Something else killed it, or the bound of its memory did: the machine knows what that means.
    if (this.isLoaded || this.stopping || signal === 'SIGKILL' || !this.hasStarted) return;
    const isMissing = exit_code === 126 || exit_code === 127;
    const how = signal === null ? `with exit code ${exit_code}` : `by ${signal}`;
    const last =
      this.tail.length === 0 ? 'It printed nothing.' : `It printed last: ${this.lastOutput}`;
    this.fail({
      code: isMissing ? 'engine_failed' : ENGINE_CRASHED,
      message: `The server of ${this.options.server.id} ended ${how} before it was ready. ${last}`,
      retryable: !isMissing,
    });
  }

  private get lastOutput(): string {
    const { complaint, tail } = this;
    const isLost = complaint !== null && !tail.includes(complaint);
    return [...(isLost ? [complaint, '…'] : []), ...tail].join(' | ');
  }

  /** Asks until the server is ready. The machine ends the wait. */
  private async becomeReady(): Promise<void> {
    const { server, started, log } = this.options;
    for (let pause = HEALTH_FIRST_MS; ; pause = Math.min(pause * 2, HEALTH_PAUSE_MS)) {
      if (this.isGone || this.stopping) return;
      const status = await this.health();
      if (status !== null && !(await this.isListener())) {
        log.warn({ server: server.id }, 'another program answers at the port of a server');
      } else if (status === 401 || status === 403) {
        const message = `The server of ${server.id} does not take the key that svc gave it.`;
        return this.fail({ code: 'engine_failed', message, retryable: false });
      } else if (status !== null && (status < 300 || NO_HEALTH.has(status))) break;
      await wait(pause, undefined, { ref: false });
    }
    const signal = timeoutSignal(SERVER_HEALTH_MS);
    const listed = await this.remote.probe(signal).catch(() => ({ models: [] }));
    if (this.isGone || this.stopping) return;
    this.models = listed.models;
    this.isLoaded = true;
    const { attempt, model, path } = started;
    const load_ms = Math.round(performance.now() - this.begun);
    const info = { pid: this.child.pid ?? 0, model, path, load_ms };
    this.options.report({ type: 'engine.model_loaded', attempt, info });
  }

  /**
   * The status of its health, or of its models if it does not know the first. One that knows
   * neither answers: those of speech and images may have one path alone. Null: no answer.
   */
  private async health(): Promise<number | null> {
    const status = await this.statusOf('/health');
    const isUnknown = status !== null && NO_HEALTH.has(status);
    return isUnknown ? this.statusOf('/v1/models') : status;
  }

  private async statusOf(path: string): Promise<number | null> {
    return (await this.reply(path))?.status ?? null;
  }

  /** The answer of the server, up to a bound. Null: it does not answer. */
  private reply(path: string, body?: string): Promise<{ status: number; text: string } | null> {
    const { port, limits } = this.options;
    const headers = {
      authorization: `Bearer ${this.key}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    };
    const method = body === undefined ? 'GET' : 'POST';
    const signal = timeoutSignal(SERVER_HEALTH_MS);
    return new Promise((resolve) => {
      const none = () => resolve(null);
      const options = { host: '127.0.0.1', port, path, method, headers, agent: false, signal };
      const sent = request(options, async (response) => {
        let text = '';
        try {
          for await (const part of response.setEncoding('utf8')) {
            text += part;
            if (text.length > limits.provider_list_bytes) break;
          }
        } catch {
          return none();
        }
        resolve({ status: response.statusCode ?? 0, text });
      });
      sent.on('error', none);
      sent.end(body);
    });
  }

  /** Whether one of its processes listens at its port. Only Linux knows, so elsewhere yes. */
  private async isListener(): Promise<boolean> {
    if (!platform.hasProc) return true;
    const sockets = await listenersAt(this.options.port);
    for (const pid of await processTree(this.child.pid ?? 0))
      if (await hasSocket(pid, sockets)) return true;
    return false;
  }

  private signal(name: 'SIGTERM' | 'SIGKILL'): void {
    if (this.child.pid !== undefined && !this.isGone) signalGroup(this.child.pid, name);
  }
}

/** Of a text, on average. */
const TOKEN_BYTES = 4;
/** Output that the error of a start repeats. */
const TAIL_LINES = 5;
const TAIL_LINE = 240;
const HEALTH_FIRST_MS = 25;
const HEALTH_PAUSE_MS = 500;
/** Answers of a server without the path. */
const NO_HEALTH: ReadonlySet<number> = new Set([404, 405, 501]);

/** A port that no program of this machine has now. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (typeof address !== 'object' || address === null) throw new SvcError('engine_failed');
  return address.port;
}

/**
 * The identity of a server: its version, and the bytes of the files that its command names. They
 * are mostly its model.
 */
export async function serverFiles({
  command,
}: Pick<ServerSpec, 'command'>): Promise<{ version: string; bytes: number }> {
  const paths = command.map((word) => word.slice(word.indexOf('=') + 1));
  const found = await Promise.all(
    paths.map((path) => (isAbsolute(path) ? stat(path).catch(() => null) : null)),
  );
  const files = found.map((file) => (file?.isFile() ? file : null));
  const parts = files.map((file) => (file === null ? 0 : [file.size, file.mtimeMs, file.ino]));
  const version = createHash('sha256')
    .update(JSON.stringify([command, parts]))
    .digest('hex');
  const bytes = files.slice(1).reduce((sum, file) => sum + (file?.size ?? 0), 0);
  return { version: version.slice(0, 32), bytes };
}
