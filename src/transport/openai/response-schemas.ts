import * as v from 'valibot';
import { anything, name, object, oneOf, text } from '../../runtime/contract/vocabulary.ts';

/** The items that an input may have. What svc sends as output is valid as input, too. */

const status = v.nullish(oneOf(['in_progress', 'completed', 'incomplete']));
const id = v.nullish(text);

const inputText = object({ type: v.literal('input_text'), text });
const inputImage = object({
  type: v.literal('input_image'),
  image_url: v.nullish(text),
  file_id: v.nullish(v.never('must be null: svc keeps no files.')),
  /** How large the model sees it. svc leaves it to the model. */
  detail: v.nullish(oneOf(['auto', 'low', 'high', 'original'])),
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

const NEITHER = 'svc takes no audio and no files.';
const shown = v.union(
  [
    text,
    v.array(
      v.variant(
        'type',
        [inputText, inputImage],
        `must be an object with the type input_text or input_image. ${NEITHER}`,
      ),
    ),
  ],
  'must be a text, or a list of parts.',
);
const said = v.union([text, v.array(inputText)], 'must be a text, or a list of input_text.');
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
const system = { type, id, status, content: said };
const message = v.variant(
  'role',
  [
    object({ ...system, role: v.literal('system') }),
    object({ ...system, role: v.literal('developer') }),
    object({ type, id, status, role: v.literal('user'), content: shown }),
    object({
      ...{ type, id, status, role: v.literal('assistant'), content: answered },
      phase: v.nullish(text),
    }),
  ],
  'must be one of system, developer, user, assistant.',
);
const functionCall = object({
  ...{ type: v.literal('function_call'), id, status, name: text, arguments: text },
  call_id: name(256),
  /** Clients of OpenAI add it when they read an answer. */
  parsed_arguments: v.optional(v.unknown()),
});
const functionCallOutput = object({
  ...{ type: v.literal('function_call_output'), id, status },
  call_id: name(256),
  output: said,
});
const reasoning = object({
  ...{ type: v.literal('reasoning'), id, status },
  summary: v.nullish(v.array(object({ type: v.literal('summary_text'), text }))),
  content: v.nullish(v.array(object({ type: v.literal('reasoning_text'), text }))),
  encrypted_content: v.nullish(v.never('must be null: svc cannot read it.')),
});
const itemReference = object({ type: v.literal('item_reference'), id: text });

export const inputItem = v.variant(
  'type',
  [message, functionCall, functionCallOutput, reasoning, itemReference],
  'must be message, function_call, function_call_output, reasoning or item_reference.',
);
export type InputItem = v.InferOutput<typeof inputItem>;
export type InputMessage = v.InferOutput<typeof message>;
