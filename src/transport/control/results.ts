import type { StopReport } from '../../../machines/events.ts';
import type { ModelRecord } from '../../providers/port.ts';
import type {
  EventRecord,
  HealthRecord,
  LifecycleResult,
  Probe,
  ProviderRecord,
  ReportRecord,
  RunPage,
  RunRecord,
  StatusRecord,
} from '../../runtime/contract.ts';
import type { MachinesRecord, PictureRecord, StoredEvent } from '../../runtime/history/contract.ts';
import type { PullRecord } from '../../runtime/pulls/record.ts';

/** What each method of the local socket answers with. */
export interface Results {
  health: HealthRecord & Probe;
  'health.watch': HealthRecord & Probe;
  report: ReportRecord;
  status: StatusRecord & { warning: string | null };
  why: { events: EventRecord[] };
  lifecycle: LifecycleResult;
  stopped: StopReport | null;
  'run.start': RunRecord;
  'run.follow': RunRecord;
  'run.cancel': RunRecord;
  'run.get': RunRecord;
  'run.list': RunPage;
  'model.list': { models: ModelRecord[] };
  'model.show': ModelRecord & { metadata: Record<string, unknown>; metadata_left_out: number };
  'model.remove': ModelRecord;
  'model.pull': ModelRecord;
  'model.pull_cancel': { cancelled: boolean };
  'provider.list': { providers: ProviderRecord[] };
  'provider.add': ProviderRecord;
  'provider.remove': ProviderRecord;
  'provider.test': ProviderRecord;
  machines: MachinesRecord;
  picture: PictureRecord;
  'log.read': { events: StoredEvent[] };
  'log.stream': { events: StoredEvent[] };
  console: { url: string; file: string | null };
  config: unknown;
  token: { token: string };
  'token.rotate': { token: string };
}

/** What a stream sends before its result. */
export interface Events {
  'health.watch': HealthRecord & Probe;
  'run.start': { run: RunRecord } | { queue_position: number } | EventRecord;
  'run.follow': { queue_position: number } | EventRecord;
  'model.pull': PullRecord;
}
