import type { Syntax } from './arguments.ts';
import type { CallRow, Head } from './form.ts';
import { NAME } from './pattern.ts';

/** The calls of an answer as a model of this form writes them. */
export function callsText(
  { written, syntax }: CallRow,
  calls: readonly { name: string; arguments: unknown }[],
): string {
  const texts = calls.map(
    ({ name, arguments: values }, at) =>
      headText(at === 0 ? written.head : written.again, name, at) + argumentsText(syntax, values),
  );
  return texts.join('') + written.tail;
}

function headText(head: Head, name: string, index: number): string {
  return head
    .map((part) => {
      if (typeof part === 'string') return part;
      if (part === NAME) return name;
      return 'most' in part && part.most === 1 ? `${index}` : 'a1b2c3d4e';
    })
    .join('');
}

function argumentsText(syntax: Syntax, values: unknown): string {
  if (syntax.kind === 'json') return JSON.stringify(values);
  const pairs = Object.entries(Object(values) as object);
  if (syntax.kind === 'literals') {
    const { assign, quotes, close } = syntax;
    const isPython = assign === '=';
    const texts = pairs.map(
      ([key, value]) => key + assign + literal(value, quotes[0] ?? '"', isPython),
    );
    return texts.join(isPython ? ', ' : ',') + close;
  }
  const { open, middles, close, breaks, after } = syntax;
  const space = breaks ? '\n' : '';
  return pairs
    .map(([key, value]) => {
      const isText = typeof value === 'string';
      const middle = middleFor(middles, isText);
      const said = space + (isText ? value : JSON.stringify(value)) + space;
      return open + key + middle + said + close + after;
    })
    .join('');
}

/** The text between the name of an argument and its value. */
export function middleFor(
  middles: readonly { text: string; type: 'schema' | 'text' | 'json' }[],
  isText: boolean,
): string {
  const wanted = ['schema', isText ? 'text' : 'json'];
  return middles.find(({ type }) => wanted.includes(type))?.text ?? '';
}

function literal(value: unknown, quote: string, isPython: boolean): string {
  if (typeof value === 'string') return isPython ? JSON.stringify(value) : quote + value + quote;
  if (Array.isArray(value)) {
    const items = value.map((item) => literal(item, quote, isPython));
    return `[${items.join(isPython ? ', ' : ',')}]`;
  }
  if (typeof value === 'object' && value !== null) {
    const pairs = Object.entries(value).map(
      ([key, each]) =>
        (isPython ? `${JSON.stringify(key)}: ` : `${key}:`) + literal(each, quote, isPython),
    );
    return `{${pairs.join(isPython ? ', ' : ',')}}`;
  }
  if (!isPython || typeof value === 'number') return JSON.stringify(value);
  return { true: 'True', false: 'False' }[String(value)] ?? 'None';
}
