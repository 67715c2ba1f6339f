import type * as v from 'valibot';
import {
  answerPart,
  message,
  recordedMessage,
  responseFormat,
  tool,
  toolChoice,
} from '../src/contract/messages/messages.ts';
import { optionEntries } from '../src/contract/option-schemas.ts';
import { optionRows } from '../src/contract/options.ts';
import { errorBody } from '../src/contract/records.ts';
import { failedAttempt, messages, recordedCall, sentToCloud, usage } from '../src/contract/run.ts';
import { large } from '../src/contract/vocabulary.ts';
import { rows } from '../src/operations/operations.ts';
import { ACCESS, type Grpc, type Operation, type ProtoField } from '../src/operations/row.ts';

/**
 * The messages RunRequest and RunRecord of `runtime.proto`, made from the schemas of a run; the
 * service and the requests of its methods, made from the operations. `npm run docs` writes them,
 * and a test compares them.
 */
export const PROTO = 'docs/runtime.proto';

interface Line {
  number: number;
  field: string;
  note: string | undefined;
}

/** The messages whose form over gRPC differs. They are written in the file by hand. */
const NAMES = new Map<unknown, string>([
  [message, 'Message'],
  [recordedMessage, 'Message'],
  [answerPart, 'Part'],
  [tool, 'Tool'],
  [toolChoice, 'ToolChoice'],
  [responseFormat, 'ResponseFormat'],
  [usage, 'Usage'],
  [errorBody, 'Error'],
  [failedAttempt, 'FailedAttempt'],
  [recordedCall, 'ToolCallRecord'],
  [sentToCloud, 'SentToCloud'],
]);

/** What a call has beside the request of a run. A field has one type there, so models have two. */
const CALL: readonly Line[] = [
  {
    number: 23,
    field: 'bool detach',
    note: 'The run continues when the call is cancelled, expires or loses its connection.',
  },
  {
    number: 30,
    field: 'repeated string more_models',
    note: 'More targets, after `model`: each is called when the previous one cannot answer.',
  },
];

/** The text of the file with the service and the messages as the contract has them. */
export function withMessages(text: string): string {
  const made = { RunRequest: requestLines(), RunRecord: recordLines(), ...operationMessages() };
  return Object.entries(made).reduce(
    (file, [name, lines]) => {
      const message = `message ${name} {${lines.length === 0 ? '' : `\n${bodyOf(lines)}\n`}}`;
      const place = new RegExp(`^message ${name} \\{(\\}|\\n[^}]*^\\})`, 'm');
      return place.test(file) ? file.replace(place, () => message) : `${file}\n${message}\n`;
    },
    text.replace(/^service Runtime \{\n[^}]*^\}/m, serviceText),
  );
}

/** The methods of gRPC. */
const methods = rows.flatMap(([, row]): [Operation, Grpc][] =>
  row.grpc === undefined ? [] : [[row, row.grpc]],
);

function serviceText(): string {
  const calls = methods.map(([{ summary = '', streams, access }, grpc]) => {
    const { rpc, answer, says = [summary] } = grpc;
    const needed = ACCESS[access ?? 'admin'];
    const scope = needed === 'any' ? [] : [`Needs the scope \`${needed}\`.`];
    const about = [...says, ...scope].flatMap((each, at) => [
      ...(at === 0 ? [] : ['  //']),
      ...comment(each),
    ]);
    const returns = `${streams ? 'stream ' : ''}${answer}`;
    return [...about, `  rpc ${rpc}(${rpc}Request) returns (${returns});`].join('\n');
  });
  return `service Runtime {\n${calls.join('\n\n')}\n}`;
}

/** The requests of the methods, and the answers whose fields the row has. */
function operationMessages(): Record<string, Line[]> {
  const made = methods.flatMap(([{ params, result }, { rpc, answer, request, fields }]) => [
    ...(request === undefined ? [] : [[`${rpc}Request`, rowLines(request, params)]]),
    ...(fields === undefined ? [] : [[answer, rowLines(fields, result)]]),
  ]);
  return Object.fromEntries(made);
}

function rowLines(fields: Readonly<Record<string, ProtoField>>, schema: unknown): Line[] {
  const { entries = {} } = schema as { entries?: Record<string, v.GenericSchema> };
  return Object.entries(fields).map(([name, value]) => {
    const { id, type, says }: Exclude<ProtoField, number> =
      typeof value === 'number' ? { id: value } : value;
    const known = entries[name];
    if (known === undefined) return { number: id, field: `${type} ${name}`, note: says };
    const field = fieldOf(name, known);
    const typed = type === undefined ? field : field.replace(/\S+ (?=\S+$)/, `${type} `);
    return { number: id, field: typed, note: says };
  });
}

function requestLines(): Line[] {
  return [...linesOf('RunRequest'), ...optionLines(0), ...CALL];
}

function recordLines(): Line[] {
  return [...linesOf('RunRecord'), ...optionLines(1)];
}

function linesOf(name: keyof typeof messages): Line[] {
  return Object.entries(messages[name]).map(([field, [number, schema, note]]) => ({
    number,
    field: fieldOf(field, schema),
    note,
  }));
}

function optionLines(which: 0 | 1): Line[] {
  return optionRows.flatMap(([name, { proto, summary, words }]) => {
    const number = proto[which];
    if (number === undefined) return [];
    const note = words === undefined ? summary : `${summary} One of: ${words.join(', ')}.`;
    return [{ number, field: fieldOf(name, optionEntries[name]), note }];
  });
}

function bodyOf(lines: readonly Line[]): string {
  const numbers = lines.map(({ number }) => number);
  const twice = numbers.find((number, index) => numbers.indexOf(number) !== index);
  if (twice !== undefined) throw new Error(`Two fields of runtime.proto have the number ${twice}.`);
  return [...lines]
    .sort((a, b) => a.number - b.number)
    .flatMap(({ number, field, note }) => [...comment(note), `  ${field} = ${number};`])
    .join('\n');
}

function comment(note: string | undefined): string[] {
  if (note === undefined) return [];
  const lines: string[] = [''];
  for (const word of note.split(' ')) {
    const last = lines.at(-1) ?? '';
    if (last.length + word.length > COLUMNS) lines.push(word);
    else lines[lines.length - 1] = last === '' ? word : `${last} ${word}`;
  }
  return lines.map((line) => `  // ${line}`);
}
const COLUMNS = 94;

function fieldOf(name: string, outer: v.GenericSchema): string {
  const schema = inner(outer);
  if (schema.type === 'record')
    return `map<string, ${typeOf((schema as unknown as { value: v.GenericSchema }).value)}> ${name}`;
  if (schema.type === 'array')
    return `repeated ${typeOf((schema as unknown as { item: v.GenericSchema }).item)} ${name}`;
  // A message is absent or there in any case.
  const label = schema !== outer ? 'optional ' : '';
  return `${label}${typeOf(schema)} ${name}`;
}

function inner(schema: v.GenericSchema): v.GenericSchema {
  return 'wrapped' in schema ? inner(schema.wrapped as v.GenericSchema) : schema;
}

function typeOf(schema: v.GenericSchema): string {
  const name = NAMES.get(schema);
  if (name !== undefined) return name;
  if (schema === large) return 'uint64';
  if (schema.type === 'boolean' || schema.type === 'literal') return 'bool';
  if (schema.type === 'number') return isWhole(schema) ? 'uint32' : 'double';
  return 'string';
}

function isWhole(schema: v.GenericSchema): boolean {
  const { pipe = [] } = schema as { pipe?: readonly { type: string }[] };
  return pipe.some(({ type }) => type === 'integer');
}
