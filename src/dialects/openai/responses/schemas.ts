import * as v from 'valibot';
import {
  anything,
  flag,
  listWithout,
  name,
  object,
  oneOf,
  text,
} from '../../../contract/vocabulary.ts';
import { ownTools } from './tools.ts';

/** The items that an input may have. What svc sends as output is valid as input, too. */

const status = v.nullish(oneOf(['in_progress', 'completed', 'incomplete']));
const id = v.nullish(text);
/** Codex says here where an item comes from. It is not for a model. */
const internal_chat_message_metadata_passthrough = v.optional(v.unknown());
const common = { id, status, internal_chat_message_metadata_passthrough };

const inputText = object({ type: v.literal('input_text'), text });
const inputImage = object({
  type: v.literal('input_image'),
  image_url: v.nullish(text),
  file_id: v.nullish(v.never('must be null: svc keeps no files.')),
  /** How large the model sees it. svc leaves it to the model. */
  detail: v.nullish(oneOf(['auto', 'low', 'high', 'original'])),
});
const inputFile = object({
  type: v.literal('input_file'),
  file_data: text,
  filename: v.nullish(text),
  file_id: v.nullish(v.never('must be null: svc keeps no files.')),
  file_url: v.nullish(v.never('must be null: the daemon loads no addresses for its clients.')),
  /** How large the model sees its pages. It gets their text. */
  detail: v.nullish(text),
});
const outputText = object({
  type: v.literal('output_text'),
  text,
  annotations: v.nullish(v.array(anything)),
  logprobs: v.nullish(v.array(anything)),
  /** Clients of OpenAI add it when they read an answer. */
  parsed: v.optional(v.unknown()),
});
const refusal = object({ type: v.literal('refusal'), refusal: text });

const shown = v.union(
  [
    text,
    v.array(
      v.variant(
        'type',
        [inputText, inputImage, inputFile],
        'must be an object with the type input_text, input_image or input_file.',
      ),
    ),
  ],
  'must be a text, or a list of parts.',
);
const content = v.union([text, v.array(inputText)], 'must be a text, or a list of input_text.');
const answered = v.union(
  [
    text,
    v.array(
      v.variant(
        'type',
        [outputText, refusal],
        'must be an object with the type output_text or refusal.',
      ),
    ),
  ],
  'must be a text, or a list of parts.',
);

/** The type of a message may be absent. */
const type = v.optional(v.literal('message'));
const system = { ...common, type, content };
const message = v.variant(
  'role',
  [
    object({ ...system, role: v.literal('system') }),
    object({ ...system, role: v.literal('developer') }),
    object({ ...common, type, role: v.literal('user'), content: shown }),
    object({
      ...common,
      type,
      role: v.literal('assistant'),
      content: answered,
      phase: v.nullish(text),
    }),
  ],
  'must be one of system, developer, user, assistant.',
);
const called = { ...common, name: text, namespace: v.nullish(text), call_id: name(256) };
const functionCall = object({
  ...called,
  type: v.literal('function_call'),
  arguments: text,
  /** Clients of OpenAI add it when they read an answer. */
  parsed_arguments: v.optional(v.unknown()),
});
const customCall = object({ ...called, type: v.literal('custom_tool_call'), input: text });
/** The call has the name already. */
const answeredCall = { ...common, call_id: name(256), output: shown, name: v.nullish(text) };
const functionCallOutput = object({
  ...answeredCall,
  type: v.literal('function_call_output'),
  namespace: v.nullish(text),
});
const customCallOutput = object({ ...answeredCall, type: v.literal('custom_tool_call_output') });
const reasoning = object({
  ...common,
  type: v.literal('reasoning'),
  summary: v.nullish(v.array(object({ type: v.literal('summary_text'), text }))),
  content: v.nullish(v.array(object({ type: v.literal('reasoning_text'), text }))),
  encrypted_content: v.nullish(text),
});
const itemReference = object({ type: v.literal('item_reference'), id: text });
const additionalTools = object({
  ...common,
  type: v.literal('additional_tools'),
  tools: ownTools,
  role: v.nullish(text),
});
const compaction = object({
  ...common,
  type: v.literal('compaction'),
  encrypted_content: text,
  created_by: v.nullish(text),
});
const compactionTrigger = object({ ...common, type: v.literal('compaction_trigger') });

const server_label = text;
const mcpListTools = object({
  ...common,
  type: v.literal('mcp_list_tools'),
  server_label,
  tools: v.array(anything),
  error: v.optional(v.unknown()),
});
const mcpCalled = { ...common, server_label, name: text, arguments: text };
const mcpCall = object({
  ...mcpCalled,
  status: v.nullish(text),
  type: v.literal('mcp_call'),
  approval_request_id: v.nullish(text),
  output: v.nullish(text),
  error: v.optional(v.unknown()),
});
const mcpApprovalRequest = object({ ...mcpCalled, type: v.literal('mcp_approval_request') });
const mcpApprovalResponse = object({
  ...common,
  type: v.literal('mcp_approval_response'),
  approval_request_id: text,
  approve: flag,
  reason: v.nullish(name(1000)),
});

const TYPES =
  'must be message, function_call, function_call_output, custom_tool_call, ' +
  'custom_tool_call_output, reasoning, mcp_list_tools, mcp_call, mcp_approval_request, ' +
  'mcp_approval_response, additional_tools, compaction, compaction_trigger or item_reference.';
const inputItem = v.variant(
  'type',
  [
    message,
    functionCall,
    functionCallOutput,
    customCall,
    customCallOutput,
    reasoning,
    mcpListTools,
    mcpCall,
    mcpApprovalRequest,
    mcpApprovalResponse,
    additionalTools,
    compaction,
    compactionTrigger,
    itemReference,
  ],
  TYPES,
);
export type InputItem = v.InferOutput<typeof inputItem>;
export type InputMessage = v.InferOutput<typeof message>;

/** Items that tools of OpenAI's servers leave in a conversation. Another model cannot use it. */
const OF_SERVERS = /^(?:web_search|file_search|image_generation|code_interpreter|tool_search)_/;
export const inputItems = listWithout(
  (type) => OF_SERVERS.test(type),
  inputItem,
  'must be a list of items.',
);
