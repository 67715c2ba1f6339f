import { readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { basename } from 'node:path';
import { isClearText, isOpenInClear, parseAddress } from '../../../config/address.ts';
import type { Config } from '../../../config/config.ts';
import { hasSocket, listenersAt } from '../../../home/listeners.ts';
import { type Check, type DoctorContext, fail, ok, warn } from './check.ts';

/** Whether a daemon could listen on the configured addresses. */
export async function checkPorts({ config, running }: DoctorContext): Promise<Check[]> {
  if (running?.status.warning != null)
    return [
      warn(
        'listeners',
        running.status.warning,
        'Find that program with: ss -ltnp. Stop it, or choose another port.',
      ),
    ];
  if (running !== null)
    return [
      ok('listeners', `${running.status.addresses.http}, gRPC ${running.status.addresses.grpc}`),
    ];
  if (config === null) return [];
  const checks = await Promise.all([checkPort('http', config), checkPort('grpc', config)]);
  return checks.every((check) => check.status === 'ok')
    ? [ok('listeners', `${config.http} and ${config.grpc} are free`)]
    : checks.filter((check) => check.status !== 'ok');
}

/** Without TLS, another machine's request and its token can be read on the way. */
export function checkExposure({ config, running }: DoctorContext): Check[] {
  const tls_cert = config?.tls_cert ?? null;
  const listening = running?.status.addresses.http ?? null;
  const http = listening?.replace(/^https?:\/\//, '') ?? config?.http ?? '127.0.0.1:0';
  const isOpen = listening === null ? isClearText({ http, tls_cert }) : isOpenInClear(listening);
  if (!isOpen) return [];
  return [
    warn(
      'listeners',
      `Other machines can reach ${http}, and HTTP has no TLS there: ` +
        'tokens and prompts can be read on the way.',
      'Set tls_cert and tls_key, or listen on 127.0.0.1.',
    ),
  ];
}

async function checkPort(name: 'http' | 'grpc', config: Config): Promise<Check> {
  const address = config[name];
  const { host, port } = parseAddress(address) ?? { host: '127.0.0.1', port: 0 };
  const code = await tryBind(host, port);
  if (code === null) return ok(name, address);
  if (code !== 'EADDRINUSE')
    return fail(
      'listeners',
      `${address} cannot be bound (${code}).`,
      `Choose another with --${name}.`,
    );
  const owner = (await portOwner(port)) ?? 'another program';
  const used = `${address} is used by ${owner}`;
  if (config.sources[name] === 'default')
    return warn(
      'listeners',
      `${used}, so a start takes another address.`,
      `Stop it, or choose an address: svc config set ${name} 127.0.0.1:<port>`,
    );
  return fail(
    'listeners',
    `${used}.`,
    `Stop it, or take any free port: svc config set ${name} 127.0.0.1:0`,
  );
}

/** The error code of the bind; null if it worked. */
function tryBind(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? 'unknown'));
    server.listen(port, host, () => server.close(() => resolve(null)));
  });
}

/** The process that listens on a TCP port of this machine, as `name (pid 1)`; null if unknown. */
async function portOwner(port: number): Promise<string | null> {
  const inodes = await listenersAt(port);
  if (inodes.size === 0) return null;
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name));
  for (const pid of pids)
    if (await hasSocket(pid, inodes)) return `${await nameOf(pid)} (pid ${pid})`;
  return null;
}

/**
 * The program and its script, without its arguments, which may have secrets. The system has only
 * the name of a thread.
 */
async function nameOf(pid: string): Promise<string> {
  const text = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  const [program = '', script = ''] = text.split('\0');
  const isRunner = /^(node|bun|deno|python[\d.]*|ruby|java)$/.test(basename(program));
  const names = [program, ...(isRunner && !script.startsWith('-') ? [script] : [])];
  return (
    names
      .map((name) => basename(name))
      .join(' ')
      .trim() || 'a process'
  );
}
