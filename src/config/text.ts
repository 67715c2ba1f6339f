import { isUtf8 } from 'node:buffer';
import { readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Node, ParseError } from 'jsonc-parser';
import { whyUnusable } from '../causes.ts';
import { type ErrorCode, SvcError } from '../errors.ts';
import { CONFIG_BYTES_MAX, CONFIG_DEPTH_MAX } from '../limits.ts';

/** A configuration file: JSON with comments, and the place of each value. */
export interface ConfigText {
  /** An object; undefined if the file has only space and comments. */
  root: Node | undefined;
  /** `file:line:column` of an offset in the text. */
  locate(offset: number): string;
}

export interface Property {
  name: string;
  value: Node;
  /** The whole property, its name first. */
  node: Node;
}

/**
 * Null without a file. Throws config_invalid if it cannot be read, or is not JSON with comments.
 */
export function readConfigText(file: string): ConfigText | null {
  const bytes = readBytes(file);
  if (bytes === null) return null;
  const decoded = bytes.toString('utf8');
  const text = decoded.startsWith('\uFEFF') ? decoded.slice(1) : decoded;
  const where = (offset: number) => `${file}:${position(text, offset)}`;
  if (!isUtf8(bytes)) refuse(where(text.indexOf('\uFFFD')), 'this is not UTF-8 text');
  return { root: parse(text, where), locate: where };
}

/** The properties of an object, in order. `what` names it in the error. */
export function properties({ locate: where }: ConfigText, node: Node, what: string): Property[] {
  if (node.type !== 'object')
    refuse(where(node.offset), `${what} must be an object`, { param: what });
  return (node.children ?? []).flatMap((property) => {
    const [name, value] = property.children ?? [];
    return name === undefined || value === undefined
      ? []
      : [{ name: String(name.value), value, node: property }];
  });
}

/** The JSON value of a node. */
export function plainValue(node: Node): unknown {
  return jsonc().getNodeValue(node);
}

/** Yields brackets, commas, and the first character of each other token. */
export function* marks(text: string): Generator<{ char: string; offset: number }> {
  const scanner = jsonc().createScanner(text, true);
  for (;;) {
    scanner.scan();
    const offset = scanner.getTokenOffset();
    if (offset >= text.length) return;
    yield { char: text.charAt(offset), offset };
  }
}

/** Loads the parser on demand: most commands never read the file. */
export function jsonc(): typeof import('jsonc-parser') {
  return require('jsonc-parser') as typeof import('jsonc-parser');
}

export function refuse(
  where: string,
  what: string,
  options: { code?: ErrorCode; param?: string; hint?: string } = {},
): never {
  const { code = 'config_invalid', ...rest } = options;
  throw new SvcError(code, `${where}: ${what}.`, rest);
}

/** A piece of the input for a message: quoted, at most a line. */
export function brief(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}

const require = createRequire(import.meta.url);

const MOVE = 'Move it away: its settings then have their defaults.';
const READ =
  'See to it that you can read it (chmod 600), or move it away: ' +
  'its settings then have their defaults.';
const FOLDER = 'What should be a folder of it is a file; choose another place with SVC_HOME.';

function readBytes(file: string): Buffer | null {
  try {
    const stat = statSync(file);
    if (!stat.isFile())
      throw new SvcError('config_invalid', `${file} is not a file.`, { hint: MOVE });
    if (stat.size > CONFIG_BYTES_MAX)
      throw new SvcError(
        'config_invalid',
        `${file} is larger than a configuration can be (${CONFIG_BYTES_MAX} bytes).`,
        { hint: MOVE },
      );
    return readFileSync(file);
  } catch (error) {
    if (error instanceof SvcError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return null;
    throw new SvcError('config_invalid', `${file} cannot be read: ${whyUnusable(error)}.`, {
      cause: error,
      hint: code === 'ENOTDIR' ? FOLDER : READ,
    });
  }
}

function parse(text: string, where: ConfigText['locate']): Node | undefined {
  refuseDepth(text, where);
  const problems: ParseError[] = [];
  const root = jsonc().parseTree(text, problems, {
    allowTrailingComma: true,
    allowEmptyContent: true,
  });
  const [first] = problems;
  if (first !== undefined)
    refuse(
      where(first.offset),
      PROBLEMS[jsonc().printParseErrorCode(first.error)] ?? 'this is not JSON',
    );
  if (root === undefined) return undefined;
  if (root.type !== 'object') refuse(where(root.offset), 'the configuration must be an object');
  refuseRepeats(root, where);
  return root;
}

/** The parser is recursive, so the depth is bounded first. */
function refuseDepth(text: string, where: ConfigText['locate']): void {
  let depth = 0;
  for (const { char, offset } of marks(text)) {
    if (char === '{' || char === '[') depth += 1;
    if (char === '}' || char === ']') depth -= 1;
    if (depth > CONFIG_DEPTH_MAX) refuse(where(offset), 'this is nested too deeply');
  }
}

/** Two values for one name are a mistake: one would be ignored. */
function refuseRepeats(node: Node, where: ConfigText['locate']): void {
  const seen = new Set<unknown>();
  for (const child of node.children ?? []) {
    const name = child.type === 'property' ? child.children?.[0] : undefined;
    if (name !== undefined && seen.has(name.value))
      refuse(where(name.offset), `${JSON.stringify(name.value)} is there twice`);
    if (name !== undefined) seen.add(name.value);
    refuseRepeats(child, where);
  }
}

function position(text: string, offset: number): string {
  const lines = text.slice(0, Math.max(0, offset)).split(/\r\n|\r|\n/);
  return `${lines.length}:${(lines.at(-1)?.length ?? 0) + 1}`;
}

const PROBLEMS: Record<string, string> = {
  InvalidSymbol: 'this is not JSON',
  InvalidNumberFormat: 'this is not a number',
  PropertyNameExpected: 'a name in double quotes is expected here',
  ValueExpected: 'a value is expected here',
  ColonExpected: 'a colon is expected here',
  CommaExpected: 'a comma is expected here',
  CloseBraceExpected: 'a closing } is expected here',
  CloseBracketExpected: 'a closing ] is expected here',
  EndOfFileExpected: 'nothing more is expected here',
  UnexpectedEndOfComment: 'this comment is not closed',
  UnexpectedEndOfString: 'this string is not closed',
  UnexpectedEndOfNumber: 'this number is not complete',
  InvalidUnicode: 'this string holds a malformed \\u escape',
  InvalidEscapeCharacter: 'this string holds an escape that JSON does not have',
  InvalidCharacter: 'this string holds a control character; write it as an escape',
};
