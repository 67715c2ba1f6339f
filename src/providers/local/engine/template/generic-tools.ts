/**
 * Tools for a model whose template has none: they stand in a system text, and a call is JSON
 * between tags.
 */

/** How a model writes a call: `prefix`, the name, `middle`, the arguments as JSON, `end`. */
export interface CallMarks {
  readonly prefix: string;
  readonly middle: string;
  readonly end: string;
  /** From the arguments of a call to the name of another one. Null: one call is all. */
  readonly between: string | null;
}

const [prefix, middle, end] = ['<tool_call>\n{"name": "', '", "arguments": ', '}\n</tool_call>'];

export const GENERIC_CALLS: CallMarks = { prefix, middle, end, between: `${end}\n${prefix}` };

/** The system text about the tools, each as OpenAI describes it. */
export function toolsText(tools: readonly object[]): string {
  return [
    'You can call these tools, one JSON description a line:',
    ...tools.map((tool) => JSON.stringify(tool)),
    'To call a tool, write its name and its arguments as JSON in this form, and nothing after it:',
    `${prefix}NAME${middle}{}${end}`,
    'The result comes in <tool_response>. Without need of a tool, answer in plain text.',
  ].join('\n');
}

export function callText({ name, arguments: json }: { name: string; arguments: string }): string {
  return prefix + name + middle + json + end;
}

export function resultText(content: string): string {
  return `<tool_response>\n${content}\n</tool_response>`;
}
