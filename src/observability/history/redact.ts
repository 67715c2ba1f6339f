import { machines } from '../../../machines/all.ts';
import { describe } from '../../../machines/describe.ts';
import { errors } from '../../errors.ts';
import type { StoredEvent } from '../../kernel/store/port.ts';

/**
 * Removes the texts and names of users from an event, and keeps the fields of the machines. A fold
 * leads through the same states. A text stays only if it is a word of svc or an id. Every other
 * text becomes its length, in any field.
 */
export function redactEvent(event: StoredEvent): StoredEvent {
  return { ...event, stream: redactStream(event.stream), data: redactFields(event.data) };
}

/** Fields with texts of users, even if a text happens to be a word of svc. */
const SAID = new Set([
  'prompt',
  'system',
  'arguments',
  'data',
  'token',
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
const VERSION = /^\d{1,4}\.\d{1,4}\.\d{1,4}(-(alpha|beta|rc)\.\d{1,4})?$/;
const FIELD = /^[a-z][a-z0-9_]{0,40}$/;

/** Words of svc that are neither in the table of errors nor in the machines. */
const NAMES =
  'http|disconnect|grpc|socket|console|signal|command line|drain|force|store_full|' +
  'daemon_stopping|model_changed|requested|queue|total|first_output|idle|stop|length|' +
  'repetition|content_filter|tool_calls|not_json|wrong_form|kept|compared|other|clean|failed|' +
  'killed|power_lost|local|cloud|text|system|user|assistant|tool|tool_call|tool_result|' +
  'reasoning|refusal|image|audio|json|auto|none|required|openai-compatible|llama.cpp|resume|' +
  'restart|end|omitted';

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
  if (typeof value === 'string')
    return !SAID.has(name) && isOurs(value) ? value : replaceByLength(value);
  // The tokens reveal the text. Their number does not.
  if (Array.isArray(value))
    return value.map((item) => (typeof item === 'number' ? 0 : redactValue(name, item)));
  return typeof value === 'object' && value !== null ? redactFields(value) : value;
}

/** A user chose the id of a provider too. */
function redactStream(stream: string): string {
  return stream.replace(
    /^provider:([^:]*)/,
    (_, id: string) => `provider:${isOurs(id) ? id : replaceByLength(id)}`,
  );
}

function replaceByLength(text: string): string {
  return text === '' ? '' : `[${text.length} characters]`;
}
