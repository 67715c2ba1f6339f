import { TIMEOUT_ERROR } from '../../../machines/run/context.ts';

/**
 * The meaning of an event of a run, in plain words. Its data may come from an untrusted file, so
 * nothing is assumed.
 */
export function sentence(type: string, data: Record<string, unknown>, provider: string): string {
  return sentences[type]?.(data, provider) ?? `${type.replace(/^run\./, '').replaceAll('_', ' ')}`;
}

type Data = Record<string, unknown>;

const sentences: Readonly<Record<string, (data: Data, provider: string) => string>> = {
  'run.accepted': ({ client, request, fallbacks }, provider) =>
    `it was accepted from ${word(client)}, for the provider ${provider}${
      inner(request).cloud === true ? ', which is not on this machine' : ''
    }${fallbacksText(fallbacks)}`,
  'run.started': ({ attempt, resumes }, provider) =>
    `the provider ${provider} was asked${
      resumes === true ? ' to continue the recorded text' : ''
    } (attempt ${word(attempt)})`,
  'run.output_appended': ({ attempt, kind, call }, provider) =>
    `the provider ${provider} ${DID[word(kind)]?.(inner(call)) ?? 'answered'} (attempt ` +
    `${word(attempt)})`,
  'run.completed': ({ finish_reason, usage }) =>
    `the answer was complete (${word(finish_reason)}${tokens(inner(usage))})`,
  'run.turn_completed': (_, provider) => `the provider ${provider} called tools`,
  'run.asked_again': ({ form_problem }) =>
    `the answer did not have its form, so the model is asked again: ${word(form_problem)}`,
  'run.tool_requested': ({ call, server, tool, approval }) =>
    `call ${word(call)} is ${word(server)}/${word(tool)}` +
    (approval === 'ask' ? ', which needs an approval' : ''),
  'run.tool_allowed': ({ call, by }) => `call ${word(call)} was allowed (by ${word(by)})`,
  'run.tool_denied': ({ call, by, reason }) =>
    `call ${word(call)} was denied (by ${word(by)}): ${word(reason)}`,
  'run.tool_started': ({ call }) => `call ${word(call)} began`,
  'run.tool_reported': ({ call, text }) => `call ${word(call)} reported: ${word(text)}`,
  'run.tool_finished': ({ call, is_error }) =>
    `call ${word(call)} ended${is_error === true ? ' with an error' : ''}`,
  'run.tool_lost': ({ call, error }) => `call ${word(call)} was cut off: ${failure(error)}`,
  'run.tool_decided': ({ call, decision, by }) =>
    `${word(by)} decided about call ${word(call)}, whose result was not known: ` +
    (DECISIONS[word(decision)] ?? word(decision)),
  'run.attempt_failed': ({ attempt, error, retry_at, next }) => {
    const after =
      next === undefined
        ? `the next attempt starts at ${clock(Number(retry_at))}`
        : `it continues with ${target(next)}`;
    return `attempt ${word(attempt)} failed: ${failure(error)}; ${after}`;
  },
  'run.sent_to_cloud': ({ provider, model, bytes }) =>
    `${word(bytes)} bytes left this machine for ${target({ provider, model })}`,
  'run.failed': ({ error }) => `it failed: ${failure(error)}`,
  'run.suspended': ({ error }) => `it was cut off, and waits to resume: ${failure(error)}`,
  'run.recovered': ({ downtime_ms }) =>
    `it was found unfinished after ${seconds(downtime_ms)}: ` +
    'the daemon was down, or the computer slept',
  'run.cancel_requested': ({ by }) => `its cancellation was requested (by ${word(by)})`,
  'run.deadline_passed': ({ deadline }) =>
    `a time limit passed: ${(TIMEOUT_ERROR[word(deadline)] ?? word(deadline)).replace(/\.$/, '')}`,
  'run.interrupt_requested': ({ reason }) =>
    `its work had to stop (${word(reason).replaceAll('_', ' ')})`,
  'run.cancelled': ({ forced }) => `it was cancelled${forcedWords(forced)}`,
  'run.timed_out': ({ forced }) => `it ended because it took too long${forcedWords(forced)}`,
  'run.interrupted': ({ error }) => `it ended unfinished: ${failure(error)}`,
};

const DECISIONS: Readonly<Record<string, string>> = {
  repeat: 'it is carried out again',
  result: 'this person gave its result',
  skip: 'the run continues without its result',
};

/** The action of a provider, by the kind of its output besides text. */
const DID: Readonly<Record<string, (call: Data) => string>> = {
  reasoning: () => 'reasoned',
  refusal: () => 'refused to answer',
  tool_call: ({ name }) => `called the tool ${word(name)}`,
};

/** Local time of day with milliseconds. */
export function clock(at: number): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return 'an unknown time';
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => digits(part));
  return `${time.join(':')}.${digits(date.getMilliseconds(), 3)}`;
}

/** Local date. */
export function day(at: number): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return '';
  return [date.getFullYear(), digits(date.getMonth() + 1), digits(date.getDate())].join('-');
}

function digits(value: number, count = 2): string {
  return String(value).padStart(count, '0');
}

function target(value: unknown): string {
  const { provider, model } = inner(value);
  return `${word(provider)}/${word(model)}`;
}

/** The targets after the first one. */
function fallbacksText(fallbacks: unknown): string {
  return Array.isArray(fallbacks) && fallbacks.length > 0
    ? `, then ${fallbacks.map(target).join(', then ')}`
    : '';
}

function failure(error: unknown): string {
  const { code, message } = inner(error);
  return `${word(message).replace(/\.$/, '')} (${word(code)})`;
}

function tokens({ input_tokens, output_tokens }: Data): string {
  if (typeof output_tokens !== 'number') return '';
  const before = typeof input_tokens === 'number' ? `${input_tokens} tokens in, ` : '';
  return `; ${before}${output_tokens} tokens out`;
}

function forcedWords(forced: unknown): string {
  return forced === true
    ? '; its work did not stop in time and was abandoned'
    : '; its work has stopped';
}

function seconds(ms: unknown): string {
  return typeof ms === 'number' ? `${Math.round(ms / 100) / 10} s` : 'some time';
}

function inner(value: unknown): Data {
  return typeof value === 'object' && value !== null ? (value as Data) : {};
}

function word(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '?';
}
