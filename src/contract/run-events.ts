import type * as v from 'valibot';
import {
  clock,
  type Data,
  failure,
  fallbacksText,
  forcedWords,
  inner,
  seconds,
  target,
  tokens,
  word,
} from './event-words.ts';
import type { DeadlineName, EventFields, Recovery } from './events.ts';
import type { SourceRequest } from './messages/parts.ts';
import { TIMEOUT_ERROR, type ToolPolicy } from './words.ts';

/**
 * The events of a run: one row each, with its fields, its meaning in plain words, and what else a
 * reader of any event asks. `events.ts` makes the schemas and the types. Quick commands load the
 * words, so nothing of valibot is loaded here.
 */

/** The data may come from an untrusted file, so nothing is assumed of a field. */
type Says<E> = (data: { readonly [N in keyof E]?: unknown }, provider: string) => string;

/** What an event means for the run, as the diagrams colour it. */
export type Outcome = 'success' | 'failure' | 'cancel' | 'other';

interface Kind {
  outcome?: Outcome;
  /**
   * Whose texts its fields have, which a log may leave out: those of the end of an answer, or the
   * arguments and the result of a tool call. Absent: it has none, or the log knows it by its name.
   */
  texts?: 'answer' | 'tool';
}

function event<E extends v.ObjectEntries>(
  fields: (is: EventFields) => E,
  says: Says<E>,
  { outcome = 'other', texts }: Kind = {},
) {
  return { fields, says, outcome, texts };
}

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

export const runEvents = {
  'run.accepted': event(
    (is) => ({
      run_id: is.text,
      /** Its provider, model and cloud are the first target. */
      request: is.request,
      /** What the first target costs. Absent: it has no price. */
      price: is.absentOr(is.price),
      /** The client, for the fair queue. */
      client: is.text,
      idempotency_key: is.nullOr(is.text),
      /** SHA-256 of the request, so a key cannot be reused for another request. */
      request_digest: is.absentOr(is.nullOr(is.text)),
      /** Names the span of the client that asked, in the form of the W3C. */
      traceparent: is.absentOr(is.text),
      /** Name of the token that the request was sent with. Absent: the token of the home. */
      asked_by: is.absentOr(is.unread<string>()),
      /** How an application asked: what its API needs to describe the run later. */
      asked_as: is.absentOr(is.unread<SourceRequest>()),
      /** The client's own labels. */
      metadata: is.absentOr(is.unread<Readonly<Record<string, string>>>()),
      /** The first run of its conversation. Absent: it is the first one itself. */
      conversation: is.absentOr(is.text),
      /** The run whose answer it follows. Its messages begin with those of that run. */
      continues: is.absentOr(is.text),
      /** Names of the other tokens that asked turns whose texts it repeats. */
      turns_of: is.absentOr(is.unread<readonly string[]>()),
      /** Where the client was, such as a folder. */
      origin: is.absentOr(is.text),
      recovery: is.absentOr(is.word<Recovery>()),
      /** The model is called once more if its answer does not have the requested form. */
      ask_again: is.absentOr(is.flag),
      /** Its provider can continue from recorded tokens. */
      resumable: is.absentOr(is.flag),
      /** `omitted`: the log lacks the prompt, so only the current process can answer it. */
      content: is.absentOr(is.word<'omitted'>()),
      /** The targets after the first one, in their order. */
      fallbacks: is.absentOr(is.list(is.target)),
      max_attempts: is.number,
      /**
       * Attempts at a target that another one follows. Logs without it are older than
       * `run.sent_to_cloud`.
       */
      target_attempts: is.absentOr(is.number),
      /** How often the run may lose its work without new text in between. */
      max_losses: is.absentOr(is.number),
      queue_deadline_at: is.number,
      deadline_at: is.number,
      /** Longest wait for the first output of an attempt, including the load of the model. */
      first_output_ms: is.number,
      /** Longest silence between two outputs. */
      idle_ms: is.number,
      /** Longest wait for the work to stop after a cancel. */
      cancel_grace_ms: is.number,
    }),
    ({ client, request, fallbacks }, provider) =>
      `it was accepted from ${word(client)}, for the provider ${provider}${
        inner(request).cloud === true ? ', which is not on this machine' : ''
      }${fallbacksText(fallbacks)}`,
  ),
  /**
   * `resumes`: it continues after the recorded output. Otherwise that output is discarded. `turn`:
   * how many turns of the model are complete.
   */
  'run.started': event(
    (is) => ({ attempt: is.number, resumes: is.absentOr(is.flag), turn: is.absentOr(is.number) }),
    ({ attempt, resumes }, provider) =>
      `the provider ${provider} was asked${
        resumes === true ? ' to continue the recorded text' : ''
      } (attempt ${word(attempt)})`,
  ),
  'run.output_appended': event(
    (is) => is.output.entries,
    ({ attempt, kind, call }, provider) =>
      `the provider ${provider} ${DID[word(kind)]?.(inner(call)) ?? 'answered'} (attempt ` +
      `${word(attempt)})`,
  ),
  'run.completed': event(
    (is) => ({ attempt: is.number, ...is.completed.entries }),
    ({ finish_reason, usage }) =>
      `the answer was complete (${word(finish_reason)}${tokens(inner(usage))})`,
    { outcome: 'success', texts: 'answer' },
  ),
  /** A turn of the model is complete, and svc carries out the tools that it calls. */
  'run.turn_completed': event(
    (is) => ({ attempt: is.number, usage: is.usage }),
    (_, provider) => `the provider ${provider} called tools`,
  ),
  /** The answer does not have the requested form. It becomes a turn, and one more follows. */
  'run.asked_again': event(
    (is) => ({ attempt: is.number, usage: is.usage, form_problem: is.absentOr(is.text) }),
    ({ form_problem }) =>
      `the answer did not have its form, so the model is asked again: ${word(form_problem)}`,
    { texts: 'answer' },
  ),
  /** svc knows the tool. `approve_until`: when a call that waits for an approval is denied. */
  'run.tool_requested': event(
    (is) => ({
      call: is.number,
      server: is.text,
      tool: is.text,
      arguments: is.text,
      approval: is.word<ToolPolicy>(),
      approve_until: is.absentOr(is.number),
      repeatable: is.absentOr(is.flag),
      /** Of the tool as it was. A person allows this one, and no other. */
      digest: is.absentOr(is.text),
      /** The description of the tool, if a person decides. */
      description: is.absentOr(is.text),
    }),
    ({ call, server, tool, approval }) =>
      `call ${word(call)} is ${word(server)}/${word(tool)}` +
      (approval === 'ask' ? ', which needs an approval' : ''),
    { texts: 'tool' },
  ),
  /** `by`: the configuration (`policy`), or who decided. */
  'run.tool_allowed': event(
    (is) => ({ call: is.number, by: is.text }),
    ({ call, by }) => `call ${word(call)} was allowed (by ${word(by)})`,
  ),
  'run.tool_denied': event(
    (is) => ({ call: is.number, by: is.text, reason: is.text }),
    ({ call, by, reason }) => `call ${word(call)} was denied (by ${word(by)}): ${word(reason)}`,
  ),
  /** The call may begin now: this is recorded before the server hears of it. */
  'run.tool_started': event(
    (is) => ({ call: is.number, time_limit_at: is.number }),
    ({ call }) => `call ${word(call)} began`,
  ),
  /** The last words of its server about a call that works, with its progress. */
  'run.tool_reported': event(
    (is) => ({ call: is.number, text: is.text }),
    ({ call, text }) => `call ${word(call)} reported: ${word(text)}`,
    { texts: 'tool' },
  ),
  /** `media`: files of the result. The text has a line for each. */
  'run.tool_finished': event(
    (is) => ({
      call: is.number,
      text: is.text,
      is_error: is.flag,
      media: is.absentOr(is.list(is.file)),
    }),
    ({ call, is_error }) => `call ${word(call)} ended${is_error === true ? ' with an error' : ''}`,
    { texts: 'tool' },
  ),
  /** The result of a call that was started cannot come any more. */
  'run.tool_lost': event(
    (is) => ({ call: is.number, error: is.failure }),
    ({ call, error }) => `call ${word(call)} was cut off: ${failure(error)}`,
  ),
  /**
   * A person decides about a lost call. `result`: `text` is its result. `skip`: it has no result.
   */
  'run.tool_decided': event(
    (is) => ({
      call: is.number,
      decision: is.word<'repeat' | 'result' | 'skip'>(),
      by: is.text,
      text: is.absentOr(is.text),
    }),
    ({ call, decision, by }) =>
      `${word(by)} decided about call ${word(call)}, whose result was not known: ` +
      (DECISIONS[word(decision)] ?? word(decision)),
    { texts: 'tool' },
  ),
  /** `next`: the run moves to this target. Otherwise it retries the present one. */
  'run.attempt_failed': event(
    (is) => ({
      attempt: is.number,
      error: is.failure,
      retry_at: is.number,
      next: is.absentOr(is.target),
    }),
    ({ attempt, error, retry_at, next }) => {
      const after =
        next === undefined
          ? `the next attempt starts at ${clock(Number(retry_at))}`
          : `it continues with ${target(next)}`;
      return `attempt ${word(attempt)} failed: ${failure(error)}; ${after}`;
    },
    { outcome: 'failure' },
  ),
  /** The prompt leaves this machine. It is recorded before the first byte leaves. */
  'run.sent_to_cloud': event(
    (is) => ({ attempt: is.number, provider: is.text, model: is.text, bytes: is.number }),
    ({ provider, model, bytes }) =>
      `${word(bytes)} bytes left this machine for ${target({ provider, model })}`,
  ),
  'run.failed': event(
    (is) => ({ attempt: is.number, error: is.failure }),
    ({ error }) => `it failed: ${failure(error)}`,
    { outcome: 'failure' },
  ),
  /**
   * The work was lost or stopped before the answer was complete, and the run waits to resume.
   * `computing`: how many runs the engine computed when it died, including this one. 0: it computed
   * none of them, as while it loads, or was stopped for another reason. Absent: no engine died, or
   * the log is old.
   */
  'run.suspended': event(
    (is) => ({ attempt: is.number, error: is.failure, computing: is.absentOr(is.number) }),
    ({ error }) => `it was cut off, and waits to resume: ${failure(error)}`,
  ),
  /** Found unfinished by a later boot. The time between the boots counts for no deadline. */
  'run.recovered': event(
    (is) => ({ downtime_ms: is.number }),
    ({ downtime_ms }) =>
      `it was found unfinished after ${seconds(downtime_ms)}: ` +
      'the daemon was down, or the computer slept',
  ),
  'run.cancel_requested': event(
    (is) => ({ by: is.text }),
    ({ by }) => `its cancellation was requested (by ${word(by)})`,
    { outcome: 'cancel' },
  ),
  'run.deadline_passed': event(
    (is) => ({ deadline: is.word<DeadlineName>(), error: is.absentOr(is.failure) }),
    ({ deadline }) => {
      const said = TIMEOUT_ERROR[word(deadline)] ?? word(deadline);
      return `a time limit passed: ${said.replace(/\.$/, '')}`;
    },
    { outcome: 'cancel' },
  ),
  'run.interrupt_requested': event(
    (is) => ({ reason: is.text }),
    ({ reason }) => `its work had to stop (${word(reason).replaceAll('_', ' ')})`,
    { outcome: 'cancel' },
  ),
  'run.cancelled': event(
    (is) => ({ forced: is.flag }),
    ({ forced }) => `it was cancelled${forcedWords(forced)}`,
    { outcome: 'cancel' },
  ),
  'run.timed_out': event(
    (is) => ({ forced: is.flag }),
    ({ forced }) => `it ended because it took too long${forcedWords(forced)}`,
    { outcome: 'cancel' },
  ),
  'run.interrupted': event(
    (is) => ({ error: is.failure }),
    ({ error }) => `it ended unfinished: ${failure(error)}`,
    { outcome: 'failure' },
  ),
};
export type RunEventType = keyof typeof runEvents;
/** Events that change nothing of what a run knows: its fold has no case for them. None yet. */
export type OnlyRecorded = never;

/** The row of an event of any machine. Null: it is of another one, or a newer version has it. */
export function rowOf(type: string) {
  return Object.hasOwn(runEvents, type) ? runEvents[type as RunEventType] : null;
}

/** The meaning of an event of a run, in plain words. */
export function sentence(type: string, data: Data, provider: string): string {
  return rowOf(type)?.says(data, provider) ?? type.replace(/^run\./, '').replaceAll('_', ' ');
}
