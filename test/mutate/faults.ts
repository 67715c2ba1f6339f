import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import * as ast from 'typescript/unstable/ast';
import { API } from 'typescript/unstable/sync';

/** A small fault: some text of a file that is replaced. */
export interface Fault {
  file: string;
  /** From 1. */
  line: number;
  /** What changes, as a reader sees it. */
  what: string;
  start: number;
  end: number;
  text: string;
}

/** What an operator becomes. Of strings, `+` has no other. */
const OTHER: ReadonlyMap<ast.SyntaxKind, string> = new Map([
  [ast.SyntaxKind.EqualsEqualsEqualsToken, '!=='],
  [ast.SyntaxKind.ExclamationEqualsEqualsToken, '==='],
  [ast.SyntaxKind.LessThanToken, '<='],
  [ast.SyntaxKind.LessThanEqualsToken, '<'],
  [ast.SyntaxKind.GreaterThanToken, '>='],
  [ast.SyntaxKind.GreaterThanEqualsToken, '>'],
  [ast.SyntaxKind.AmpersandAmpersandToken, '||'],
  [ast.SyntaxKind.BarBarToken, '&&'],
  [ast.SyntaxKind.MinusToken, '+'],
  [ast.SyntaxKind.AsteriskToken, '/'],
]);

/** All faults that can be planted in these files, in their order. The files are parsed alone. */
export function faultsOf(files: readonly string[]): Fault[] {
  const folder = mkdtempSync(join(tmpdir(), 'svc-faults-'));
  const project = join(folder, 'tsconfig.json');
  const compilerOptions = {
    noResolve: true,
    noLib: true,
    types: [],
    allowImportingTsExtensions: true,
  };
  writeFileSync(
    project,
    JSON.stringify({ compilerOptions, files: files.map((file) => resolve(file)) }),
  );
  const api = new API({ cwd: folder });
  try {
    const program = api.updateSnapshot({ openProject: project }).getProjects()[0]?.program;
    return files.flatMap((file) => {
      const source = program?.getSourceFile(resolve(file));
      if (source === undefined) throw new Error(`${file} could not be parsed`);
      return faultsIn(file, source);
    });
  } finally {
    api.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

function faultsIn(file: string, source: ast.SourceFile): Fault[] {
  const found: Fault[] = [];
  const { text } = source;
  const add = (start: number, end: number, replacement: string, what: string) => {
    const line = text.slice(0, start).split('\n').length;
    found.push({ file, line, what, start, end, text: replacement });
  };
  const startOf = (node: ast.Node) => node.getStart(source);
  const shown = (node: ast.Node) => text.slice(startOf(node), node.end).replace(/\s+/g, ' ');
  const negate = (node: ast.Expression) =>
    add(
      startOf(node),
      node.end,
      `!(${text.slice(startOf(node), node.end)})`,
      `not: ${shown(node)}`,
    );

  const walk = (node: ast.Node): void => {
    if (ast.isBinaryExpression(node)) {
      const { operatorToken: sign } = node;
      const other = OTHER.get(sign.kind);
      if (other !== undefined)
        add(startOf(sign), sign.end, other, `${shown(sign)} is ${other}: ${shown(node)}`);
    }
    if (ast.isIfStatement(node)) negate(node.expression);
    if (ast.isConditionalExpression(node)) negate(node.condition);
    if (ast.isAwaitExpression(node))
      add(startOf(node), startOf(node.expression), '', `no ${shown(node)}`);
    if (ast.isNumericLiteral(node) && !ast.isLiteralTypeNode(node.parent))
      add(node.end, node.end, ' + 1', `${shown(node)} is one more`);
    if (node.kind === ast.SyntaxKind.TrueKeyword && !ast.isLiteralTypeNode(node.parent))
      add(startOf(node), node.end, 'false', 'true is false');
    if (node.kind === ast.SyntaxKind.FalseKeyword && !ast.isLiteralTypeNode(node.parent))
      add(startOf(node), node.end, 'true', 'false is true');
    if (ast.isExpressionStatement(node) && !shown(node).startsWith('super('))
      add(startOf(node), node.end, ';', `without: ${shown(node)}`);
    if (
      ast.isBlock(node) &&
      (ast.isFunctionDeclaration(node.parent) || ast.isMethodDeclaration(node.parent))
    )
      add(
        startOf(node) + 1,
        startOf(node) + 1,
        ' return undefined as never;',
        `${node.parent.name?.getText(source)} returns at once`,
      );
    node.forEachChild(walk);
  };
  walk(source);
  return found;
}
