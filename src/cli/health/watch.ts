import { SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import { INTERRUPTED, onInterrupt } from '../interrupt.ts';
import { note } from '../print/output.ts';
import { findAddress } from './address.ts';
import { sleep } from './http.ts';
import type { Answer, Source } from './source.ts';

const RETRY_MS = 500;

/** Shows each change until interrupted; the loss and the return of the daemon are changes too. */
export async function watch(
  paths: Paths,
  source: Source,
  name: 'http' | 'grpc' | 'socket',
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
    if (reached)
      note(`The daemon cannot be reached over ${name === 'socket' ? 'the socket' : name}.`);
    reached = false;
    await sleep(RETRY_MS, interrupt.signal);
  }
  interrupt.release();
  return INTERRUPTED;
}
