import { maybe, one, type Reasoning, type ThoughtRow } from './form.ts';
import type { Pattern } from './pattern.ts';

/** How models of public families reason. Of two rows that fit, the first one counts. */

/** An id that a model makes. */
export const ID = { word: /[\w.:-]/, most: 64 } as const;
const WORDS = { word: /[^<]/, most: 64 } as const;

/** Begins a part of an answer of gpt-oss, also where the prompt or a channel has begun it. */
export const HARMONY: Pattern = [
  maybe(one('<|end|>', '<|call|>')),
  maybe('<|start|>assistant'),
  maybe('<|channel|>commentary to=assistant'),
];
export const JSON_TYPE = maybe(maybe('<|constrain|>'), one(' json', ' code'));

export const THOUGHTS: readonly ThoughtRow[] = [
  {
    families: 'gpt-oss (harmony)',
    marks: ['<|channel|>', '<|message|>'],
    reasoning: {
      begun: '<|channel|>analysis<|message|>',
      open: [...HARMONY, '<|channel|>analysis', JSON_TYPE, '<|message|>'],
      close: [
        [...HARMONY, '<|channel|>', one('final', 'commentary'), JSON_TYPE, '<|message|>'],
        // A call of a tool that it does not have.
        [
          ...HARMONY,
          maybe(' to=', ID),
          '<|channel|>',
          WORDS,
          maybe('<|constrain|>', ID),
          '<|message|>',
        ],
      ],
      closing: '<|end|><|start|>assistant<|channel|>final<|message|>',
      channels: true,
    },
    around: [['<|end|>'], ['<|return|>'], ['<|call|>']],
  },
  {
    families: 'Ministral 3, Magistral',
    marks: ['[THINK]'],
    reasoning: reasoningBetween('[THINK]', '[/THINK]'),
  },
  {
    families: 'Command R7B, Command A',
    marks: ['<|START_THINKING|>'],
    reasoning: reasoningBetween('<|START_THINKING|>', '<|END_THINKING|>'),
    around: [[one('<|START_RESPONSE|>', '<|END_RESPONSE|>', '<|START_TEXT|>', '<|END_TEXT|>')]],
  },
  {
    families: 'Gemma 4',
    marks: ['<|channel>'],
    reasoning: { ...reasoningBetween('<|channel>thought\n', '<channel|>'), channels: true },
    around: [['<channel|>'], ['<|channel>', maybe('thought')]],
  },
  {
    families: 'Apertus',
    marks: ['<|inner_prefix|>'],
    reasoning: reasoningBetween('<|inner_prefix|>', '<|inner_suffix|>'),
  },
  {
    families: 'Seed-OSS',
    marks: ['seed:think'],
    reasoning: reasoningBetween('<seed:think>', '</seed:think>'),
  },
  {
    families: 'MiniMax M3',
    marks: ['mm:think'],
    reasoning: reasoningBetween('<mm:think>', '</mm:think>'),
  },
  {
    families: 'Solar Open',
    marks: ['<|think|>', '<|content|>'],
    reasoning: reasoningBetween('<|think|>', '<|end|>', '<|end|><|begin|>assistant<|content|>'),
    around: [['<|begin|>assistant', maybe('<|content|>')], ['<|content|>'], ['<|end|>']],
  },
  {
    families: 'Apriel 1.6',
    marks: ['[BEGIN FINAL RESPONSE]'],
    reasoning: reasoningBetween(
      'Here are my reasoning steps:\n',
      '[BEGIN FINAL RESPONSE]',
      '\n[BEGIN FINAL RESPONSE]\n',
    ),
  },
  {
    families: 'Granite 3.2',
    marks: ['Here is my thought process:'],
    reasoning: reasoningBetween('Here is my thought process:', 'Here is my response:'),
  },
  {
    families: 'Apriel 1.5',
    marks: ['<thinking>', '</thinking>'],
    reasoning: reasoningBetween('<thinking>', '</thinking>'),
  },
  {
    families: 'EXAONE',
    marks: ['<thought>', '</thought>'],
    reasoning: reasoningBetween('<thought>', '</thought>'),
  },
  {
    families: 'Functionary 3.2',
    marks: ['>>>all', 'recipient'],
    reasoning: null,
    around: [['>>>all', { exact: '\n' }]],
    first: [['all', { exact: '\n' }]],
  },
  {
    families: 'Granite 3.3',
    marks: ['<|start_of_role|>', '<response>'],
    reasoning: reasoningBetween('<think>', '</think>'),
    around: [[one('<response>', '</response>')]],
  },
  {
    families: 'Hunyuan',
    marks: ['</think>', '<answer>', 'hy_'],
    reasoning: reasoningBetween('<think>', '</think>'),
    around: [[one('<answer>', '</answer>')]],
  },
  {
    families: 'Qwen3, QwQ, DeepSeek, GLM, Kimi K2, MiniMax M2, Nemotron and others',
    marks: ['</think>'],
    reasoning: reasoningBetween('<think>', '</think>', '\n</think>\n\n'),
  },
];

/** The tags of a model whose vocabulary alone has them. */
export const TAGS: ThoughtRow = THOUGHTS.at(-1) as ThoughtRow;

function reasoningBetween(open: string, close: string, closing = close): Reasoning {
  return { begun: open, open: [open], close: [[close]], closing };
}
