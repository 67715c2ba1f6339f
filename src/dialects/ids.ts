import { SvcError } from '../errors.ts';

/**
 * Ids of an API, made from the id of the run: `chatcmpl-01J…` is `run_01J…`. So a log line, a
 * client and `svc why` name the same run.
 */
export function toApiId(prefix: string, run_id: string): string {
  return `${prefix}${run_id.slice(RUN.length)}`;
}

/** The id of the run. Throws run_unknown for an id that svc did not make. */
export function runIdOf(prefix: string, id: string): string {
  const rest = id.startsWith(prefix) ? id.slice(prefix.length) : '';
  if (/^[0-9A-Z]{26}$/.test(rest)) return RUN + rest;
  const shown = JSON.stringify(id.slice(0, 80));
  throw new SvcError('run_unknown', `There is no run with the id ${shown}.`, { param: 'id' });
}

const RUN = 'run_';
