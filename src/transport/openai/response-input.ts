import * as v from 'valibot';
import type { ConversationContext } from '../../../machines/conversation.ts';
import type { Message, ResponseFormat, ToolChoice } from '../../../machines/messages.ts';
import { hasCode } from '../../errors.ts';
import { wrong } from '../../runtime/contract/check.ts';
import { runInput } from '../../runtime/contract/inputs.ts';
import type { Asked, RunInput } from '../../runtime/contract.ts';
import type { Runtime } from '../../runtime/port.ts';
import { runIdOf } from '../dialect/ids.ts';
import { messagesSaid } from './conversation-items.ts';
import {
  anything,
  effort,
  effortOf,
  flag,
  named,
  object,
  oneOf,
  only,
  sampling,
  text,
  topLogprobs,
  verbosity,
  verbosityOf,
  WITHOUT_EFFECT,
} from './parameters.ts';
import { answerOf, messagesOf } from './response-messages.ts';
import { fieldsOf, type ResponseFields } from './response-object.ts';
import { inputItem } from './response-schemas.ts';

/** The body of POST /v1/responses, and the run that it asks for. */

const tool = object({
  type: v.literal('function', 'must be function: svc itself runs no tools.'),
  name: text,
  description: v.nullish(text),
  parameters: v.nullish(anything),
  /** svc keeps a model to the schema whenever its provider can. */
  strict: v.nullish(flag),
});
const toolChoice = v.union(
  [oneOf(['none', 'auto', 'required']), object({ type: v.literal('function'), name: text })],
  'must be none, auto, required, or an object that names a function.',
);
const format = v.variant(
  'type',
  [
    object({ type: v.literal('text') }),
    object({ type: v.literal('json_object') }),
    object({
      type: v.literal('json_schema'),
      name: text,
      description: v.nullish(text),
      schema: anything,
      strict: v.nullish(flag),
    }),
  ],
  'must be an object with the type text, json_object or json_schema.',
);
const ONLY_OWN = 'svc has no such things beside its runs.';

export const responseInput = named(
  'ResponseInput',
  object({
    model: sampling.model,
    input: v.union([text, v.array(inputItem)], 'must be a text, or a list of items.'),
    instructions: v.nullish(text),
    previous_response_id: v.nullish(text),
    tools: v.nullish(v.array(tool, 'must be a list of tools.')),
    tool_choice: v.nullish(toolChoice),
    parallel_tool_calls: v.nullish(flag),
    text: v.nullish(object({ format: v.nullish(format), verbosity })),
    max_output_tokens: sampling.max_tokens,
    temperature: sampling.temperature,
    top_p: sampling.top_p,
    top_logprobs: v.nullish(topLogprobs),
    include: v.nullish(
      v.array(oneOf(['message.output_text.logprobs', 'reasoning.encrypted_content'])),
    ),
    reasoning: v.nullish(
      object({
        effort,
        /** An answer has the whole reasoning, if its provider sends it. */
        summary: v.nullish(text),
        generate_summary: v.nullish(text),
      }),
    ),
    metadata: runInput.entries.metadata,
    background: v.nullish(flag),
    stream: v.nullish(flag),
    stream_options: v.nullish(object({ include_obfuscation: v.nullish(flag) })),
    truncation: only(['disabled'], 'svc leaves nothing out of a conversation.'),
    /** Its items come before the input, and the response is added to it. */
    conversation: v.nullish(v.union([text, object({ id: text })], 'must be an id.')),
    prompt: v.nullish(v.never(`must be null: ${ONLY_OWN} Use instructions and input.`)),
    max_tool_calls: v.nullish(v.never('must be null: svc itself runs no tools.')),
    context_management: v.nullish(v.never('must be null: svc leaves nothing out.')),
    ...WITHOUT_EFFECT,
    /** False: no later request finds the response. Its run stays in the history, as any run. */
    store: v.nullish(flag),
  }),
);
export type ResponseInput = v.InferOutput<typeof responseInput>;

export interface AskedRun {
  input: RunInput;
  /** The conversation that it belongs to. */
  joins: Asked['joins'];
  fields: ResponseFields;
}

/** Throws invalid_request with the name of the parameter. */
export async function runOfResponse(
  runtime: Pick<Runtime, 'runs'>,
  body: ResponseInput,
): Promise<AskedRun> {
  const { previous_response_id: previous, instructions, tools = [], include } = body;
  if (body.background === true && body.store === false)
    throw wrong('store', 'store must be true for a background response, which is read later.');
  const conversation =
    typeof body.conversation === 'object' ? body.conversation?.id : body.conversation;
  if (previous != null && conversation != null)
    throw wrong('conversation', 'conversation and previous_response_id exclude each other.');
  const made = conversation == null ? null : await runtime.runs.made.get(conversation);
  const earlier =
    previous == null ? await saidIn(runtime, made) : await conversationOf(runtime, previous);
  const added = await messagesOf(runtime, body.input, earlier);
  if (added.length === 0) throw wrong('input', 'input must have at least one item.');
  const guide: Message[] =
    instructions == null
      ? []
      : [{ role: 'system', content: [{ type: 'text', text: instructions }] }];
  const { model, temperature, top_p, metadata, max_output_tokens: max_tokens } = body;
  const wantsLogprobs = include?.includes('message.output_text.logprobs') === true;
  return {
    joins:
      made === null
        ? undefined
        : {
            conversation: made.conversation_id,
            after: made.entries.length,
            said: [...guide, ...added],
          },
    input: {
      messages: [...guide, ...earlier, ...added],
      ...{ model, temperature, top_p, metadata, max_tokens },
      tools: tools == null || tools.length === 0 ? null : tools.map(toolOf),
      tool_choice: choiceOf(body.tool_choice),
      parallel_tool_calls: body.parallel_tool_calls === false ? false : null,
      reasoning_effort: effortOf(body.reasoning?.effort),
      verbosity: verbosityOf(body.text?.verbosity),
      response_format: formatOf(body.text?.format),
      logprobs: body.top_logprobs ?? (wantsLogprobs ? 0 : null),
      // A stream cannot take back what it sent, so the answer never begins again.
      recovery: 'resume',
    } as RunInput,
    fields: {
      ...(guide.length === 0 ? {} : { instructions: true }),
      ...(body.background === true ? { background: true } : {}),
      ...(body.store === false ? { unstored: true } : {}),
      ...(previous == null ? {} : { previous_response_id: previous }),
      ...(made === null ? {} : { conversation: made.conversation_id }),
      new_messages: added.length,
      ...(tools?.some(({ strict }) => strict != null)
        ? { strict: tools.map(({ strict }) => strict ?? null) }
        : {}),
    },
  };
}

/** What a conversation says. A request for an empty one has no messages before its own. */
function saidIn(runtime: Pick<Runtime, 'runs'>, made: ConversationContext | null) {
  return made === null ? [] : messagesSaid(runtime, made);
}

/** The messages of an earlier response without its instructions, and its answer. */
async function conversationOf(runtime: Pick<Runtime, 'runs'>, id: string): Promise<Message[]> {
  const unknown = () => wrong(PREVIOUS, `There is no response ${JSON.stringify(id.slice(0, 80))}.`);
  let run_id: string;
  try {
    run_id = runIdOf('resp_', id);
  } catch {
    throw unknown();
  }
  const asked = await runtime.runs.asked(run_id).catch((error: unknown) => {
    throw hasCode(error, 'run_unknown') ? unknown() : error;
  });
  const fields = fieldsOf(asked.asked_as);
  if (fields === null || fields.unstored === true) throw unknown();
  const { messages } = asked.request;
  const { ended_at } = await runtime.runs.get(run_id);
  if (ended_at === null) throw wrong(PREVIOUS, `The response ${id} has not ended yet.`);
  if (messages.length === 0)
    throw wrong(PREVIOUS, `The log does not keep what the response ${id} was asked.`);
  const content = await answerOf(runtime, run_id);
  return [
    ...messages.slice(fields.instructions === true ? 1 : 0),
    ...(content.length === 0 ? [] : [{ role: 'assistant', content } as const]),
  ];
}

const PREVIOUS = 'previous_response_id';

function toolOf({ name, description, parameters }: v.InferOutput<typeof tool>) {
  return { name, description: description ?? null, parameters: parameters ?? {} };
}

function choiceOf(choice: ResponseInput['tool_choice']): ToolChoice | null {
  if (choice == null) return null;
  return typeof choice === 'string' ? choice : { name: choice.name };
}

function formatOf(wanted: v.InferOutput<typeof format> | null | undefined): ResponseFormat | null {
  if (wanted == null || wanted.type === 'text') return null;
  if (wanted.type === 'json_object') return { type: 'json', name: null, schema: null };
  return { type: 'json', name: wanted.name, schema: wanted.schema };
}
