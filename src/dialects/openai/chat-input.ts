import * as v from 'valibot';
import { invalidRequest } from '../../contract/check.ts';
import type { RunInput, ToolNarrowing } from '../../contract/contract.ts';
import type { Tool, ToolChoice } from '../../contract/messages/parts.ts';
import { nonEmptyList } from '../../contract/vocabulary.ts';
import { mcpTool, namedServers, narrowingOf } from '../mcp-tools.ts';
import { chatMessage, messageOf } from './chat-messages.ts';
import type { FileTexts } from './files.ts';
import {
  budgets,
  constraints,
  effort,
  fixedValues,
  flag,
  functionFields,
  named,
  object,
  oneForm,
  oneLength,
  oneOf,
  pick,
  reasoning,
  reasoningOf,
  SAMPLING,
  sampling,
  schemaFields,
  seedOf,
  stopOf,
  text,
  topLogprobs,
  verbosity,
  verbosityOf,
  WITHOUT_EFFECT,
} from './parameters.ts';

/** The body of POST /v1/chat/completions, and the run that it asks for. */

const tool = object({ type: v.literal('function'), function: object(functionFields) });
/** Chat completions of OpenAI have no tool `mcp`. It is the one of its Responses API. */
const anyTool = v.variant('type', [tool, mcpTool], 'must be function or mcp.');
const toolChoice = v.union(
  [
    oneOf(['none', 'auto', 'required']),
    object({ type: v.literal('function'), function: object({ name: text }) }),
  ],
  'must be none, auto, required, or an object that names a function.',
);
const responseFormat = v.variant(
  'type',
  [
    object({ type: v.literal('text') }),
    object({ type: v.literal('json_object') }),
    object({ type: v.literal('json_schema'), json_schema: object(schemaFields) }),
  ],
  'must be an object with the type text, json_object or json_schema.',
);

export const chatInput = named(
  'ChatInput',
  object({
    ...sampling,
    messages: nonEmptyList(
      chatMessage,
      'must be a list of messages.',
      'must have at least one message.',
    ),
    max_completion_tokens: sampling.max_tokens,
    tools: v.nullish(v.array(anyTool, 'must be a list of tools.')),
    tool_choice: v.nullish(toolChoice),
    parallel_tool_calls: v.nullish(flag),
    response_format: v.nullish(responseFormat),
    ...constraints,
    logprobs: v.nullish(flag),
    top_logprobs: topLogprobs,
    modalities: fixedValues([['text']], 'svc answers with text.'),
    functions: fixedValues([[]], 'it is the old form of tools. Send tools.'),
    function_call: fixedValues(['none'], 'it is the old form of tool_choice. Send tool_choice.'),
    audio: fixedValues([{}], 'svc answers with text.'),
    web_search_options: fixedValues([null], 'svc does not search the web.'),
    reasoning_effort: effort,
    reasoning: v.nullish(object(reasoning)),
    ...budgets,
    verbosity,
    ...WITHOUT_EFFECT,
  }),
);
export type ChatInput = v.InferOutput<typeof chatInput>;

/** Throws invalid_request with the name of the parameter. */
export function runOfChat(
  chat: ChatInput,
  texts: FileTexts,
): { input: RunInput; narrowings: readonly ToolNarrowing[] } {
  const sent = chat.tools ?? [];
  const own = sent.filter((each) => each.type === 'function').map(toolOf);
  const narrowings = sent.filter((each) => each.type === 'mcp').map(narrowingOf);
  const tools = [...own, ...namedServers(narrowings)];
  if (chat.top_logprobs != null && chat.logprobs !== true)
    throw invalidRequest('top_logprobs', 'top_logprobs needs logprobs: true.');
  const input = {
    ...pick(chat, [...SAMPLING, 'model', 'metadata']),
    messages: chat.messages.map((message, index) => messageOf(message, index, texts)),
    tools: tools.length === 0 ? null : tools,
    tool_choice: chat.tool_choice == null ? null : choiceOf(chat.tool_choice),
    parallel_tool_calls: chat.parallel_tool_calls === false ? false : null,
    ...reasoningOf(chat.reasoning_effort ?? chat.reasoning?.effort, chat),
    verbosity: verbosityOf(chat.verbosity),
    ...oneForm(withSchema(chat.response_format), chat),
    stop: stopOf(chat.stop),
    max_tokens: oneLength(chat.max_tokens, chat.max_completion_tokens),
    seed: seedOf(chat.seed),
    logprobs: chat.logprobs === true ? (chat.top_logprobs ?? 0) : null,
  } as RunInput;
  return { input, narrowings };
}

function toolOf({ function: called }: v.InferOutput<typeof tool>): Tool {
  const { name, description = null, parameters } = called;
  return { name, description, parameters: parameters ?? {} };
}

function choiceOf(choice: v.InferOutput<typeof toolChoice>): ToolChoice {
  return typeof choice === 'string' ? choice : { name: choice.function.name };
}

/** The form of the Responses API. */
function withSchema(format: ChatInput['response_format']) {
  return format?.type === 'json_schema' ? { type: format.type, ...format.json_schema } : format;
}
