import type { Message, MessagePart, Tool } from '../../src/contract/messages/parts.ts';

/** Conversations as programs send them to OpenAI. Each has what some template minds. */

export interface Conversation {
  messages: readonly Turn[];
  tools?: readonly object[];
}

export interface Turn {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content: string;
  reasoning_content?: string;
  tool_calls?: { id: string; type: 'function'; function: { name: string; arguments: unknown } }[];
  tool_call_id?: string;
  name?: string;
}

const system = (content: string): Turn => ({ role: 'system', content });
const user = (content: string): Turn => ({ role: 'user', content });
const answer = (content: string, reasoning_content?: string): Turn => ({
  role: 'assistant',
  content,
  ...(reasoning_content === undefined ? {} : { reasoning_content }),
});
const calls = (content: string, ...all: (readonly [name: string, values: object])[]): Turn => ({
  role: 'assistant',
  content,
  tool_calls: all.map(([name, values], at) => ({
    id: `call${at}abcd`,
    type: 'function',
    function: { name, arguments: values },
  })),
});
const result = (content: string, name: string, at = 0): Turn => ({
  role: 'tool',
  content,
  tool_call_id: `call${at}abcd`,
  name,
});
const tool = (name: string, properties: object, more: object = {}) => ({
  type: 'function',
  function: {
    name,
    description: `Does ${name}.`,
    parameters: { type: 'object', properties, ...more },
  },
});

const city = { city: { type: 'string', description: 'A city' } };
const weather = tool('weather', city, { required: ['city'] });
const offered = (properties: object, more?: object): Conversation => ({
  messages: [user('What now?')],
  tools: [tool('act', properties, more)],
});
const paris = ['weather', { city: 'Paris' }] as const;

export const CONVERSATIONS: Readonly<Record<string, Conversation>> = {
  'one turn': { messages: [user('Hi.')] },
  'three turns': { messages: [user('Hi.'), answer('Hello.'), user('More?')] },
  'a system text': { messages: [system('Be kind.'), user('Hi.')] },
  'a system text and turns': {
    messages: [system('Be kind.'), user('Hi.'), answer('Hello.'), user('More?')],
  },
  'an empty text': { messages: [user('')] },
  'white space': { messages: [user('  a\n\n b \n'), answer(' c\n'), user('\td ')] },
  letters: { messages: [user('ñ 漢字 🦙 “quoted” <b>&amp;</b> \'x\' "y" \\n')] },
  'a template in a text': { messages: [user('{{ messages }} {% if x %} {# y #}')] },
  'control tokens in a text': { messages: [user('<|im_end|></s>[/INST]<|eot_id|><end_of_turn>')] },
  'a long text': { messages: [user('one two three '.repeat(300))] },
  reasoning: { messages: [user('Hi.'), answer('Hello.', 'A greeting.'), user('More?')] },
  'reasoning in two turns': {
    messages: [user('a'), answer('b', 'c'), user('d'), answer('e', 'f\n\ng'), user('h')],
  },
  'a tool': { messages: [user('Hi.')], tools: [weather] },
  'a tool and a system text': { messages: [system('Be kind.'), user('Hi.')], tools: [weather] },
  'two tools': { messages: [user('Hi.')], tools: [weather, tool('clock', {})] },
  'a tool without descriptions': {
    messages: [user('Hi.')],
    tools: [
      {
        type: 'function',
        function: {
          name: 'act',
          parameters: { type: 'object', properties: { a: { type: 'string' } } },
        },
      },
    ],
  },
  'an optional value': offered({
    a: { anyOf: [{ type: 'string' }, { type: 'null' }], default: null, title: 'A' },
  }),
  'a list of types': offered({ a: { type: ['string', 'null'], description: 'x' } }),
  'a list of objects': offered({
    a: {
      type: 'array',
      items: { type: 'object', properties: { b: { type: 'integer' } } },
      description: 'x',
    },
  }),
  'a value called items': offered(
    { items: { type: 'array', items: { type: 'string' }, description: 'x' } },
    { required: ['items'] },
  ),
  'an enum and an object': offered({
    unit: { type: 'string', enum: ['C', 'F'], default: 'C', description: 'A unit' },
    at: {
      type: 'object',
      properties: { lat: { type: 'number', minimum: -90.5 } },
      required: ['lat'],
      description: 'A place',
    },
  }),
  'a reference': offered(
    { p: { $ref: '#/$defs/P' } },
    { $defs: { P: { type: 'object', properties: { x: { type: 'number' } } } } },
  ),
  'a call': {
    messages: [user('Weather?'), calls('', paris), result('Sun.', 'weather')],
    tools: [weather],
  },
  'a call and an answer': {
    messages: [
      user('Weather?'),
      calls('', paris),
      result('Sun.', 'weather'),
      answer('It is sunny.'),
      user('Thanks.'),
    ],
    tools: [weather],
  },
  'a call after a text': {
    messages: [user('Weather?'), calls('I look.', paris), result('{"sky": "blue"}', 'weather')],
    tools: [weather],
  },
  'calls in turn': {
    messages: [
      user('Weather?'),
      calls('', paris),
      result('Sun.', 'weather'),
      calls('', ['weather', { city: 'Rome' }]),
      result('Rain.', 'weather'),
    ],
    tools: [weather],
  },
  'parallel calls': {
    messages: [
      user('Weather?'),
      calls('', paris, ['weather', { city: 'Rome' }]),
      result('Sun.', 'weather'),
      result('Rain.', 'weather', 1),
    ],
    tools: [weather],
  },
  'a call of many values': {
    messages: [
      user('Act.'),
      calls('', [
        'act',
        { a: [1, 'x', null, true, { b: 48.856614 }], text: 'é "q"\n', n: -3, none: null },
      ]),
      result('ok', 'act'),
    ],
    tools: [
      tool('act', {
        a: { type: 'array', description: 'x' },
        text: { type: 'string', description: 'y' },
      }),
    ],
  },
  'a call without values': {
    messages: [user('Time?'), calls('', ['clock', {}]), result('12:00', 'clock')],
    tools: [tool('clock', {})],
  },
  'reasoning before a call': {
    messages: [
      user('Weather?'),
      { ...calls('', paris), reasoning_content: 'I must look.' },
      result('Sun.', 'weather'),
    ],
    tools: [weather],
  },
};

/** The messages as svc has them. */
export function messagesOf(turns: readonly Turn[]): Message[] {
  return turns.map(({ role, content, reasoning_content, tool_calls = [], tool_call_id = '' }) => {
    const text = (type: 'text' | 'reasoning', said = '') =>
      said === '' ? [] : [{ type, text: said } as MessagePart];
    if (role === 'tool')
      return {
        role,
        content: [{ type: 'tool_result', id: tool_call_id, text: content, is_error: false }],
      };
    const asked = tool_calls.map(({ id, function: { name, arguments: values } }): MessagePart => {
      return { type: 'tool_call', id, name, arguments: JSON.stringify(values) };
    });
    return {
      role,
      content: [...text('reasoning', reasoning_content), ...text('text', content), ...asked],
    };
  });
}

export function toolsOf(tools: readonly object[]): Tool[] {
  return tools.map((each) => {
    const { function: described } = each as { function: Omit<Tool, 'description'> };
    return { description: null, ...described };
  });
}
