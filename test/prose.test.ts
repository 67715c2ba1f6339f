import { globSync, readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { hardWords, longSentences, type Prose, proseOfPage, proseOfSource } from './prose.ts';

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
  assert.is(longSentences(`${'word '.repeat(21)}.`).length, 1);
  assert.is(longSentences(`${'word '.repeat(19)}end. And another one.`).length, 0);
});

test('no comment, text or page uses a hard word', () => {
  expectNone((piece) => (isProduct(piece) ? hardWords(piece.text) : []));
});

test('no sentence of a comment or a page is longer than a reader keeps in mind', () => {
  expectNone((piece) =>
    piece.kind === 'comment' || piece.file.endsWith('.md') ? longSentences(piece.text) : [],
  );
});

/** Files with statements of SQL that are read as one line. */
const LONG_LINES = ['src/store/projection.ts', 'src/store/schema.ts'];

/** The formatter splits at column 100, except a text, which it leaves whole. */
test('only the named tables have lines of 150 columns', () => {
  const long = globSync('{src,machines}/**/*.ts').filter((file) =>
    readFileSync(file, 'utf8')
      .split('\n')
      .some((line) => line.length >= 150),
  );
  assert.equal(long.map((file) => file.replaceAll('\\', '/')).sort(), LONG_LINES);
});

test('no line of a comment is longer than 100 columns', () => {
  const long = sources.flatMap((file) =>
    commentLines(readFileSync(file, 'utf8'))
      .filter(({ text }) => text.length > COLUMNS_MAX)
      .map(({ line }) => `${file}:${line}`),
  );
  assert.equal(long, []);
  const found = commentLines('/**\n * a\n */\nconst b = 1;\n  // c\n/* d */\n');
  assert.equal(
    found.map(({ line }) => line),
    [1, 2, 3, 5, 6],
  );
});

test('every line of the list is still to do', () => {
  const done = TO_DO.filter((prefix) =>
    problems(() => true).every(({ file }) => !file.startsWith(prefix)),
  );
  assert.equal(done, []);
});

/** The lines that have only a comment. The formatter breaks the others. */
function commentLines(code: string): { line: number; text: string }[] {
  let inside = false;
  return code.split('\n').flatMap((text, index) => {
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
  assert.equal(wrong, []);
}

function list(pattern: string): string[] {
  return globSync(pattern)
    .map((file) => file.replaceAll('\\', '/'))
    .sort();
}

test.run();
