import type { NewEvent } from '../../../machines/events.ts';
import type { RunContext, RunEvent } from '../../../machines/run/context.ts';
import { mayAskAgain } from '../../../machines/run/turns.ts';
import type { Usage } from '../../contract/events.ts';
import type { RunRequest } from '../../contract/messages/parts.ts';
import { formError } from '../../errors.ts';
import { isRecord, JsonExcess, readForeignJson } from '../../json.ts';
import { jsonBudgets } from '../../limits.ts';
import type { OutputPart } from '../../ports/providers.ts';
import type { AskedForm } from '../judge/judge.ts';

/** The form of an answer that was to be JSON: many servers know no such form, and drop the wish. */

/**
 * The event for a complete answer. An answer without the requested form has its own reason, unless
 * the provider reports why it is incomplete. The engine says of an answer that its grammar kept the
 * form.
 */
export async function judgeForm(
  event: NewEvent<RunEvent>,
  { request, output }: Pick<RunContext, 'request' | 'output'>,
  compare: (form: AskedForm) => Promise<string | null>,
): Promise<NewEvent<RunEvent>> {
  const asked = formOf(request);
  if (event.type !== 'run.completed' || asked === null || output.trim() === '') return event;
  const { finish_reason, form } = event;
  const isWhole = finish_reason === 'stop' || finish_reason === 'other';
  if (!isWhole || form === 'kept') return event;
  if (asked.about === 'schema' && !isJson(output, asked.form))
    return { ...event, finish_reason: 'not_json' };
  if (asked.form === null) return event;
  const form_problem = await compare(asked);
  return form_problem === null
    ? { ...event, form: 'compared' }
    : { ...event, finish_reason: 'wrong_form', form_problem };
}

/**
 * The event of an answer without its form if the model is called again: the answer becomes a turn.
 * `usage`: of this turn alone.
 */
export function askAgainOr(
  event: NewEvent<RunEvent>,
  context: RunContext,
  usage: Usage,
): NewEvent<RunEvent> {
  if (event.type !== 'run.completed' || !mayAskAgain(context)) return event;
  const problem = formError({ ...event, provider: 'the model' });
  if (problem === null) return event;
  const form_problem = event.form_problem ?? problem.message;
  return { type: 'run.asked_again', attempt: event.attempt, usage, form_problem };
}

/** The form to compare the text of an answer with. Null: the request asks for no form. */
export function formOf(request: RunRequest): AskedForm | null {
  const { response_format } = request;
  if (response_format !== undefined) return { about: 'schema', form: response_format.schema };
  const about = TEXT_FORMS.find((name) => request[name] !== undefined);
  return about === undefined ? null : { about, form: request[about] };
}

const TEXT_FORMS = ['regex', 'choice', 'grammar'] as const;

/** Without a schema, any object or list. */
function isJson(text: string, schema: unknown): boolean {
  try {
    const value = readForeignJson(text, jsonBudgets.foreign);
    return schema === null ? isRecord(value) : value !== undefined;
  } catch (thrown) {
    if (thrown instanceof JsonExcess) return true;
    throw thrown;
  }
}

/**
 * The output of a provider. If the answer was to be JSON, the fence of Markdown around it is left
 * out: the client requested the JSON alone. Tokens of a local model stay as they are.
 */
export function withoutFence(
  parts: AsyncIterable<OutputPart>,
  { response_format }: Pick<RunRequest, 'response_format'>,
): AsyncIterable<OutputPart> {
  return response_format === undefined ? parts : cutFence(parts);
}

async function* cutFence(parts: AsyncIterable<OutputPart>): AsyncGenerator<OutputPart> {
  const fence = new Fence();
  for await (const part of parts) {
    const isText = part.type === 'output' && part.kind === undefined;
    if (isText && part.token_ids.length > 0) yield part;
    else if (isText) {
      const text = fence.take(part.text);
      if (text !== '' || part.text === '' || part.logprobs !== undefined) yield { ...part, text };
    } else {
      const text = fence.end();
      if (text !== '') yield { type: 'output', text, token_ids: [] };
      yield part;
    }
  }
}

/** Leaves the fence out of a text that comes in pieces. A possible part of the fence waits. */
class Fence {
  private state: 'before' | 'inside' | 'none' = 'before';
  private waiting = '';

  take(piece: string): string {
    if (this.state === 'none') return piece;
    const text = this.waiting + piece;
    this.waiting = '';
    if (this.state === 'inside') return this.holdBackFence(text);
    const [opening] = OPENING.exec(text) ?? [];
    if (opening !== undefined) {
      this.state = 'inside';
      return this.holdBackFence(text.slice(opening.length));
    }
    if (MAY_OPEN.test(text)) {
      this.waiting = text;
      return '';
    }
    this.state = 'none';
    return text;
  }

  /** The waiting text if it is not a fence. The next text may have a fence again. */
  end(): string {
    const { state, waiting } = this;
    [this.state, this.waiting] = ['before', ''];
    return state === 'inside' && waiting.includes('```') ? '' : waiting;
  }

  private holdBackFence(text: string): string {
    const end = MAY_CLOSE.exec(text)?.index ?? text.length;
    this.waiting = text.slice(end);
    return text.slice(0, end);
  }
}

const OPENING = /^\s{0,64}```[a-z]{0,16}[\t ]*\r?\n/i;
const MAY_OPEN = /^\s{0,64}(`{1,3}|```[a-z]{0,16}[\t ]{0,16}\r?)?$/i;
const MAY_CLOSE = /\s{0,64}`{0,3}\s{0,64}$/;
