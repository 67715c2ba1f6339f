import { describe } from '../../../machines/describe.ts';
import { SCHEMA_VERSION } from '../../../machines/events.ts';
import { runMachine } from '../../../machines/run/chart.ts';
import { can, statePath } from '../../../machines/step.ts';
import { upcast } from '../../../machines/upcast.ts';
import { checkRunEvent } from '../../contract/events.ts';
import { SvcError } from '../../errors.ts';
import { type StoredEvent, toEvent } from '../../kernel/store/port.ts';
import { digestOf, FORMAT, FORMAT_VERSION } from './export.ts';
import { Chain } from './why.ts';

/** An exported run, from an untrusted file. */
export interface RunFile {
  run_id: string;
  redacted: boolean;
  exported_at: string;
  program_version: string;
  /** Checked and in order. The machine accepts each after those before it. */
  events: StoredEvent[];
}

/** Deeper than any export. */
const DEPTH_MAX = 24;

/**
 * Reads an export. It is untrusted input: form, digest, order and each state transition are
 * checked. Throws export_invalid.
 */
export function parseRunFile(text: string): RunFile {
  const fields = parse(text);
  if (fields.format !== FORMAT) throw exportInvalidError('It is not an exported run of svc.');
  if (fields.version !== FORMAT_VERSION) {
    const newer = typeof fields.version === 'number' && fields.version > FORMAT_VERSION;
    throw exportInvalidError(
      newer
        ? 'It was written by a newer version of svc.'
        : `Its version ${show(fields.version)} does not exist.`,
    );
  }
  const { digest, ...rest } = fields;
  if (digest !== digestOf(rest))
    throw exportInvalidError(
      'It was changed after it was written, or cut off: its digest does not match.',
    );
  const { run_id, events } = fields;
  if (typeof run_id !== 'string' || !/^run_\w{1,64}$/.test(run_id))
    throw exportInvalidError(`Its run_id ${show(run_id)} is not the id of a run.`);
  if (!Array.isArray(events) || events.length === 0)
    throw exportInvalidError('It holds no events.');
  const checked = events.map((event, index) => readEvent(event, index, run_id));
  return {
    run_id,
    redacted: fields.redacted === true,
    exported_at: typeof fields.exported_at === 'string' ? fields.exported_at : '',
    program_version: versionOf(fields.program),
    events: checkOrder(checked),
  };
}

/**
 * Folds the events up to a position, and keeps the states between. Throws export_invalid when the
 * machine refuses an event.
 */
export function foldRunFile({ events }: RunFile, until_seq = Number.POSITIVE_INFINITY): Chain {
  const chain = new Chain();
  for (const event of events) {
    if (event.seq > until_seq) break;
    const { snapshot } = chain;
    if (snapshot !== undefined && !can(snapshot, toEvent(event)))
      throw exportInvalidError(
        `Its event ${event.seq} (${event.type}) is not accepted in the state ` +
          `${statePath(snapshot)}.`,
      );
    chain.add(event);
  }
  return chain;
}

function parse(text: string): Record<string, unknown> {
  if (isDeep(text)) throw exportInvalidError('It is nested deeper than any export.');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw exportInvalidError('It is not JSON, or was cut off.');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw exportInvalidError('It is not a JSON object.');
  return value as Record<string, unknown>;
}

/** Checks the depth before parsing: deep nesting is expensive to parse. */
function isDeep(text: string): boolean {
  let depth = 0;
  let inText = false;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (inText) {
      if (code === BACKSLASH) index += 1;
      else if (code === QUOTE) inText = false;
    } else if (code === QUOTE) inText = true;
    else if (code === BRACKET || code === BRACE) depth += 1;
    else if (code === BRACKET + 2 || code === BRACE + 2) depth -= 1;
    if (depth > DEPTH_MAX) return true;
  }
  return false;
}

const [BACKSLASH, QUOTE, BRACKET, BRACE] = [0x5c, 0x22, 0x5b, 0x7b];

function readEvent(value: unknown, index: number, run_id: string): StoredEvent {
  const problem =
    typeof value === 'object' && value !== null
      ? problemOf(value as StoredEvent, index, run_id)
      : 'is not an object';
  if (problem !== null) throw wrongEvent(index, problem);
  const { seq, stream, version, type, schema, at, boot_id, data: written } = value as StoredEvent;
  const data = upcast(typeof schema === 'number' ? schema : 1, type, written);
  const wrong = checkRunEvent(type, data, index === 0, run_id);
  if (wrong !== null) throw wrongEvent(index, wrong);
  return { seq, stream, version, type, schema: SCHEMA_VERSION, at, boot_id, data };
}

function wrongEvent(index: number, problem: string): SvcError {
  return exportInvalidError(`Its event number ${index + 1} ${problem}.`);
}

function problemOf(
  { seq, stream, version, type, at, boot_id, data }: StoredEvent,
  index: number,
  run_id: string,
): string | null {
  if (!Number.isSafeInteger(seq) || seq < 1) return 'has no position in the log';
  if (stream !== run_id) return 'is of another stream';
  if (version !== index + 1)
    return `has the version ${show(version)}: some are missing, or out of order`;
  if (typeof at !== 'number' || !(Math.abs(at) <= LATEST)) return 'has no time';
  if (typeof boot_id !== 'string') return 'has no boot_id';
  if (typeof type !== 'string' || !types().has(type))
    return `has the type ${show(type)}, which this version does not know`;
  return typeof data !== 'object' || data === null || Array.isArray(data) ? 'has no data' : null;
}

function checkOrder(events: StoredEvent[]): StoredEvent[] {
  const wrong = events.find(
    (event, index) => index > 0 && event.seq <= (events[index - 1]?.seq ?? 0),
  );
  if (wrong !== undefined) throw exportInvalidError(`Its event ${wrong.seq} is out of order.`);
  return events;
}

let known: ReadonlySet<string> | null = null;

function types(): ReadonlySet<string> {
  known ??= new Set([
    'run.accepted',
    ...describe(runMachine).transitions.map(({ event }) => event),
  ]);
  return known;
}

function versionOf(program: unknown): string {
  const { version } = (typeof program === 'object' && program !== null ? program : {}) as {
    version?: unknown;
  };
  return typeof version === 'string' ? version.slice(0, 40) : '?';
}

function show(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number'
    ? JSON.stringify(value).slice(0, 80)
    : 'that it gives';
}

function exportInvalidError(message: string): SvcError {
  return new SvcError('export_invalid', message);
}

/** The last moment of a JavaScript date. */
const LATEST = 8.64e15;
