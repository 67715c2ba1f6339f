import { globSync, readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  hardWords,
  longSentences,
  type Prose,
  pronounFirst,
  proseOfPage,
  proseOfSource,
} from './prose.ts';

/** Not yet in plain words. The list only gets shorter: a line that is done fails the test. */
const TO_DO: readonly string[] = [];

const COLUMNS_MAX = 100;
const sources = list('{src,machines,test,tools}/**/*.{ts,js}').filter(
  (file) => !/^test\/(prose|fixtures)/.test(file),
);
const pages = list('{README,SECURITY,CONTRIBUTING,CHANGELOG}.md').concat(list('docs/**/*.md'));
const prose = [...sources.flatMap(proseOfSource), ...pages.flatMap(proseOfPage)];

test('the prose is read: comments, texts, names of tests and pages', () => {
  for (const kind of ['comment', 'text', 'name'] as const) {
    assert.ok(prose.filter((piece) => piece.kind === kind).length > 100, kind);
  }
  assert.equal(hardWords('It is Told anew, `held` by nobody.'), ['told', 'anew', 'nobody']);
  assert.is(longSentences(`${'word '.repeat(26)}.`).length, 1);
  assert.is(longSentences(`${'word '.repeat(24)}end. And another one.`).length, 0);
});

test('no comment, text or page uses a hard word', () => {
  expectNone((piece) => (isProduct(piece) ? hardWords(piece.text) : []));
});

test('no sentence of a comment or a page is longer than a reader keeps in mind', () => {
  expectNone((piece) =>
    piece.kind === 'comment' || piece.file.endsWith('.md') ? longSentences(piece.text) : [],
  );
});

test('no comment of the program begins with a pronoun instead of its noun', () => {
  assert.is(pronounFirst('It was sent.').length + pronounFirst('Those that wait.').length, 2);
  assert.is(pronounFirst('The run waits. It is sent.').length, 0);
  expectNone(({ kind, file, text }) =>
    kind === 'comment' && /^(src|machines)\//.test(file) ? pronounFirst(text) : [],
  );
});

/**
 * Files that may have longer lines: regular expressions, a document type, tables that databases
 * already have as they are written here, and large statements of PostgreSQL.
 */
const LONG_LINES = [
  'src/cli/upkeep/service/launch-agent.ts',
  'src/config/providers/provider.ts',
  'src/logs/plain.ts',
  'src/logs/scrub.ts',
  'src/kernel/store/inspect/audit.ts',
  'src/kernel/store/places.ts',
  'src/fleet/postgres/',
  'src/kernel/store/schema.ts',
  'src/kernel/store/sqlite/writes.ts',
  'src/kernel/store/usage.ts',
  'src/kernel/store/words.ts',
];

/** The formatter splits there, except a text, which it leaves whole. */
test('only the named files have lines of more than 100 columns', () => {
  const long = globSync('{src,machines}/**/*.ts')
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => linesOf(file).some((line) => line.length > COLUMNS_MAX));
  const isNamed = (file: string) => LONG_LINES.some((prefix) => file.startsWith(prefix));
  assert.equal(
    long.filter((file) => !isNamed(file)),
    [],
    'break the lines, or edit LONG_LINES in test/prose.test.ts',
  );
  for (const prefix of LONG_LINES)
    assert.ok(
      long.some((file) => file.startsWith(prefix)),
      `${prefix} has no long line`,
    );
});

test('no line of a comment is longer than 100 columns', () => {
  const long = sources.flatMap((file) =>
    commentLines(linesOf(file))
      .filter(({ text }) => text.length > COLUMNS_MAX)
      .map(({ line }) => `${file}:${line}`),
  );
  assert.equal(long, [], 'break the lines of these comments');
  const found = commentLines('/**\n * a\n */\nconst b = 1;\n  // c\n/* d */\n'.split('\n'));
  assert.equal(
    found.map(({ line }) => line),
    [1, 2, 3, 5, 6],
  );
});

test('a file that a comment names exists', () => {
  const isKnown = filesOf(sources);
  const named = prose.flatMap(({ kind, file, line, text }) =>
    kind === 'comment' ? namedFiles(text).map((name) => ({ name, at: `${file}:${line}` })) : [],
  );
  assert.ok(named.length > 20, `${named.length} names`);
  assert.equal(namedFiles('See `a-b.ts`, and c/d.test.ts, not `.test.ts` or e.tsx.'), [
    'a-b.ts',
    'd.test.ts',
  ]);
  assert.equal(
    named.filter(({ name }) => !isKnown.has(name)),
    [],
    'correct the name in the comment',
  );
});

function filesOf(paths: readonly string[]): ReadonlySet<string> {
  return new Set(paths.map((path) => path.split('/').at(-1) ?? ''));
}

function namedFiles(text: string): string[] {
  return [...text.matchAll(/(?<![\w.-])[\w-][\w.-]*\.ts\b/g)].map(([name]) => name);
}

test('every line of the list is still to do', () => {
  const done = TO_DO.filter((prefix) =>
    problems(() => true).every(({ file }) => !file.startsWith(prefix)),
  );
  assert.equal(done, [], 'remove them from TO_DO in test/prose.test.ts');
});

function linesOf(file: string): string[] {
  return readFileSync(file, 'utf8').split('\n');
}

/** The lines that have only a comment. The formatter breaks the others. */
function commentLines(lines: readonly string[]): { line: number; text: string }[] {
  let inside = false;
  return lines.flatMap((text, index) => {
    const begins = /^\s*\/[*/]/.test(text);
    const isComment = inside || begins;
    if (isComment) inside = !text.includes('*/') && (inside || !/^\s*\/\//.test(text));
    return isComment ? [{ line: index + 1, text }] : [];
  });
}

/** A text in a test may be the input of what it tests. */
function isProduct({ kind, file }: Prose): boolean {
  return kind !== 'text' || !file.startsWith('test/');
}

function problems(applies: (piece: Prose) => boolean): Prose[] {
  return prose.filter((piece) => {
    const words = isProduct(piece) ? hardWords(piece.text) : [];
    const long =
      piece.kind === 'comment' || piece.file.endsWith('.md') ? longSentences(piece.text) : [];
    return applies(piece) && words.length + long.length > 0;
  });
}

function expectNone(find: (piece: Prose) => string[]): void {
  const wrong = prose
    .filter(({ file }) => !TO_DO.some((prefix) => file.startsWith(prefix)))
    .flatMap((piece) => find(piece).map((what) => `${piece.file}:${piece.line}: ${what}`));
  assert.equal(wrong, [], 'write plain words there; test/prose.ts has the list of hard ones');
}

function list(pattern: string): string[] {
  return globSync(pattern)
    .map((file) => file.replaceAll('\\', '/'))
    .sort();
}

test.run();
