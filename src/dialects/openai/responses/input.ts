import * as v from 'valibot';
import { invalidRequest, withoutNull } from '../../../contract/check.ts';
import type { RequestSource, RunInput, ToolNarrowing } from '../../../contract/contract.ts';
import type { Message } from '../../../contract/messages/parts.ts';
import { runInput } from '../../../contract/run.ts';
import type { Runtime } from '../../../operations/port.ts';
import type { Reading } from '../../documents/documents.ts';
import { namedServers, narrowingOf } from '../../mcp-tools.ts';
import { messagesOfRequest } from '../conversation-items.ts';
import {
  anything,
  budgets,
  fixedValues,
  flag,
  formatOf,
  name,
  named,
  object,
  pick,
  reasoning,
  reasoningOf,
  SAMPLING_ALONE,
  sampling,
  schemaFields,
  seedOf,
  stopOf,
  text,
  topLogprobs,
  verbosity,
  verbosityOf,
  WITHOUT_EFFECT,
} from '../parameters.ts';
import { ASK_SUMMARY } from './compaction.ts';
import { conversationOf, type Earlier, NOTHING } from './earlier.ts';
import { messagesOf } from './messages.ts';
import type { ResponseFields } from './object.ts';
import { type InputItem, inputItems } from './schemas.ts';
import {
  chooseTools,
  mergeToolboxes,
  nameInRun,
  sentTools,
  toolboxOf,
  toolChoice,
} from './tools.ts';

/** The body of POST /v1/responses, and the run that it asks for. */

const format = v.variant(
  'type',
  [
    object({ type: v.literal('text') }),
    object({ type: v.literal('json_object') }),
    object({ type: v.literal('json_schema'), ...schemaFields, schema: anything }),
  ],
  'must be an object with the type text, json_object or json_schema.',
);
const ONLY_OWN = 'svc has no such things beside its runs.';

/** The conversation of a request, and its tools. */
const options = {
  model: sampling.model,
  input: v.nullish(v.union([text, inputItems], 'must be a text, or a list of items.')),
  instructions: v.nullish(text),
  previous_response_id: v.nullish(text),
  tools: v.nullish(sentTools),
  tool_choice: v.nullish(toolChoice),
  parallel_tool_calls: v.nullish(flag),
  text: v.nullish(object({ format: v.nullish(format), verbosity })),
  reasoning: v.nullish(
    object({
      ...reasoning,
      /** An answer has the whole reasoning, if its provider sends it. */
      summary: v.nullish(text),
      generate_summary: v.nullish(text),
      /** A model gets what its request has of earlier reasoning. */
      context: v.nullish(text),
    }),
  ),
  ...budgets,
  truncation: fixedValues(['disabled'], 'svc leaves nothing out of a conversation.'),
  /** Its items come before the input, and the response is added to it. */
  conversation: v.nullish(v.union([text, object({ id: text })], 'must be an id.')),
  prompt: v.nullish(v.never(`must be null: ${ONLY_OWN} Use instructions and input.`)),
  ...WITHOUT_EFFECT,
  /** Codex says here where a request comes from. */
  client_metadata: v.nullish(anything),
};

export const countInput = named('ResponseCountInput', object(options));
export const compactInput = named('ResponseCompactInput', object({ ...options, model: name() }));
export const responseInput = named(
  'ResponseInput',
  object({
    ...options,
    max_output_tokens: runInput.entries.max_tokens,
    /** Most are not of this API, but neighbours know them. */
    ...pick(sampling, [...SAMPLING_ALONE, 'stop', 'seed']),
    top_logprobs: topLogprobs,
    include: v.nullish(v.array(text, 'must be a list of texts.')),
    metadata: runInput.entries.metadata,
    background: v.nullish(flag),
    stream: v.nullish(flag),
    stream_options: v.nullish(object({ include_obfuscation: v.nullish(flag) })),
    max_tool_calls: v.nullish(v.never('must be null: the limit tool_calls bounds them.')),
    context_management: v.nullish(v.never('must be null: svc leaves nothing out.')),
    /** False: no later request finds the response. Its run stays in the history, as any run. */
    store: v.nullish(flag),
  }),
);
export type CountInput = v.InferOutput<typeof countInput>;
export type CompactInput = v.InferOutput<typeof compactInput>;
export type ResponseInput = v.InferOutput<typeof responseInput>;

export interface ResponseRun {
  input: RunInput;
  /** The conversation that it belongs to. */
  joins: RequestSource['joins'];
  fields: ResponseFields;
  narrowings: readonly ToolNarrowing[];
  /** The conversation without instructions, for a request that continues it. */
  whole: Earlier;
}

/**
 * Throws invalid_request with the name of the parameter, and previous_response_not_found.
 * `earlierOf`: the conversation of an earlier response.
 */
export async function runOfResponse(
  runtime: Pick<Runtime, 'runs'>,
  body: ResponseInput,
  reading: Reading,
  earlierOf = (id: string) => conversationOf(runtime, id),
): Promise<ResponseRun> {
  const { previous_response_id: previous, instructions, include, safety_identifier } = body;
  if (body.background === true && body.store === false)
    throw invalidRequest(
      'store',
      'store must be true for a background response, which is read later.',
    );
  const conversation =
    typeof body.conversation === 'object' ? body.conversation?.id : body.conversation;
  if (previous != null && conversation != null)
    throw invalidRequest(
      'conversation',
      'conversation and previous_response_id exclude each other.',
    );
  const made = conversation == null ? null : await runtime.runs.made.get(conversation);
  const earlier =
    previous != null
      ? await earlierOf(previous)
      : made === null
        ? NOTHING
        : { ...NOTHING, messages: await messagesOfRequest(runtime, made, reading) };
  const items = body.input ?? [];
  const { messages: added, sent: called = {} } = await messagesOf(
    runtime,
    items,
    earlier.messages,
    reading,
  );
  const compacts = isCompaction(items);
  if (compacts && made !== null)
    throw invalidRequest(
      'conversation',
      'conversation must be null: a compacted one is another one.',
    );
  if (compacts && earlier.messages.length + added.length > 0) added.push(ASK_SUMMARY);
  const guide: Message[] =
    instructions == null
      ? []
      : [{ role: 'system', content: [{ type: 'text', text: instructions }] }];
  const sent = body.tools ?? [];
  const brought = mergeToolboxes(
    earlier.toolbox,
    toolboxOf(typeof items === 'string' ? [] : toolsIn(items)),
  );
  const servers = sent.filter((tool) => tool.type === 'mcp');
  const own = mergeToolboxes(brought, toolboxOf(sent.filter((tool) => tool.type !== 'mcp')));
  const offered = { toolbox: own, servers: servers.map(narrowingOf) };
  const { toolbox, choice, servers: narrowed } = chooseTools(offered, body.tool_choice);
  // A model that compacts calls nothing.
  const narrowings = compacts ? [] : narrowed;
  const { names, strict } = toolbox;
  const unnamed = Object.entries(called).filter(
    ([, { name, namespace }]) => !Object.hasOwn(names, nameInRun(name, namespace)),
  );
  const tools = [...toolbox.tools, ...namedServers(narrowings)];
  const { prompt_cache_key } = body;
  const wantsLogprobs = include?.includes('message.output_text.logprobs') === true;
  const messages = [...earlier.messages, ...added];
  return {
    joins:
      made === null
        ? undefined
        : {
            conversation: made.conversation_id,
            after: made.entries.length,
            messages: [...guide, ...added],
          },
    whole: { messages, toolbox: brought },
    narrowings,
    input: {
      ...pick(body, [...SAMPLING_ALONE, 'model', 'metadata']),
      messages: [...guide, ...messages],
      max_tokens: body.max_output_tokens,
      stop: stopOf(body.stop),
      seed: seedOf(body.seed),
      tools: tools.length === 0 ? null : tools,
      // A model that compacts calls nothing, and writes a summary that only svc reads: no form of
      // an answer applies to it.
      tool_choice: compacts ? (tools.length === 0 ? null : 'none') : choice,
      parallel_tool_calls: body.parallel_tool_calls === false ? false : null,
      ...reasoningOf(body.reasoning?.effort, body),
      verbosity: verbosityOf(body.text?.verbosity),
      response_format: compacts ? null : formatOf(body.text?.format),
      logprobs: body.top_logprobs ?? (wantsLogprobs ? 0 : null),
      // A stream cannot take back what it sent, so the answer never begins again.
      recovery: 'resume',
    } as RunInput,
    fields: {
      ...(guide.length === 0 ? {} : { instructions: true }),
      ...(body.background === true ? { background: true } : {}),
      ...(body.store === false ? { unstored: true } : {}),
      ...(made === null ? {} : { conversation: made.conversation_id }),
      ...(compacts ? { compaction: true } : {}),
      ...withoutNull({ previous_response_id: previous, safety_identifier, prompt_cache_key }),
      new_messages: added.length,
      ...(Object.values(strict).some((each) => each !== null) ? { strict } : {}),
      ...(Object.keys(names).length === 0 ? {} : { names }),
      ...(unnamed.length === 0 ? {} : { sent: Object.fromEntries(unnamed) }),
      ...(servers.length === 0 ? {} : { servers }),
      ...(brought.tools.length === 0 ? {} : { brought: brought.tools.map(({ name }) => name) }),
    },
  };
}

/** The tools that items of an input bring along. The rest of the conversation has them. */
function toolsIn(items: readonly InputItem[]) {
  return items.flatMap((item) => (item.type === 'additional_tools' ? item.tools : []));
}

/** Whether the answer is a summary. Throws invalid_request for a trigger before the end. */
function isCompaction(items: string | readonly InputItem[]): boolean {
  if (typeof items === 'string') return false;
  const place = items.findIndex(({ type }) => type === 'compaction_trigger');
  if (place !== -1 && place < items.length - 1)
    throw invalidRequest(
      `input.${place}`,
      `input.${place} must be the last item: it compacts all others.`,
    );
  return place !== -1;
}
