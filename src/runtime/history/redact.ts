import { machines } from '../../../machines/all.ts';
import { describe } from '../../../machines/describe.ts';
import { errors } from '../../errors.ts';
import type { StoredEvent } from '../../store/port.ts';

/**
 * Takes out of an event what somebody wrote or chose, and leaves what the machines go by: folded again, it leads through the same states.
 * A text stays only if it is a word of ours or an id; every other one is replaced by its length, whatever its field is called.
 */
export function redacted(event: StoredEvent): StoredEvent {
  return { ...event, stream: redactStream(event.stream), data: redactFields(event.data) };
}

/** Fields that hold what was said, even if it happens to be a word of ours. */
const SAID = new Set([
  'prompt',
  'system',
  'text',
  'message',
  'output',
  'idempotency_key',
  'request_digest',
  'chat_template',
  'path',
  'model',
]);
const ID = /^(run|boot|pull)_[0-9A-HJKMNP-TV-Z]{26}$/;
const VERSION = /^\d{1,4}\.\d{1,4}\.\d{1,4}$/;
const FIELD = /^[a-z][a-z0-9_]{0,40}$/;

/** Names of ours that the table of errors and the machines do not have. */
const NAMES =
  'http|disconnect|grpc|socket|console|signal|command line|drain|force|store_full|daemon_stopping|model_changed|requested|queue|total|first_output|idle|stop|length|content_filter|tool_calls|other|clean|failed|killed|power_lost|local|cloud|openai-compatible|llama.cpp|resume|restart|end|omitted';

let words: ReadonlySet<string> | null = null;

function isOurs(text: string): boolean {
  words ??= new Set([
    ...NAMES.split('|'),
    ...Object.keys(errors),
    ...machines.flatMap((machine) => describe(machine).states.map(({ path }) => path)),
  ]);
  return words.has(text) || ID.test(text) || VERSION.test(text);
}

function redactFields(fields: object): Record<string, unknown> {
  const kept = Object.entries(fields).filter(([name]) => FIELD.test(name));
  return Object.fromEntries(kept.map(([name, value]) => [name, redactValue(name, value)]));
}

function redactValue(name: string, value: unknown): unknown {
  if (typeof value === 'string') return !SAID.has(name) && isOurs(value) ? value : measured(value);
  // Which tokens they were tells the text; how many of them there were does not.
  if (Array.isArray(value))
    return value.map((item) => (typeof item === 'number' ? 0 : redactValue(name, item)));
  return typeof value === 'object' && value !== null ? redactFields(value) : value;
}

/** The id of a provider was chosen by somebody too. */
function redactStream(stream: string): string {
  return stream.replace(
    /^provider:([^:]*)/,
    (_, id: string) => `provider:${isOurs(id) ? id : measured(id)}`,
  );
}

function measured(text: string): string {
  return text === '' ? '' : `[${text.length} characters]`;
}
