import { globSync, readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { strayComments } from './comments.ts';

const sources = globSync('{src,machines,test,tools}/**/*.{ts,js,mjs}')
  .map((file) => file.replaceAll('\\', '/'))
  .filter((file) => !file.startsWith('test/fixtures/'))
  .sort();

test('a doc comment is directly before the code that it describes', () => {
  const found = sources.flatMap((file) =>
    strayComments(readFileSync(file, 'utf8')).map(
      ({ line, next }) => `${file}:${line} is before ${next}`,
    ),
  );
  assert.equal(found, [], 'move each comment to its code, or remove it');
});

test('stray comments are found by the tokens of the source, not by its text', () => {
  const found = (code: string) => strayComments(code).map(({ line, next }) => `${line} ${next}`);
  const stray = [
    ['/** a */ const b = 1;\n/** c */\n', '2 the end'],
    ['const a = 1;\n/** b */\n// c\nconst d = 2;', '2 a comment'],
    ['const a = {\n  /** b */\n};', '2 a closing bracket'],
    ['const a = /[/]\\/*/;\n/** b */\n\nconst c = 4 / 2;', '2 a blank line'],
    ['const a = `<{ b: `<1}` }.b}`;\n/** c */\n\nconst d = `/** e */`;', '2 a blank line'],
  ] as const;
  for (const [code, at] of stray) assert.equal(found(code.replaceAll('<', '${')), [at], code);
  const right = [
    "import a from 'a';\nexport type { B } from 'b';\n\n/** The file. */\n\n/** c */\nconst c = 1;",
    'const a = 1;\n/** b */\n// biome-ignore lint: c\nconst d = 2;',
    'const a = 1;\n/** @typedef {string} B */\n/** @type {B} */\nlet c;',
    'const a = `/** b */\n\n`;',
    'const a = /\\/** b */ 1\n\n/;',
  ];
  for (const code of right) assert.equal(found(code), [], code);
});

test.run();
