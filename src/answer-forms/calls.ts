import type { Syntax, Tags } from './arguments.ts';
import { type CallRow, keyedCalls, maybe, namedCalls, objects, one } from './form.ts';
import { PYTHON_QUOTES } from './literal.ts';
import { isSpace, type Match, NAME } from './pattern.ts';
import { HARMONY, ID, JSON_TYPE } from './thoughts.ts';

/**
 * The forms in which models of public families call tools. A chat template has the marks
 * of the family that it belongs to. Of two rows that fit, the first one counts.
 */

const COUNT = { word: /[0-9]/, most: 1 } as const;
/** An id as Mistral writes it. */
const SHORT_ID = { word: /[a-zA-Z0-9]/, most: 9 } as const;

const XML = {
  kind: 'tags',
  open: '<parameter=',
  middles: [{ text: '>', type: 'schema' }],
  close: '</parameter>',
  breaks: true,
  after: '\n',
} as const;
const UNTYPED = { text: '">', type: 'schema' } as const;
const TYPED = [
  { text: '" string="true">', type: 'text' },
  { text: '" string="false">', type: 'json' },
] as const;
const invokeSyntax = (space: string, middles: Tags['middles']): Syntax => ({
  kind: 'tags',
  open: `<${space}parameter name="`,
  middles,
  close: `</${space}parameter>`,
  breaks: false,
  after: '\n',
});
const DSML = invokeSyntax('｜DSML｜', [...TYPED, UNTYPED]);
const glm = (space: string): Syntax => ({
  kind: 'tags',
  open: '<arg_key>',
  middles: [{ text: `</arg_key>${space}<arg_value>`, type: 'schema' }],
  close: '</arg_value>',
  breaks: false,
  after: space,
});
const PYTHON: Syntax = { kind: 'literals', assign: '=', close: ')', quotes: PYTHON_QUOTES };

/** A name ends with white space or before a tag. */
const afterName: Match = (text, from) => {
  const letter = text[from];
  if (letter === undefined) return 'partial';
  return letter === '<' || isSpace(letter) ? { end: from, name: null } : 'none';
};

/** For a template that writes no tools. */
export const GENERIC: CallRow = objects({
  families: 'models whose template has no tools',
  marks: [],
  open: '<tool_call>\n',
  others: ['```json', '```tool_call', '```tool_code'],
  close: '\n</tool_call>',
});

/** Beside the requested form: how models without a form of their own call too. */
export const PYTHONIC_FENCE: CallRow = namedCalls({
  families: 'Gemma 3',
  marks: [],
  open: ['```tool_code\n', maybe('print('), NAME, '('],
  next: [maybe('```tool_code\n'), maybe('print('), NAME, '('],
  head: ['```tool_code\n', NAME, '('],
  close: '\n```',
  others: [')'],
  syntax: PYTHON,
});

export const CALLS: readonly CallRow[] = [
  namedCalls({
    families: 'gpt-oss (harmony)',
    marks: ['<|channel|>', '<|message|>'],
    open: [
      ...HARMONY,
      {
        one: [
          [
            '<|channel|>',
            one('commentary', 'analysis', 'final'),
            ' to=',
            maybe('functions.'),
            NAME,
            JSON_TYPE,
            '<|message|>',
          ],
          [
            ' to=',
            maybe('functions.'),
            NAME,
            '<|channel|>',
            one('commentary', 'analysis', 'final'),
            JSON_TYPE,
            '<|message|>',
          ],
        ],
      },
    ],
    mark: ['<|channel|>'],
    head: ['<|channel|>commentary to=functions.', NAME, ' <|constrain|>json<|message|>'],
    close: '<|call|>',
    others: ['<|end|>', '<|return|>'],
    between: '<|start|>assistant',
    inThoughts: true,
  }),
  namedCalls({
    families: 'Mistral Small 3.2',
    marks: ['[TOOL_CALLS]', '[ARGS]', '[CALL_ID]'],
    open: [maybe('[TOOL_CALLS]'), NAME, maybe('[CALL_ID]', ID), '[ARGS]'],
    head: ['[TOOL_CALLS]', NAME, '[CALL_ID]', SHORT_ID, '[ARGS]'],
    close: '',
  }),
  namedCalls({
    families: 'Devstral, Ministral 3, Magistral, Mistral Large 3',
    marks: ['[TOOL_CALLS]', '[ARGS]'],
    open: [maybe('[TOOL_CALLS]'), NAME, maybe('[CALL_ID]', ID), '[ARGS]'],
    head: ['[TOOL_CALLS]', NAME, '[ARGS]'],
    close: '',
  }),
  objects({
    families: 'Mistral Nemo, Mistral Small 3, Mixtral',
    marks: ['[TOOL_CALLS]'],
    open: '[TOOL_CALLS]',
    close: '',
    isList: true,
  }),
  namedCalls({
    families: 'DeepSeek R1, V3 and its distilled models',
    marks: ['<｜tool▁call▁begin｜>', '```json'],
    section: ['<｜tool▁calls▁begin｜>', '<｜tool▁calls▁end｜>'],
    open: [
      '<｜tool▁call▁begin｜>',
      maybe('function', '<｜tool▁sep｜>'),
      NAME,
      { one: [['<｜tool▁sep｜>', maybe('```json')], ['```json']] },
    ],
    head: ['<｜tool▁call▁begin｜>function<｜tool▁sep｜>', NAME, '\n```json\n'],
    close: '\n```<｜tool▁call▁end｜>',
    others: ['```', '<｜tool▁call▁end｜>'],
    between: '\n',
  }),
  namedCalls({
    families: 'DeepSeek V3.1',
    marks: ['<｜tool▁call▁begin｜>'],
    section: ['<｜tool▁calls▁begin｜>', '<｜tool▁calls▁end｜>'],
    open: [
      '<｜tool▁call▁begin｜>',
      maybe('function', '<｜tool▁sep｜>'),
      NAME,
      { one: [['<｜tool▁sep｜>', maybe('```json')], ['```json']] },
    ],
    head: ['<｜tool▁call▁begin｜>', NAME, '<｜tool▁sep｜>'],
    close: '<｜tool▁call▁end｜>',
    others: ['```'],
  }),
  namedCalls({
    families: 'DeepSeek V3.2',
    marks: ['DSML', 'function_calls'],
    section: ['<｜DSML｜function_calls>\n', '\n</｜DSML｜function_calls>'],
    open: ['<｜DSML｜invoke name="', NAME, '">'],
    head: ['<｜DSML｜invoke name="', NAME, '">\n'],
    close: '</｜DSML｜invoke>',
    between: '\n',
    syntax: DSML,
  }),
  namedCalls({
    families: 'DeepSeek V4',
    marks: ['DSML', 'tool_calls'],
    section: ['<｜DSML｜tool_calls>\n', '\n</｜DSML｜tool_calls>'],
    open: ['<｜DSML｜invoke name="', NAME, '">'],
    head: ['<｜DSML｜invoke name="', NAME, '">\n'],
    close: '</｜DSML｜invoke>',
    between: '\n',
    syntax: DSML,
  }),
  namedCalls({
    families: 'Kimi K2',
    marks: ['<|tool_call_begin|>', '<|tool_call_argument_begin|>'],
    section: ['<|tool_calls_section_begin|>', '<|tool_calls_section_end|>'],
    open: [
      '<|tool_call_begin|>',
      maybe('functions.'),
      NAME,
      maybe(':', { word: /\d/, most: 6 }),
      '<|tool_call_argument_begin|>',
    ],
    head: ['<|tool_call_begin|>functions.', NAME, ':', COUNT, '<|tool_call_argument_begin|>'],
    close: '<|tool_call_end|>',
    inThoughts: true,
  }),
  namedCalls({
    families: 'Gemma 4',
    marks: ['<|tool_call>call:'],
    open: ['<|tool_call>', 'call:', NAME, '{'],
    head: ['<|tool_call>call:', NAME, '{'],
    close: '<tool_call|>',
    syntax: { kind: 'literals', assign: ':', close: '}', quotes: ['<|"|>', '"'] },
  }),
  namedCalls({
    families: 'GLM 4.5 and 4.6',
    marks: ['<tool_call>', '<arg_key>{', ['</arg_key>\n']],
    open: ['<tool_call>', NAME, { rest: afterName }],
    head: ['<tool_call>', NAME, '\n'],
    close: '</tool_call>',
    between: '\n',
    syntax: glm('\n'),
  }),
  namedCalls({
    families: 'GLM 4.7, Spark 2.5, Laguna, Ling 3',
    marks: ['<tool_call>', '<arg_key>'],
    open: ['<tool_call>', NAME, { rest: afterName }],
    head: ['<tool_call>', NAME],
    close: '</tool_call>',
    syntax: glm(''),
  }),
  namedCalls({
    families: 'MiniMax M2',
    marks: ['<minimax:tool_call>', '<invoke name='],
    section: ['<minimax:tool_call>\n', '\n</minimax:tool_call>'],
    open: ['<invoke name="', NAME, '">'],
    head: ['<invoke name="', NAME, '">\n'],
    close: '</invoke>',
    between: '\n',
    syntax: invokeSyntax('', [UNTYPED, ...TYPED]),
  }),
  namedCalls({
    families: 'Muse Glimmer',
    marks: ['<atem:function_calls>'],
    section: ['<atem:function_calls>\n', '\n</atem:function_calls>'],
    open: ['<atem:invoke name="', NAME, '">'],
    head: ['<atem:invoke name="', NAME, '">\n'],
    close: '</atem:invoke>',
    between: '\n',
    syntax: invokeSyntax('atem:', [UNTYPED]),
  }),
  namedCalls({
    families: 'Seed-OSS',
    marks: ['seed:tool_call', '<parameter='],
    open: [maybe('<seed:tool_call>'), '<function=', NAME, '>'],
    head: ['<seed:tool_call>\n<function=', NAME, '>\n'],
    close: '</function>\n</seed:tool_call>',
    others: ['</function>', '</seed:tool_call>'],
    between: '\n',
    syntax: { ...XML, breaks: false },
  }),
  namedCalls({
    families: 'Qwen3-Coder, Qwen 3.5, Nemotron 3, Step 3.5',
    marks: ['<tool_call>', '<function=', '<parameter='],
    open: [maybe('<tool_call>'), '<function=', NAME, '>'],
    head: ['<tool_call>\n<function=', NAME, '>\n'],
    close: '</function>\n</tool_call>',
    others: ['</function>', '</tool_call>'],
    between: '\n',
    syntax: XML,
  }),
  namedCalls({
    families: 'MiniCPM 5',
    marks: ['<function name="', '<param name="'],
    open: ['<function name="', NAME, '">'],
    head: ['<function name="', NAME, '">'],
    close: '</function>',
    syntax: {
      kind: 'tags',
      open: '<param name="',
      middles: [UNTYPED],
      close: '</param>',
      breaks: false,
      after: '',
    },
  }),
  namedCalls({
    families: 'Functionary 3.1',
    marks: ['<function='],
    open: ['<function=', NAME, '>'],
    head: ['<function=', NAME, '>'],
    close: '</function>',
  }),
  namedCalls({
    families: 'Functionary 3.2',
    marks: ['>>>all', 'recipient'],
    open: ['>>>', NAME, { exact: '\n' }],
    first: [NAME, { exact: '\n' }],
    head: [NAME, '\n'],
    close: '',
    between: '>>>',
  }),
  objects({
    families: 'Nemotron Nano 2',
    marks: ['<TOOLCALL>'],
    open: '<TOOLCALL>',
    close: '</TOOLCALL>',
    isList: true,
  }),
  objects({
    families: 'Command R7B, Command A',
    marks: ['<|START_ACTION|>'],
    open: '<|START_ACTION|>',
    close: '<|END_ACTION|>',
    isList: true,
    keys: ['tool_name', 'parameters'],
  }),
  objects({
    families: 'Command R, Command R+',
    marks: ['Action:', 'tool_name', '```json'],
    open: 'Action:\n```json\n',
    others: ['Action: ```'],
    close: '\n```',
    isList: true,
    keys: ['tool_name', 'parameters'],
  }),
  keyedCalls({
    families: 'Apertus',
    marks: ['<|tools_prefix|>'],
    open: '<|tools_prefix|>',
    close: '<|tools_suffix|>',
  }),
  namedCalls({
    families: 'LFM2',
    marks: [['<|tool_call_start|>', '<|tool_list_start|>', 'List of tools: [']],
    open: ['<|tool_call_start|>', maybe('['), NAME, '('],
    next: [maybe('<|tool_call_start|>'), maybe('['), NAME, '('],
    head: ['<|tool_call_start|>[', NAME, '('],
    again: [', ', NAME, '('],
    close: ']<|tool_call_end|>',
    others: [']', '<|tool_call_end|>'],
    syntax: PYTHON,
  }),
  namedCalls({
    families: 'Llama 4',
    marks: ['<|header_start|>', 'func_name1(params_name1'],
    open: [maybe('<|python_start|>'), '[', NAME, '('],
    mark: ['<|python_start|>'],
    next: [maybe('['), NAME, '('],
    head: ['[', NAME, '('],
    again: [', ', NAME, '('],
    close: ']',
    others: ['<|python_end|>'],
    syntax: PYTHON,
  }),
  objects({
    families: 'Firefunction 2',
    marks: ['functools['],
    open: 'functools',
    close: '',
    isList: true,
  }),
  objects({
    families: 'Granite 3, Phi 4 mini',
    marks: ['<|tool_call|>'],
    open: '<|tool_call|>',
    others: ['<tool_call>'],
    close: '<|/tool_call|>',
    isList: true,
  }),
  objects({
    families: 'Apriel',
    marks: ['<tool_calls>['],
    open: '<tool_calls>',
    close: '</tool_calls>',
    isList: true,
  }),
  objects({
    families: 'MiniMax M1',
    marks: ['<tool_calls>'],
    open: '<tool_calls>\n',
    close: '\n</tool_calls>',
  }),
  namedCalls({
    families: 'Solar Open',
    marks: ['<|tool_call:begin|>'],
    section: ['<|tool_calls|>', '<|calls|>'],
    open: ['<|tool_call:begin|>', ID, '<|tool_call:name|>', NAME, '<|tool_call:args|>'],
    head: ['<|tool_call:begin|>', SHORT_ID, '<|tool_call:name|>', NAME, '<|tool_call:args|>'],
    close: '<|tool_call:end|>',
  }),
  objects({
    families: 'GigaChat 3',
    marks: ['<|role_sep|>', '<|message_sep|>'],
    open: '<|function_call|>',
    others: ['function call<|role_sep|>'],
    close: '',
  }),
  objects({
    families: 'Hermes, Qwen 2.5, Qwen3, QwQ, Granite 4, SmolLM3, Bielik, Reka',
    marks: ['<tool_call>'],
    without: ['minimax'],
    open: '<tool_call>\n',
    close: '\n</tool_call>',
  }),
  objects({
    families: 'Llama 3.1, 3.2 and 3.3',
    marks: ['<|start_header_id|>', ['"parameters"', '<|python_tag|>']],
    open: '',
    others: ['<|python_tag|>'],
    close: '',
    keys: ['name', 'parameters'],
    between: '; ',
  }),
];
