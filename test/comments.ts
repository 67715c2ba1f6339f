import { SyntaxKind } from 'typescript/unstable/ast';
import { createScanner, type Scanner } from 'typescript/unstable/ast/scanner';

/** A doc comment that describes nothing: `next` is there in place of code. */
export interface StrayComment {
  line: number;
  next: 'a blank line' | 'a comment' | 'a closing bracket' | 'the end';
}

/**
 * The doc comments of a source that are not directly before code. The first one after the imports
 * may describe the whole file, and a `@typedef` of a `.js` file describes itself.
 */
export function strayComments(code: string): StrayComment[] {
  const tokens = scan(code);
  const afterImports = firstAfterImports(tokens);
  return tokens.flatMap(({ kind, text, start }, index) => {
    if (!text.startsWith('/**') || text.includes('@typedef') || !isComment(kind)) return [];
    const next = findObstacle(tokens.slice(index + 1));
    const isHead = index === afterImports && next !== 'a closing bracket' && next !== 'the end';
    return next === null || isHead ? [] : [{ line: lineOf(code, start), next }];
  });
}

function lineOf(code: string, index: number): number {
  return code.slice(0, index).split('\n').length;
}

/** The index of the first token after the imports and the exports from other files. */
function firstAfterImports(tokens: readonly Token[]): number {
  let isImport = false;
  return tokens.findIndex(({ kind, text }, index) => {
    if (isImport) isImport = kind !== SyntaxKind.SemicolonToken;
    else if (isImportAt(tokens, index)) isImport = true;
    else
      return (
        !isSpace(kind) && kind !== SyntaxKind.SingleLineCommentTrivia && !text.startsWith('#!')
      );
    return false;
  });
}

/** `import …`, `export {…} from …`, `export type * from …`. */
function isImportAt(tokens: readonly Token[], index: number): boolean {
  const { kind } = tokens[index] as Token;
  if (kind === SyntaxKind.ImportKeyword) return true;
  const next = tokens.slice(index + 1, index + 5).filter((token) => !isSpace(token.kind));
  const named = next.find((token) => token.kind !== SyntaxKind.TypeKeyword)?.kind;
  return (
    kind === SyntaxKind.ExportKeyword &&
    (named === SyntaxKind.OpenBraceToken || named === SyntaxKind.AsteriskToken)
  );
}

interface Token {
  kind: SyntaxKind;
  text: string;
  start: number;
}

const CLOSING = [
  SyntaxKind.CloseBraceToken,
  SyntaxKind.CloseParenToken,
  SyntaxKind.CloseBracketToken,
];

/** A comment for a program: the linter, or the one that bundles. */
const ANNOTATION = /^\/\/ biome-ignore|^\/\* @__/;

/** What is between a comment and its code. Null: nothing. */
function findObstacle(tokens: readonly Token[]): StrayComment['next'] | null {
  let lines = 0;
  for (const { kind, text } of tokens) {
    if (kind === SyntaxKind.NewLineTrivia) lines += 1;
    else if (isComment(kind) && ANNOTATION.test(text)) lines -= 1;
    else if (kind === SyntaxKind.EndOfFile) return 'the end';
    else if (kind !== SyntaxKind.WhitespaceTrivia)
      return isComment(kind)
        ? 'a comment'
        : CLOSING.includes(kind)
          ? 'a closing bracket'
          : lines > 1
            ? 'a blank line'
            : null;
  }
  return 'the end';
}

/** The tokens of a source with its spaces and comments. The last one is its end. */
function scan(code: string): Token[] {
  const scanner = createScanner(false);
  scanner.setText(code);
  const tokens: Token[] = [];
  /** For each open template: how many braces are open in its present expression. */
  const templates: number[] = [];
  let before: Token | undefined;
  for (let kind = scanner.scan(); ; kind = scanner.scan()) {
    kind = rescan(scanner, kind, before, templates);
    const token = { kind, text: scanner.getTokenText(), start: scanner.getTokenStart() };
    tokens.push(token);
    if (kind === SyntaxKind.EndOfFile) return tokens;
    if (!isSpace(kind) && !isComment(kind)) before = token;
  }
}

/** What only a parser knows: whether `/` begins a pattern, and `}` continues a template. */
function rescan(
  scanner: Scanner,
  kind: SyntaxKind,
  before: Token | undefined,
  templates: number[],
): SyntaxKind {
  const last = templates.length - 1;
  switch (kind) {
    case SyntaxKind.SlashToken:
    case SyntaxKind.SlashEqualsToken:
      return endsValue(before) ? kind : scanner.reScanSlashToken();
    case SyntaxKind.TemplateHead:
      templates.push(0);
      return kind;
    case SyntaxKind.OpenBraceToken:
      if (last >= 0) templates[last] = (templates[last] ?? 0) + 1;
      return kind;
    case SyntaxKind.CloseBraceToken: {
      if (last < 0) return kind;
      if (templates[last] !== 0) {
        templates[last] = (templates[last] ?? 0) - 1;
        return kind;
      }
      const part = scanner.reScanTemplateToken(false);
      if (part === SyntaxKind.TemplateTail) templates.pop();
      return part;
    }
    default:
      return kind;
  }
}

/** Whether a `/` after this token divides. */
function endsValue(token: Token | undefined): boolean {
  if (token === undefined) return false;
  return (
    /^(?:[)\]]|[\w$]+|['"`].*)$/s.test(token.text) &&
    !/^(?:return|case|typeof|in|of)$/.test(token.text)
  );
}

function isSpace(kind: SyntaxKind): boolean {
  return kind === SyntaxKind.WhitespaceTrivia || kind === SyntaxKind.NewLineTrivia;
}

function isComment(kind: SyntaxKind): boolean {
  return kind === SyntaxKind.MultiLineCommentTrivia || kind === SyntaxKind.SingleLineCommentTrivia;
}
