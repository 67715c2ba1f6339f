import type { ReportRecord } from '../../contract/contract.ts';
import { type Family, gauge } from './tally.ts';

/** What is read from the state of the machines at each scrape. */
export interface StateSources {
  report: ReportRecord;
  ready: boolean;
  /** When the longest waiting run was accepted. Null without a waiting run. */
  oldest_waiting_at: number | null;
  followers: number;
  stalled: boolean;
  now: number;
}

export function stateFamilies(sources: StateSources): Family[] {
  const { report, oldest_waiting_at, now } = sources;
  const { log, engines, queue, runs } = report;
  const one = (name: string, help: string, value: number | null) =>
    gauge(name, help, [[{}, value]]);
  const waited_s = oldest_waiting_at === null ? 0 : Math.max(0, now - oldest_waiting_at) / 1000;
  return [
    gauge('svc_info', 'The version of the daemon.', [[{ version: report.version }, 1]]),
    one('svc_ready', '1 while the daemon accepts runs.', sources.ready ? 1 : 0),
    gauge('svc_state', 'The state of the daemon.', [[{ state: report.state_path }, 1]]),
    gauge('svc_runs', 'Runs in the log, by state.', [
      [{ state: 'active' }, runs.active],
      [{ state: 'queued' }, runs.queued],
      [{ state: 'finished' }, runs.finished],
    ]),
    one('svc_queue_capacity', 'Runs that may be unfinished at one time.', queue.capacity),
    one('svc_queue_oldest_wait_seconds', 'How long the oldest waiting run waits.', waited_s),
    gauge('svc_embeddings', 'Embedding requests of this boot, by state.', [
      [{ state: 'active' }, report.embeddings.active],
      [{ state: 'answered' }, report.embeddings.answered],
      [{ state: 'failed' }, report.embeddings.failed],
    ]),
    gauge(
      'svc_provider_state',
      'The state of each provider.',
      report.providers.map(({ id, kind, state }) => [{ provider: id, kind, state }, 1]),
    ),
    gauge(
      'svc_engine_state',
      'The state of each engine with a process, by model.',
      engines.map(({ model, state }) => [{ model: model ?? '', state }, 1]),
    ),
    one('svc_log_position', 'Position of the last durable event.', log.durable_seq),
    one('svc_log_backlog_events', 'Events that wait for their commit.', log.lag),
    one('svc_log_size_bytes', 'Size of the log on disk.', log.size_bytes),
    one('svc_log_damaged', 'Damaged places that the check of the log knows.', log.verified.damaged),
    one('svc_log_stalled', '1 while the disk takes no commits.', sources.stalled ? 1 : 0),
    one('svc_followers', 'Clients that follow a run or the log.', sources.followers),
  ];
}
