import { SvcError } from '../../../errors.ts';
import type { Paths } from '../../../home/paths.ts';
import { programVersion } from '../../../home/version.ts';
import { exportLog } from '../../../kernel/store/transfer/export.ts';
import type { LogSource } from '../../../kernel/store/transfer/port.ts';
import { oneLine } from '../../../logs/plain.ts';
import { noLog } from '../../terminal/connect/not-running.ts';
import type { Context } from '../../terminal/context.ts';
import { INTERRUPTED, onInterrupt } from '../../terminal/interrupt.ts';
import { withoutDaemon } from '../../terminal/offline/database.ts';
import { textFlag } from '../../terminal/parse/flag-values.ts';
import { isTerminal, note, warn } from '../../terminal/print/output.ts';
import { type Output, openOutput } from '../../terminal/print/output-file.ts';
import { EventProgress } from './progress.ts';
import { openSource } from './stores.ts';

/** Writes the whole log of the configured store for `svc import`. */
export async function run({ paths, flags }: Context): Promise<number> {
  const file = textFlag(flags, 'output');
  if (file === undefined && flags.all !== true && isTerminal(1))
    throw new SvcError('usage', 'The whole log is written to a file, or into a pipe.', {
      hint: 'For example: svc export --output log.jsonl. One run: svc runs export <id>',
    });
  return withoutDaemon(() => exportTo(file, paths));
}

async function exportTo(file: string | undefined, paths: Paths): Promise<number> {
  const interrupt = onInterrupt();
  const source = await openSource(paths);
  if (source === null) throw noLog();
  try {
    const output = openOutput(file);
    const outcome = await write(source, output, interrupt.signal).catch(async (error: unknown) => {
      await output.abandon();
      throw error;
    });
    const { events, writers } = source.head;
    if (outcome === 0 && writers > 0) warn(writersNote(writers));
    if (outcome === 0 && file !== undefined) note(oneLine(`${events} events written to ${file}.`));
    return outcome;
  } finally {
    await source.close();
    interrupt.release();
  }
}

async function write(source: LogSource, output: Output, signal: AbortSignal): Promise<number> {
  const progress = new EventProgress(!isTerminal(1));
  const { events } = source.head;
  const options = {
    program: programVersion(),
    now: Date.now(),
    onProgress: (done: number) => progress.at(done, events),
  };
  for await (const piece of exportLog(source, options)) {
    if (output.gone) return 0;
    if (signal.aborted) {
      await output.abandon();
      return INTERRUPTED;
    }
    await output.write(piece);
  }
  await output.close();
  return 0;
}

function writersNote(writers: number): string {
  const who = writers === 1 ? 'A daemon writes' : `${writers} daemons write`;
  return `${who} this log. Events recorded since the export began are not in it.`;
}
