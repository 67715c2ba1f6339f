import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import * as ast from 'typescript/unstable/ast';
import { API } from 'typescript/unstable/sync';

/** A small fault: an expression or a statement of a file that is replaced. */
export interface Fault {
  file: string;
  /** From 1. */
  line: number;
  /** What changes, as a reader sees it. */
  what: string;
  start: number;
  end: number;
  text: string;
  form: 'expression' | 'statement';
  /** Whether a call runs it, and not the import of the file. */
  isCalled: boolean;
}

/** The function that planted code calls: whether its fault is on. */
export const SWITCH = 'isPlanted_';

/** The text of a file with all of its faults, each behind the switch of its number. */
export function withSwitches(whole: string, faults: ReadonlyMap<number, Fault>): string {
  // Of two faults that begin together the longer one has the other in it.
  const ordered = [...faults].toSorted(([, a], [, b]) => a.start - b.start || b.end - a.end);
  const render = (start: number, end: number): string => {
    let text = '';
    let at = start;
    for (let next = ordered[0]; next !== undefined && next[1].start < end; next = ordered[0]) {
      ordered.shift();
      const [id, fault] = next;
      const own = render(fault.start, fault.end);
      text += whole.slice(at, fault.start);
      text +=
        fault.form === 'expression'
          ? `(${SWITCH}(${id}) ? (${fault.text}) : (${own}))`
          : `{ if (${SWITCH}(${id})) { ${fault.text} } else { ${own} } }`;
      at = fault.end;
    }
    return text + whole.slice(at, end);
  };
  return render(0, whole.length);
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

function isNameOf(owner: ast.Node, node: ast.Node): boolean {
  return 'name' in owner && owner.name === node;
}

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
  const startOf = (node: ast.Node) => node.getStart(source);
  const textOf = (node: ast.Node) => text.slice(startOf(node), node.end);
  const shown = (node: ast.Node) => textOf(node).replace(/\s+/g, ' ');
  let functions = 0;
  const add = (node: ast.Node, replacement: string, what: string, form: Fault['form']) => {
    const [start, end] = [startOf(node), node.end];
    const line = text.slice(0, start).split('\n').length;
    found.push({ file, line, what, start, end, text: replacement, form, isCalled: functions > 0 });
  };
  const replace = (node: ast.Node, replacement: string, what: string) =>
    add(node, replacement, what, 'expression');
  const negate = (node: ast.Expression) =>
    replace(node, `!(${textOf(node)})`, `not: ${shown(node)}`);

  const walk = (node: ast.Node): void => {
    const isFunction = ast.isFunctionLikeDeclaration(node);
    functions += Number(isFunction);
    plant(node);
    node.forEachChild(walk);
    functions -= Number(isFunction);
  };
  const plant = (node: ast.Node): void => {
    if (ast.isBinaryExpression(node)) {
      const { operatorToken: sign } = node;
      const other = OTHER.get(sign.kind);
      if (other !== undefined) {
        const changed = text.slice(startOf(node), startOf(sign)) + other;
        replace(
          node,
          changed + text.slice(sign.end, node.end),
          `${shown(sign)} is ${other}: ${shown(node)}`,
        );
      }
    }
    if (ast.isIfStatement(node)) negate(node.expression);
    if (ast.isConditionalExpression(node)) negate(node.condition);
    if (ast.isAwaitExpression(node)) replace(node, textOf(node.expression), `no ${shown(node)}`);
    const isValue = () => !ast.isLiteralTypeNode(node.parent) && !isNameOf(node.parent, node);
    if (ast.isNumericLiteral(node) && isValue())
      replace(node, `${textOf(node)} + 1`, `${shown(node)} is one more`);
    if (node.kind === ast.SyntaxKind.TrueKeyword && isValue())
      replace(node, 'false', 'true is false');
    if (node.kind === ast.SyntaxKind.FalseKeyword && isValue())
      replace(node, 'true', 'false is true');
    if (ast.isExpressionStatement(node) && !shown(node).startsWith('super('))
      add(node, ';', `without: ${shown(node)}`, 'statement');
    if (
      ast.isBlock(node) &&
      (ast.isFunctionDeclaration(node.parent) || ast.isMethodDeclaration(node.parent))
    )
      add(
        node,
        `{ return undefined as never; ${textOf(node).slice(1)}`,
        `${node.parent.name?.getText(source)} returns at once`,
        'statement',
      );
  };
  walk(source);
  return found;
}
