import { join } from 'node:path';
import { type GgufOptions, makeGguf } from '../fixtures/models/make-gguf.ts';
import { THINKS, TOOLS } from '../fixtures/models/templates.ts';

/**
 * The output of the model `calls`: a text and two tool calls. Its tokens do not end where marks
 * end.
 */
export const CALLS = [
  'Let me',
  ' see.',
  '\n\n<tool',
  '_call>\n{"',
  'name": "wea',
  'ther", "argu',
  'ments": {"ci',
  'ty": "Pa',
  'ris"}',
  '}\n</tool_',
  'call>\n<tool_ca',
  'll>{"name":"sum","arguments":',
  '[1,',
  ' 2]',
  ' }</tool',
  '_call>',
];
/** The output of the model `thinks`: reasoning, then text. */
export const THOUGHTS = ['<thi', 'nk>\nHm', '. Well', '.\n</th', 'ink>\n', '\nYes, in', 'deed.'];

const models: Readonly<Record<string, GgufOptions>> = {
  calls: { template: TOOLS, width: 128, pieces: CALLS, says: CALLS },
  thinks: { template: THINKS, width: 128, pieces: THOUGHTS, says: THOUGHTS },
  random: { template: TOOLS },
  plain: {},
};

/** Writes small models: two that say a fixed text, one of random weights, one without tools. */
export function makeModels(folder: string): void {
  for (const [name, options] of Object.entries(models))
    makeGguf(join(folder, `${name}.gguf`), { context: 2048, ...options });
}

export const TOOL_LIST = [
  {
    name: 'weather',
    description: 'The weather of a city.',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string', maxLength: 8 }, days: { type: 'integer' } },
      required: ['city'],
    },
  },
  { name: 'sum', description: null, parameters: { type: 'array', items: { type: 'number' } } },
];
