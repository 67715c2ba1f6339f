import { asRecord } from '../../json.ts';

/**
 * Makes the chunk of a stream from a whole chat completion. So both are read and checked in the
 * same way. Null: it is something else, such as an error.
 */
export function wholeAnswer(value: unknown): object | null {
  const { choices, ...body } = asRecord(value);
  const [first] = Array.isArray(choices) ? choices : [];
  const { message, finish_reason, logprobs } = asRecord(first);
  if (typeof message !== 'object' || message === null) return null;
  const delta = toDelta(asRecord(message));
  const choice = { index: 0, delta, finish_reason: finish_reason ?? null, logprobs };
  return { ...body, choices: [choice] };
}

function toDelta({ content, tool_calls, ...message }: Record<string, unknown>) {
  const calls = Array.isArray(tool_calls) ? tool_calls.map(toCall) : [];
  return {
    ...message,
    content: textOf(content),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

/** The calls of a stream have a number. Some servers send the arguments as an object. */
function toCall(value: unknown, index: number) {
  const call = asRecord(value);
  const { arguments: given, ...named } = asRecord(call.function);
  const text = typeof given === 'string' ? given : JSON.stringify(given ?? {});
  return { ...call, index, type: 'function', function: { ...named, arguments: text } };
}

/** Some servers send a list of parts. */
function textOf(content: unknown): string | null {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return null;
  return content
    .map((part) => asRecord(part).text)
    .filter((text) => typeof text === 'string')
    .join('');
}
