import type { Ending } from '../../../../machines/daemon/context.ts';
import { ENDINGS } from '../../../../machines/daemon/context.ts';
import { hasNoneFree } from '../../../descriptors.ts';
import { SvcError } from '../../../errors.ts';
import { ownerOf } from '../../../home/runtime-file.ts';
import { ago, daemonText, duration, endedAgo } from '../../terminal/print/format.ts';
import { notInForce } from '../daemon/not-in-force.ts';
import { type Check, type DoctorContext, fail, ok, type RunningDaemon, warn } from './check.ts';

export function checkDaemon({ running, runtime, paths, config }: DoctorContext): Check[] {
  if (running !== null)
    return [
      describe(running),
      // The daemon reports the problems it has seen. Current ones have a check already.
      ...(config === null ? [] : notInForce(running.status)).map((text) =>
        warn('configuration', text),
      ),
      ...lastBoot(running.status.last_boot),
    ];
  if (runtime.kind === 'missing') return [ok('daemon', 'not running')];
  if (runtime.kind === 'corrupt')
    return [
      warn(
        'daemon',
        `The runtime file cannot be used: ${runtime.reason}.`,
        `Run: svc start (it replaces the file), or delete ${paths.runtime}`,
      ),
    ];
  const { pid, started_at, version } = runtime.file;
  switch (ownerOf(runtime.file)) {
    case 'ours':
      return [reportSilentDaemon(pid, started_at)];
    case 'unproven':
      return [
        warn(
          'daemon',
          `Process ${pid} may be the daemon; it does not answer.`,
          'Check it before you end it.',
        ),
      ];
    case 'other':
      return [
        warn(
          'daemon',
          `The daemon ${version} died without a clean stop; ` +
            `its pid ${pid} belongs to another program now.`,
          'Run: svc start',
        ),
      ];
    case 'gone':
      return [
        warn(
          'daemon',
          `The daemon ${version} (pid ${pid}, started ${ago(started_at)}) died without a ` +
            'clean stop.',
          'Run: svc start. It recovers the unfinished runs.',
        ),
      ];
  }
}

function reportSilentDaemon(pid: number, started_at: string): Check {
  const detail = `Process ${pid} was started ${ago(started_at)} and does not answer.`;
  if (!hasNoneFree(pid))
    return fail('daemon', detail, 'See: svc logs. End it with: svc stop --force');
  const { message, hint } = new SvcError('descriptors_exhausted');
  return fail('daemon', `${detail} ${message}`, hint);
}

/**
 * A running daemon may refuse runs, such as in `running.disk_stalled`; the report has the reason.
 */
function describe({ status: { state_path, pid, since }, report }: RunningDaemon): Check {
  const time = duration(Date.now() - Date.parse(since));
  const detail = `${daemonText(state_path)} for ${time}, pid ${pid}`;
  if (!/^(ready|running)/.test(state_path)) return warn('daemon', detail, 'See: svc health');
  if (report.status !== 'fail') return ok('daemon', detail);
  return fail(
    'daemon',
    `${detail}. It accepts no runs: ${report.reason ?? 'it is not ready.'}`,
    'See: svc health',
  );
}

function lastBoot(last: { ending: Ending; at: string } | null): Check[] {
  if (last === null || last.ending === 'clean') return [];
  return [
    warn(
      'last boot',
      `The daemon before this one ${ENDINGS[last.ending]} (${endedAgo(last)}).`,
      'See: svc logs --level error',
    ),
  ];
}
