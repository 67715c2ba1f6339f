import {
  EXAMPLE_ROLES,
  EXAMPLES_MAX,
  type ExampleTurn,
  type ModelPreset,
} from '../../config/presets.ts';
import {
  fromOllama,
  ollamaOption,
  type PresetNumberName,
  presetNumbers,
  options as rows,
  STOPS_MAX,
} from '../../contract/options.ts';
import { type ErrorCode, SvcError } from '../../errors.ts';
import { MODELFILE_BYTES_MAX, MODELFILE_LINES_MAX } from '../../limits.ts';

/** A Modelfile of Ollama in the terms of svc. Paths are as they are written. */
export interface Modelfile {
  from: string;
  preset: ModelPreset;
  /** The lines of its instructions; the first one of each. */
  lines: ReadonlyMap<string, number>;
}

interface Instruction {
  name: string;
  /** The subject of the text. Empty: the instruction is the subject. */
  word: string;
  text: string;
  line: number;
}

/** Throws invalid_request with the line of the first mistake. */
export function readModelfile(file: string): Modelfile {
  const bytes = Buffer.byteLength(file);
  if (bytes > MODELFILE_BYTES_MAX)
    throw fault(null, `it has ${bytes} bytes; at most ${MODELFILE_BYTES_MAX} are read.`);
  const read = { preset: {}, turns: [], licences: [] } as Reading;
  const lines = new Map<string, number>();
  let from: string | null = null;
  for (const instruction of instructionsIn(file)) {
    const { name, word, text, line } = instruction;
    const before = lines.get(name);
    if (before !== undefined && ONCE.has(name))
      throw fault(line, `${name} is there twice: the first one is in line ${before}.`);
    lines.set(name, before ?? line);
    if (word + text === '') throw fault(line, `${name} says nothing.`, 'Leave the line out.');
    if (name === 'FROM') from = text;
    else readers[name]?.(read, instruction);
  }
  if (from === null)
    throw fault(null, 'FROM is missing.', 'Name the model first, such as: FROM qwen3:0.6b');
  const { preset, turns, licences } = read;
  if (turns.length > 0) preset.messages = turns;
  if (licences.length > 0) preset.licence = licences.join('\n\n');
  return { from, preset, lines };
}

/** An error about a line, or about the whole. */
export function fault(
  line: number | null,
  message: string,
  hint?: string,
  code: ErrorCode = 'invalid_request',
): SvcError {
  const where = line === null ? 'Modelfile' : `Modelfile, line ${line}`;
  return new SvcError(code, `${where}: ${message}`, { param: 'modelfile', hint });
}

/** The instructions, with their texts without quotes. A text in quotes may have several lines. */
function* instructionsIn(file: string): Generator<Instruction> {
  const lines = file.replace(/^\uFEFF/, '').split(/\r?\n/);
  if (lines.length > MODELFILE_LINES_MAX)
    throw fault(null, `it has ${lines.length} lines; at most ${MODELFILE_LINES_MAX} are read.`);
  for (let at = 0; at < lines.length; at += 1) {
    const line = at + 1;
    const [, written = '', rest = ''] = /^\s*([^\s#]\S*)\s*(.*)$/.exec(lines[at] ?? '') ?? [];
    if (written === '') continue;
    const name = written.toUpperCase();
    if (!INSTRUCTIONS.has(name)) throw unknownInstruction(line, written);
    const [, word = '', begun = ''] = (PAIRS.has(name) ? PAIR : ALONE).exec(rest) ?? [];
    const [quotes = ''] = /^("""|")/.exec(begun) ?? [];
    const texts = [begun.slice(quotes.length)];
    // Nothing in quotes is escaped. They are closed at the end of a line.
    while (quotes !== '' && !texts.at(-1)?.trimEnd().endsWith(quotes)) {
      at += 1;
      const more = lines[at];
      if (more === undefined) throw fault(line, `the quotes after ${name} are not closed.`);
      texts.push(more);
    }
    const text = texts.join('\n').trimEnd();
    yield { name, word, text: text.slice(0, text.length - quotes.length), line };
  }
}

const ALONE = /^()(.*)$/;
/** The first word, and the rest of the text. */
const PAIR = /^(\S+)\s*(.*)$/;

interface Reading {
  preset: ModelPreset & { stop?: string[]; adapters?: string[] };
  turns: ExampleTurn[];
  licences: string[];
}

const readers: Readonly<Record<string, (read: Reading, instruction: Instruction) => void>> = {
  SYSTEM: ({ preset }, { text }) => {
    preset.system = text;
  },
  TEMPLATE: ({ preset }, { text, line }) => {
    if (isGoTemplate(text)) throw fault(line, GO_TEMPLATE, GO_HINT);
    preset.chat_template = text;
  },
  ADAPTER: ({ preset }, { text }) => {
    preset.adapters = [...(preset.adapters ?? []), text];
  },
  LICENSE: ({ licences }, { text }) => {
    licences.push(text);
  },
  MESSAGE: ({ turns }, { word, text, line }) => {
    const role = EXAMPLE_ROLES.find((each) => each === word.toLowerCase());
    if (role === undefined || text === '')
      throw fault(line, `MESSAGE needs a role and a text. Roles are ${EXAMPLE_ROLES.join(', ')}.`);
    if (turns.length >= EXAMPLES_MAX)
      throw fault(line, `at most ${EXAMPLES_MAX} messages are kept.`);
    turns.push({ role, text });
  },
  PARAMETER: ({ preset }, { word, text, line }) => {
    const name = word.toLowerCase();
    const option = ollamaOption(name) ?? name;
    if (option === 'stop') {
      preset.stop = [...(preset.stop ?? []), text];
      if (text === '' || preset.stop.length > STOPS_MAX)
        throw fault(line, `stop is a text, and at most ${STOPS_MAX} of them are taken.`);
      return;
    }
    if (!isNumberField(option)) throw unknownParameter(line, word);
    if (preset[option] !== undefined) throw fault(line, `PARAMETER ${name} is there twice.`);
    const value = text === '' ? undefined : fromOllama(option, Number(text));
    const { whole, min, max } = presetNumbers[option];
    if (value === undefined)
      throw fault(
        line,
        `PARAMETER ${name} must be a ${whole ? 'whole ' : ''}number from ${min} to ${max}.`,
      );
    if (value !== null) preset[option] = value as number;
  },
};

const ONCE: ReadonlySet<string> = new Set(['FROM', 'SYSTEM', 'TEMPLATE']);
const PAIRS: ReadonlySet<string> = new Set(['PARAMETER', 'MESSAGE']);
const INSTRUCTIONS: ReadonlySet<string> = new Set(['FROM', ...Object.keys(readers)]);

function isNumberField(name: string): name is PresetNumberName {
  return Object.hasOwn(presetNumbers, name);
}

function unknownInstruction(line: number, word: string): SvcError {
  return fault(
    line,
    `svc has no instruction ${JSON.stringify(word.slice(0, 40))}. ` +
      `There are ${[...INSTRUCTIONS].join(', ')}.`,
    'Leave the line out: svc reads the form of a model from its file.',
  );
}

function unknownParameter(line: number, word: string): SvcError {
  const known = ['stop', ...Object.keys(presetNumbers).map((name) => ollamaName(name))];
  return fault(
    line,
    `svc has no parameter ${JSON.stringify(word.slice(0, 40))}. There are ${known.join(', ')}.`,
    'Leave the line out. Settings of the engine are in svc config show.',
  );
}

/** The name that Ollama has for an option, or else the one of svc. */
function ollamaName(option: string): string {
  const row = Object.hasOwn(rows, option) ? rows[option as keyof typeof rows] : undefined;
  return row !== undefined && 'ollama' in row ? row.ollama : option;
}

/** In `{{ }}` a template of Go has fields with a dot before them, and keywords. */
export function isGoTemplate(text: string): boolean {
  return /\{\{-?\s*(?:[.$]|(?:if|else|end|range|with|block|define|template)\b)/.test(text);
}

export const GO_TEMPLATE = 'TEMPLATE is a template of Go, which svc cannot render.';
export const GO_HINT =
  'Leave it out: svc uses the Jinja template in the file of the model. Or write it in Jinja, or ' +
  'name a form: TEMPLATE chatml';

/** The Modelfile that makes a model again. */
export function writeModelfile(from: string, preset: ModelPreset): string {
  const { system, chat_template, adapters = [], licence, messages = [] } = preset;
  const toLine = (name: string, text: string | undefined) =>
    text === undefined ? [] : [instruction(name, text)];
  const lines = [
    `FROM ${from}`,
    ...adapters.map((path) => instruction('ADAPTER', path)),
    ...toLine('TEMPLATE', chat_template),
    ...parametersOf(preset).map((line) => `PARAMETER ${line}`),
    ...toLine('SYSTEM', system),
    ...messages.map(({ role, text }) => instruction(`MESSAGE ${role}`, text)),
    ...toLine('LICENSE', licence),
  ];
  return `${lines.join('\n')}\n`;
}

/** `temperature 0.5`, by the names that Ollama has. */
export function parametersOf(preset: ModelPreset): string[] {
  const { stop = [] } = preset;
  const numbers = Object.entries(preset).filter(([name]) => isNumberField(name));
  return [
    ...numbers.map(([name, value]) => `${ollamaName(name)} ${value}`),
    ...stop.map((text) => instruction('stop', text)),
  ];
}

/** Three quotes at the end of a line close a text, wherever it is. */
function instruction(name: string, text: string): string {
  if (/"""[ \t]*\n/.test(text))
    return `# ${name} is left out: a Modelfile has no form for its text.`;
  return /["\n]/.test(text) ? `${name} """${text}"""` : `${name} "${text}"`;
}
