import { hasCode, SvcError } from '../../../errors.ts';
import type { Paths } from '../../../home/paths.ts';
import { ownerOf, type RuntimeFile, readRuntimeFile } from '../../../home/runtime-file.ts';
import type { Results } from '../../../transport/control/protocol.ts';
import { againWhenCut } from '../../terminal/connect/again-when-cut.ts';
import { connectDaemon } from '../../terminal/connect/connect-daemon.ts';

type Status = Results['status'];

/** A status; fields that need an answer of the daemon are null without one. */
export type StatusView = {
  [K in keyof Status]: K extends 'state' | 'home' | 'addresses' ? Status[K] : Status[K] | null;
};

export interface StatusResult {
  status: StatusView;
  exit: number;
  events: Results['why']['events'] | null;
}

const ANSWER_MS = 3_000;
const NO_ADDRESSES: StatusView['addresses'] = { http: null, grpc: null, socket: null };

/**
 * The status of the daemon, and its exit code.
 *
 * 1. It answers on its socket: its own status, 0.
 * 2. It accepts the connection without an answer, or has no free descriptor: `unresponsive`, 4.
 * 3. There is no socket and the process is alive: `starting`, 0, during its first minute.
 *    After that, or if it had a socket already: `unresponsive`, 4.
 * 4. The process is gone and left its runtime file: `crashed`, 1, with the error of its log.
 * 5. There is no runtime file: `stopped`, 3, with the error of a start that failed.
 */
export async function findStatus(
  paths: Paths,
  { why = false }: { why?: boolean } = {},
): Promise<StatusResult> {
  try {
    return await againWhenCut(() => ask(paths, why));
  } catch (error) {
    if (hasCode(error, 'descriptors_exhausted')) return statusWithoutDescriptors(paths, error);
    if (
      !(error instanceof SvcError) ||
      !(['daemon_not_running', 'timed_out'].includes(error.code) || hasDied(paths, error))
    )
      throw error;
    const found = await statusWithoutAnswer(paths, error.code === 'timed_out');
    const { state, boot_id } = found.status;
    if (state !== 'stopped' && (state !== 'crashed' || boot_id === null)) return found;
    const { endOf } = await import('../../terminal/connect/last-error.ts');
    const warning = await endOf(state === 'stopped' ? null : boot_id, paths.logs);
    return { ...found, status: { ...found.status, warning } };
  }
}

async function statusWithoutDescriptors(
  paths: Paths,
  { message, hint }: SvcError,
): Promise<StatusResult> {
  const found = await statusWithoutAnswer(paths, true);
  return { ...found, status: { ...found.status, warning: `${message} ${hint}` } };
}

/** Whether the daemon died during the request. Another program on the socket is alive. */
function hasDied(paths: Paths, { code }: SvcError): boolean {
  const found = readRuntimeFile(paths.runtime);
  return (
    code === 'connection_lost' &&
    found.kind === 'present' &&
    ['gone', 'other'].includes(ownerOf(found.file))
  );
}

async function ask(paths: Paths, why: boolean): Promise<StatusResult> {
  const client = await connectDaemon(paths, { timeout_ms: ANSWER_MS });
  try {
    const status = await client.call('status', {}, { timeout_ms: ANSWER_MS });
    const { events } = why ? await client.call('why') : { events: null };
    return { status, exit: 0, events };
  } finally {
    client.close();
  }
}

async function statusWithoutAnswer(paths: Paths, accepted: boolean): Promise<StatusResult> {
  const found = readRuntimeFile(paths.runtime);
  const shown = (
    exit: number,
    fields: Partial<StatusView> & Pick<StatusView, 'state'>,
  ): StatusResult => ({ exit, events: null, status: { ...emptyStatus(paths), ...fields } });
  if (found.kind !== 'present')
    return accepted
      ? shown(4, { state: 'unresponsive' })
      : shown(3, { state: 'stopped', state_path: 'stopped' });
  const { file } = found;
  const { pid, version, boot_id } = file;
  const known = { pid, version, boot_id };
  if (!accepted && ownerOf(file) !== 'ours') return shown(1, { state: 'crashed', ...known });
  if (!accepted && file.addresses.socket === null && (await isYoung(file)))
    return shown(0, { state: 'starting', ...known, since: file.started_at });
  return shown(4, { state: 'unresponsive', ...known, addresses: file.addresses });
}

function emptyStatus(paths: Paths): StatusView {
  return {
    state: 'stopped',
    state_path: null,
    since: null,
    pid: null,
    version: null,
    boot_id: null,
    home: paths.home,
    addresses: NO_ADDRESSES,
    runs: null,
    seq: null,
    last_boot: null,
    warning: null,
  };
}

async function isYoung({ started_at }: RuntimeFile): Promise<boolean> {
  // Not imported above: a daemon that answers needs no limits.
  const { limitSpecs } = await import('../../../limits.ts');
  return Date.now() - Date.parse(started_at) < limitSpecs.start_ms.value;
}
