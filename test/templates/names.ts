/** What each way to render makes of a conversation. */
export type Said = { text: string; error?: never } | { error: string; text?: never };

export type Name = string;

/** What makes two texts equal that differ by it alone. */
type Rule = readonly [name: Name, change: (text: string) => string];

const PYTHON: readonly Rule[] = [
  ['Python writes `None`, llama.cpp nothing', (text) => text.replaceAll('None', '')],
  [
    'Python escapes marks of HTML',
    (text) => text.replace(/&#34;/g, '"').replace(/&#39;/g, "'").replace(/&lt;/g, '<'),
  ],
  [
    'Python writes a list in a text in its own form',
    (text) => text.replace(/\[1, 'x'.*\}\]|1xTrue/, ''),
  ],
];

const SERVER: readonly Rule[] = [
  [
    '`llama-server` writes six digits of a number, svc all',
    (text) => text.replaceAll('48.856614', '48.8566'),
  ],
  [
    '`llama-server` gives a tool without a description an empty one',
    (text) => text.replace(/(["'])description\1:\s*(["'])\2,?\s*/g, ''),
  ],
  [
    '`llama-server` trims texts, or puts one line between texts that it joins',
    (text) => text.replace(/\s/g, ''),
  ],
  [
    '`llama-server` asks for no reasoning that it cannot read',
    (text) => text.replace('Deliberation: enabled', 'Deliberation: disabled'),
  ],
  [
    '`llama-server` writes the earlier reasoning of Ministral',
    (text) => text.replace(/\[THINK\].*?\[\/THINK\]/gs, ''),
  ],
  [
    '`llama-server` loses an answer that had reasoning',
    (text) => text.replace(/(\[\/INST\])[^[<]*/g, '$1'),
  ],
  [
    'svc writes the arguments of earlier calls as JSON',
    (text) =>
      text.replace(/<\|tool_call>.*?(?=<\|turn>model|$)|<\|open\|>(json|argument).*$/gs, ''),
  ],
];

const PYTHON_REFUSES = [
  [/has no attribute|is undefined/, 'Python refuses what is not there'],
  [/is unsafe/, 'Python refuses `append`'],
  [/not JSON serializable/, 'Python cannot write the result of `map` as JSON'],
  [/can only concatenate/, 'Python adds no map to a text'],
] as const;

const LLAMA_REFUSES = [
  [
    /\bin\b.* (undefined|Array)|unhashable/,
    'llama.cpp refuses `in` with a list or with what is not there',
  ],
  [
    /Function (is not a bool|has no builtins)/,
    'llama.cpp takes a key `items` that is not there for a function',
  ],
] as const;

const SERVER_REFUSES = [
  [/Jinja Exception/, 'svc says in another form what the template refuses'],
  [/Error: /, '`llama-server` refuses tools that svc writes in its generic form'],
] as const;

/** Null: no difference. Undefined: one without a name. */
export function nameOf(
  other: 'python' | 'server',
  ours: Said,
  theirs: Said,
): Name | null | undefined {
  const found = (names: readonly (readonly [RegExp, Name])[], error: string) =>
    names.find(([form]) => form.test(error))?.[1];
  if (ours.error !== undefined)
    return theirs.error === undefined ? found(LLAMA_REFUSES, ours.error) : null;
  if (theirs.error !== undefined)
    return found(other === 'python' ? PYTHON_REFUSES : SERVER_REFUSES, theirs.error);
  if (ours.text === theirs.text) return null;
  const rules = other === 'python' ? PYTHON : SERVER;
  for (const [name, change] of rules) if (change(ours.text) === change(theirs.text)) return name;
  const all = (text: string) => rules.reduce((changed, [, change]) => change(changed), text);
  return all(ours.text) === all(theirs.text) ? 'several of these' : undefined;
}
