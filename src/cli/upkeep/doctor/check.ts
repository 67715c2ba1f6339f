import type { Config } from '../../../config/config.ts';
import type { ProviderRecord, ReportRecord } from '../../../contract/contract.ts';
import type { Paths } from '../../../home/paths.ts';
import type { RuntimeFileState } from '../../../home/runtime-file.ts';
import type { Results } from '../../../transport/control/protocol.ts';

/** The result of one check. */
export interface Check {
  name: string;
  status: 'ok' | 'warn' | 'fail';
  /** The finding, as a sentence. */
  detail: string;
  /** The remedy; null for none. */
  hint: string | null;
}

/** The answers of the running daemon. */
export interface RunningDaemon {
  status: Results['status'];
  report: ReportRecord;
  providers: ProviderRecord[];
  /** The configuration it runs with. The file may have changed since. */
  config: Config;
  models: Results['model.list']['models'];
}

/** The input of a check. `running` is null if no daemon answers. */
export interface DoctorContext {
  paths: Paths;
  /** The configuration of the next start; null if unusable. */
  config: Config | null;
  /** The configuration in effect: of the daemon, or else of its next start. */
  inForce: Config | null;
  running: RunningDaemon | null;
  runtime: RuntimeFileState;
}

export const ok = (name: string, detail: string): Check => ({
  name,
  status: 'ok',
  detail,
  hint: null,
});
export const warn = (name: string, detail: string, hint: string | null = null): Check => ({
  name,
  status: 'warn',
  detail,
  hint,
});
export const fail = (name: string, detail: string, hint: string): Check => ({
  name,
  status: 'fail',
  detail,
  hint,
});
