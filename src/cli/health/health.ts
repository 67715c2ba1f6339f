import { hasCode, SvcError } from '../../errors.ts';
import { escapeJson, oneLine } from '../../logs/plain.ts';
import type { Context } from '../context.ts';
import { choiceFlag } from '../parse/flag-values.ts';
import { paint, print, printJson } from '../print/output.ts';
import { findDoor } from './address.ts';
import type { Answer, Source } from './source.ts';

const SOURCES = ['http', 'grpc', 'socket'] as const;

/** Exit 0 when the daemon is ready, 4 when it is not, 3 when it cannot be reached over that transport. */
export async function run({ paths, flags, json }: Context): Promise<number> {
  const name = choiceFlag(flags, 'source', SOURCES) ?? 'http';
  const source = await load(name);
  const show = (answer: Answer) =>
    json ? printJson({ source: name, ...answer }) : print(text(answer));
  if (flags.watch === true) {
    const { watch } = await import('./watch.ts');
    return watch(paths, source, name, (answer) =>
      json ? print(escapeJson(JSON.stringify({ source: name, ...answer }))) : show(answer),
    );
  }
  const answer = await source.ask(await findDoor(paths, name)).catch(unreachable(name));
  show(answer);
  return answer.ready ? 0 : NOT_SERVING;
}

const NOT_SERVING = 4;

function load(name: (typeof SOURCES)[number]): Promise<Source> {
  if (name === 'grpc') return import('./grpc.ts').then(({ grpc }) => grpc);
  return name === 'socket'
    ? import('./socket.ts').then(({ socket }) => socket)
    : import('./http.ts').then(({ http }) => http);
}

/** Whatever keeps the answer from coming, the daemon cannot be reached there. */
function unreachable(name: string): (error: unknown) => never {
  return (error) => {
    if (hasCode(error, 'daemon_not_running')) throw error;
    const why =
      error instanceof SvcError
        ? `: ${error.message.charAt(0).toLowerCase()}${error.message.slice(1)}`
        : '.';
    throw new SvcError(
      'daemon_not_running',
      `The daemon cannot be reached over ${doorName(name)}${why}`,
      { cause: error, hint: 'See: svc status' },
    );
  };
}

/** As it stands in a sentence. */
function doorName(name: string): string {
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
