import type { Node } from 'jsonc-parser';
import { jsonc, marks } from './text.ts';

/**
 * Edits of JSON with comments that change nothing else. (The parser's own edits move the comment behind the last property
 * to the one that is added after it, drop comments with what they remove, and break a list that ends in a comma.)
 * The text must be valid, and every step of the path but the last an object where it is there.
 */

/** The text with the value at the path, in place of what is there now. */
export function putProperty(text: string, path: readonly string[], value: unknown): string {
  const root = parse(text);
  if (root === undefined) return appendRoot(text, nest(path, value));
  let node = root;
  for (const [depth, name] of path.entries()) {
    const next = findProperty(node, name)?.children?.[1];
    if (next === undefined) return insert(text, node, name, nest(path.slice(depth + 1), value));
    node = next;
  }
  return splice(
    text,
    node.offset,
    node.offset + node.length,
    print(text, value, indentAt(text, node.offset)),
  );
}

/** The text without the property at the path; its comments stay. */
export function removeProperty(text: string, path: readonly string[]): string {
  const root = parse(text);
  let node: Node | undefined = root;
  let property: Node | undefined;
  for (const name of path) {
    property = node === undefined ? undefined : findProperty(node, name);
    node = property?.children?.[1];
  }
  return property === undefined ? text : cutProperty(text, property);
}

function parse(text: string): Node | undefined {
  return jsonc().parseTree(text, [], { allowTrailingComma: true });
}

function findProperty(object: Node, name: string): Node | undefined {
  return object.children?.find(({ children }) => children?.[0]?.value === name);
}

function nest(path: readonly string[], value: unknown): unknown {
  return path.reduceRight((inner, name) => ({ [name]: inner }), value);
}

function appendRoot(text: string, value: unknown): string {
  const eol = lineEnd(text);
  const before = text.trim() === '' ? '' : text.trimEnd() + eol;
  return before + print(text, value, '') + eol;
}

/** Puts the property last, on lines of its own. */
function insert(text: string, object: Node, name: string, value: unknown): string {
  const close = object.offset + object.length - 1;
  const closeLine = lineStart(text, close);
  const ownLine = text.slice(closeLine, close).trim() === '' && closeLine > object.offset;
  const outer = indentAt(text, ownLine ? close : object.offset);
  const last = object.children?.at(-1);
  const comma = last === undefined ? undefined : commaAfter(text, last);
  const eol = lineEnd(text);
  const line = `${outer}${indentUnit(text)}${JSON.stringify(name)}: ${print(text, value, outer + indentUnit(text))}${comma === undefined ? '' : ','}`;
  const added = ownLine
    ? splice(text, closeLine, closeLine, line + eol)
    : splice(text, close, close, eol + line + eol + outer);
  return last === undefined || comma !== undefined
    ? added
    : splice(added, last.offset + last.length, last.offset + last.length, ',');
}

/** Takes out the property with the comma behind it, or the one before it where it is the last. */
function cutProperty(text: string, property: Node): string {
  const end = property.offset + property.length;
  const behind = commaAfter(text, property);
  if (behind !== undefined) return cut(cut(text, behind, behind + 1), property.offset, end);
  const siblings = property.parent?.children ?? [];
  const previous = siblings[siblings.indexOf(property) - 1];
  const before = previous === undefined ? undefined : commaAfter(text, previous);
  const without = cut(text, property.offset, end);
  return before === undefined ? without : splice(without, before, before + 1, '');
}

function commaAfter(text: string, node: Node): number | undefined {
  const end = node.offset + node.length;
  for (const { char, offset } of marks(text))
    if (offset >= end) return char === ',' ? offset : undefined;
  return undefined;
}

/** Takes the range out, and its line too when nothing else is on it. */
function cut(text: string, from: number, to: number): string {
  const start = lineStart(text, from);
  const rest = /^[ \t]*(\r\n|\r|\n)/.exec(text.slice(to))?.[0];
  const whole = rest !== undefined && start > 0 && text.slice(start, from).trim() === '';
  return whole ? splice(text, start, to + rest.length, '') : splice(text, from, to, '');
}

function splice(text: string, from: number, to: number, content: string): string {
  return text.slice(0, from) + content + text.slice(to);
}

/** The value as JSON whose further lines are indented like the one it begins on. */
function print(text: string, value: unknown, indent: string): string {
  return JSON.stringify(value, null, indentUnit(text)).replaceAll('\n', lineEnd(text) + indent);
}

function lineStart(text: string, offset: number): number {
  return Math.max(text.lastIndexOf('\n', offset - 1), text.lastIndexOf('\r', offset - 1)) + 1;
}

function indentAt(text: string, offset: number): string {
  return /^[ \t]*/.exec(text.slice(lineStart(text, offset)))?.[0] ?? '';
}

/** What this file indents one level with: the space before the first name that begins a line. */
function indentUnit(text: string): string {
  return /[\r\n]([ \t]+)"/.exec(text)?.[1] ?? '  ';
}

function lineEnd(text: string): string {
  return /\r\n|\r|\n/.exec(text)?.[0] ?? '\n';
}
