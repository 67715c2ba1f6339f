import { hasNoneFree } from '../../descriptors.ts';
import { SvcError } from '../../errors.ts';
import { ownerOf } from '../../home/runtime-file.ts';
import { ago, duration } from '../print/format.ts';
import { type Alive, type Check, fail, ok, type Patient, warn } from './check.ts';

const ENDINGS: Record<string, string> = {
  failed: 'failed, and said why in its log',
  killed: 'was killed, or crashed without a word',
  power_lost: 'ended with the power of the machine',
};

export function checkDaemon({ alive, runtime, paths }: Patient): Check[] {
  if (alive !== null) return [running(alive), ...lastBoot(alive.status.last_boot)];
  if (runtime.kind === 'missing') return [ok('daemon', 'not running')];
  if (runtime.kind === 'corrupt')
    return [
      warn(
        'daemon',
        `The runtime file cannot be used: ${runtime.reason}.`,
        `Run: svc start (it is written anew), or delete ${paths.runtime}`,
      ),
    ];
  const { pid, started_at, version } = runtime.file;
  switch (ownerOf(runtime.file)) {
    case 'ours':
      return [silent(pid, started_at)];
    case 'unproven':
      return [
        warn(
          'daemon',
          `A process ${pid} is there, and may or may not be the daemon; it does not answer.`,
          'Look at it before you end it.',
        ),
      ];
    case 'other':
      return [
        warn(
          'daemon',
          `The daemon ${version} died without a clean stop; its pid ${pid} is another program's by now.`,
          'Run: svc start',
        ),
      ];
    case 'gone':
      return [
        warn(
          'daemon',
          `The daemon ${version} (pid ${pid}, started ${ago(started_at)}) died without a clean stop.`,
          'Run: svc start. It settles what was left.',
        ),
      ];
  }
}

function silent(pid: number, started_at: string): Check {
  const detail = `Process ${pid} was started ${ago(started_at)} and does not answer.`;
  if (!hasNoneFree(pid))
    return fail('daemon', detail, 'See: svc logs. End it with: svc stop --force');
  const { message, hint } = new SvcError('descriptors_exhausted');
  return fail('daemon', `${detail} ${message}`, hint);
}

/** A daemon that runs may take no runs, such as in `running.disk_stalled`; the report says so, and why. */
function running({ status: { state_path, pid, since }, report }: Alive): Check {
  const detail = `${state_path} for ${duration(Date.now() - Date.parse(since))}, pid ${pid}`;
  if (!/^(ready|running)/.test(state_path)) return warn('daemon', detail, 'See: svc health');
  if (report.status !== 'fail') return ok('daemon', detail);
  return fail(
    'daemon',
    `${detail}. It takes no runs: ${report.reason ?? 'it is not ready.'}`,
    'See: svc health',
  );
}

function lastBoot(last: { ending: string; at: string } | null): Check[] {
  if (last === null || last.ending === 'clean') return [];
  return [
    warn(
      'last boot',
      `The daemon before this one ${ENDINGS[last.ending] ?? last.ending}, ${ago(last.at)}.`,
      'See: svc logs --level error',
    ),
  ];
}
