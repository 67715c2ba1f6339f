import type { Config } from '../../config/config.ts';
import type { Paths } from '../../home/paths.ts';
import type { RuntimeFound } from '../../home/runtime-file.ts';
import type { ProviderRecord, ReportRecord } from '../../runtime/contract.ts';
import type { Results } from '../../transport/control/protocol.ts';

/** One thing that was looked at. */
export interface Check {
  name: string;
  status: 'ok' | 'warn' | 'fail';
  /** What was found, in a sentence. */
  detail: string;
  /** What to do about it; null when there is nothing to do. */
  hint: string | null;
}

/** What the running daemon says of itself. */
export interface Alive {
  status: Results['status'];
  report: ReportRecord;
  providers: ProviderRecord[];
}

/** What checks look at. `config` is null when it cannot be used, `alive` when no daemon answers. */
export interface Patient {
  paths: Paths;
  config: Config | null;
  alive: Alive | null;
  runtime: RuntimeFound;
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
