import type { Results } from '../../../transport/control/protocol.ts';
import type { Context, Flags } from '../../terminal/context.ts';
import { secondsFlag } from '../../terminal/parse/flag-values.ts';
import { note, print, printJson } from '../../terminal/print/output.ts';
import { type DaemonStop, type StopOptions, stopDaemon } from './stop-daemon.ts';

export async function run({ paths, flags, json }: Context): Promise<number> {
  const stopped = await stopDaemon(stopOptions(paths, flags, json));
  if (json) printJson({ state: 'stopped', ...stopped });
  else print(stoppedText(stopped));
  return 0;
}

export function stopOptions(paths: StopOptions['paths'], flags: Flags, json: boolean): StopOptions {
  const onDrain: StopOptions['onDrain'] = ({ active, queued }) =>
    note(`Waiting for ${count(active + queued)} to end. To stop at once: svc stop --force`);
  const onSilent: StopOptions['onSilent'] = (pid) =>
    note(
      `The daemon (pid ${pid}) does not answer and was sent SIGTERM. To kill it: svc stop --force`,
    );
  return {
    paths,
    force: flags.force === true,
    timeout_ms: secondsFlag(flags, 'timeout', { min: 0 }),
    ...(json ? {} : { onDrain, onSilent }),
  };
}

function stoppedText({ was_running, pid, killed, runs }: DaemonStop): string {
  if (!was_running) return 'svc is not running.';
  if (!killed && runs !== null && hadRuns(runs))
    return `svc has stopped (pid ${pid}): ${runsText(runs)}.`;
  return killed
    ? `svc did not stop in time and was killed (pid ${pid}). The next start recovers its runs.`
    : `svc has stopped (pid ${pid}).`;
}

function hadRuns({ finished, handed_over, ended }: NonNullable<Results['stopped']>): boolean {
  return finished + handed_over + ended > 0;
}

/** The outcome of the runs, as a sentence. */
export function runsText({
  finished,
  handed_over,
  ended,
}: NonNullable<Results['stopped']>): string {
  const handed = handed_over === 0 ? '' : `, ${handed_over} handed over to the next start`;
  const interrupted = ended === 0 ? '' : `, ${ended} interrupted`;
  return `${count(finished)} finished${handed}${interrupted}`;
}

function count(runs: number): string {
  return `${runs} ${runs === 1 ? 'run' : 'runs'}`;
}
