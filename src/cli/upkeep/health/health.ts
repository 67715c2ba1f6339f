import { hasCode, SvcError } from '../../../errors.ts';
import type { Paths } from '../../../home/paths.ts';
import { oneLine, spellUnseen } from '../../../logs/plain.ts';
import { whyUnread } from '../../terminal/connect/connect-daemon.ts';
import type { Context } from '../../terminal/context.ts';
import { INTERRUPTED, onInterrupt, sleep } from '../../terminal/interrupt.ts';
import { choiceFlag } from '../../terminal/parse/flag-values.ts';
import { localTime } from '../../terminal/print/format.ts';
import { note, paint, print, printJson } from '../../terminal/print/output.ts';
import { findAddress } from './address.ts';
import { type Answer, http, type Source, socket } from './sources.ts';

const SOURCES = ['http', 'grpc', 'socket'] as const;

/**
 * Exit 0 if the daemon is ready, 4 if not, 3 if the transport does not reach it. Exit 8 if the
 * daemon has no descriptors.
 */
export async function run({ paths, flags, json }: Context): Promise<number> {
  const name = choiceFlag(flags, 'source', SOURCES) ?? 'http';
  const source = await load(name);
  const show = (answer: Answer) =>
    json ? printJson({ source: name, ...answer }) : print(text(answer));
  if (flags.watch === true)
    return watch(paths, source, name, (answer) =>
      json
        ? print(spellUnseen(JSON.stringify({ source: name, ...answer })))
        : print(`${localTime(new Date().toISOString())}  ${text(answer)}`),
    );
  const answer = await source
    .ask(await findAddress(paths, name))
    .catch(async (error: unknown) => throwUnreachable(name, (await whyUnread(paths)) ?? error));
  show(answer);
  return answer.ready ? 0 : NOT_SERVING;
}

const NOT_SERVING = 4;
const RETRY_MS = 500;

async function load(name: (typeof SOURCES)[number]): Promise<Source> {
  if (name === 'grpc') return (await import('./grpc.ts')).grpc;
  return name === 'socket' ? socket : http;
}

/** Any failure means that the daemon cannot be reached over this transport. */
function throwUnreachable(name: string, error: unknown): never {
  if (hasCode(error, 'daemon_not_running', 'descriptors_exhausted')) throw error;
  const why =
    error instanceof SvcError
      ? `: ${error.message.charAt(0).toLowerCase()}${error.message.slice(1)}`
      : '.';
  throw new SvcError(
    'daemon_not_running',
    `The daemon cannot be reached over ${sourceName(name)}${why}`,
    { cause: error, hint: 'See: svc status' },
  );
}

/** The name of the source in a sentence. */
function sourceName(name: string): string {
  return name === 'socket' ? 'the socket' : name;
}

function text({ ready, live, status, state_path, output }: Answer): string {
  const word = ready ? paint('green', 'serving') : paint('red', 'not serving');
  const state = [
    oneLine(state_path ?? '') || (ready ? 'ready' : 'not ready'),
    live ? 'live' : 'not live',
    ...(status === 'warn' ? ['with a warning'] : []),
  ].join(', ');
  return `${word} (${state})${output ? `: ${oneLine(output)}` : ''}`;
}

/** Shows each change until interrupted; the loss and the return of the daemon are changes too. */
async function watch(
  paths: Paths,
  source: Source,
  name: (typeof SOURCES)[number],
  show: (answer: Answer) => void,
): Promise<number> {
  const interrupt = onInterrupt();
  let reached = true;
  while (!interrupt.signal.aborted) {
    try {
      for await (const answer of source.watch(await findAddress(paths, name), interrupt.signal)) {
        reached = true;
        show(answer);
      }
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
    }
    if (interrupt.signal.aborted) break;
    if (reached) note(`The daemon cannot be reached over ${sourceName(name)}.`);
    reached = false;
    await sleep(RETRY_MS, interrupt.signal);
  }
  interrupt.release();
  return INTERRUPTED;
}
