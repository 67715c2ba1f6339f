import type { MachineShape } from '../../../machines/describe.ts';
import type { StoredEvent } from '../../store/port.ts';
import type { EventRecord, EventSlice, RunRecord, StatusRecord } from '../contract.ts';

export type { StoredEvent } from '../../store/port.ts';

/** One living machine: where it stands, and since when. */
export interface Instance {
  stream: string;
  machine: string;
  state: string;
  state_path: string;
  since: string;
  /** Facts of its stream. */
  version: number;
  /** Position of its last fact in the log. */
  seq: number;
}

export interface MachinesRecord {
  machines: (MachineShape & { mermaid: string; instances: Instance[] })[];
  seq: number;
}

/** A provider as its facts tell; what comes from the configuration is there only in the present. */
export interface ProviderState {
  id: string;
  kind: 'local' | 'cloud';
  adapter: string;
  state: string;
  state_path: string;
  reason: string | null;
  since: string;
  base_url: string | null;
  models: number | null;
}

export interface EngineState {
  state: string;
  state_path: string;
  model: string | null;
  since: string;
  pid: number | null;
  threads: number | null;
  context_length: number | null;
  parallel: number | null;
  error: string | null;
}

/** A run of a picture; `shortened`: its texts are not whole, since the picture would be too large. */
export type RunShown = RunRecord & { shortened?: true };

/** The daemon with everything it had in hand, now or at an earlier position of the log. */
export interface PictureRecord {
  seq: number;
  at: string;
  boot_id: string;
  /** The end of the log, and its beginning: what is older was removed. */
  last_seq: number;
  first_seq: number;
  /** Null in `finished`: how many runs had ended by then is not known. */
  status: Omit<StatusRecord, 'runs' | 'home'> & {
    runs: { active: number; queued: number; finished: number | null };
  };
  instances: Instance[];
  /** Unfinished ones, and those that had ended in the minute before. */
  runs: RunShown[];
  queue: { length: number; capacity: number };
  providers: ProviderState[];
  engine: EngineState;
}

/** How a run came to be where it is. */
export interface RunWhyRecord {
  run_id: string;
  /** Of outputs that follow each other the first and the last; `left_out` of that one says how many lie between. */
  events: (EventRecord & { state_path: string; left_out?: number })[];
  /** The same in sentences. */
  explanation: string[];
  /** False when the log holds its beginning no more. */
  complete: boolean;
}

export interface LogQuery {
  from_seq?: number;
  follow: boolean;
  /** A name, or the beginning of one with `*` after it. */
  stream?: string;
  type?: string;
}

/** What can be asked about the machines and the past. */
export interface Travel {
  machines(): MachinesRecord;
  /** Throws invalid_request (`at`) for a position that the log does not have. */
  picture(query: { at?: number }): Promise<PictureRecord>;
  /** The record of a run as it was. Throws run_unknown, invalid_request (`at`). */
  runAt(id: string, at: number): Promise<RunRecord>;
  whyRun(id: string): Promise<RunWhyRecord>;
  /** The pieces of a file that another machine can fold again. Throws run_unknown before the first one. */
  exportRun(id: string, options: { redact: boolean }): AsyncIterable<string>;
  /** The events of the whole log, some at a time. Ends early when the signal aborts or the daemon closes. Throws busy, not_ready. */
  followLog(query: LogQuery, signal: AbortSignal): AsyncIterable<EventSlice>;
  /** Events as they are stored, of one stream or of all; fewer than `limit` when they are large, none after the end. */
  readStream(stream: string, from_version: number, limit: number): Promise<StoredEvent[]>;
  readLog(from_seq: number, limit: number): Promise<StoredEvent[]>;
}
