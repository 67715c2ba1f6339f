import { callsText, GENERIC } from '../../answer-forms/index.ts';

/**
 * Tools for a model whose template has none: a system text lists them, and a call is JSON between
 * tags.
 */

/** The system text about the tools, each as OpenAI describes it. */
export function toolsText(tools: readonly object[]): string {
  return [
    'You can call these tools, one JSON description a line:',
    ...tools.map((tool) => JSON.stringify(tool)),
    'To call a tool, write its name and its arguments as JSON in this form, and nothing after it:',
    callsText(GENERIC, [{ name: 'NAME', arguments: {} }]),
    'The result comes in <tool_response>. Without need of a tool, answer in plain text.',
  ].join('\n');
}

export function resultText(content: string): string {
  return `<tool_response>\n${content}\n</tool_response>`;
}
