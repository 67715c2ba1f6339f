import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
// @ts-expect-error The console has no types: its files are JavaScript.
import { isDeep } from '../../src/console/parts/markdown.js';

const lines = (count: number, line: (at: number) => string) =>
  Array.from({ length: count }, (_, at) => line(at)).join('\n');

test('what would keep the page busy for seconds is found before it is read as Markdown', () => {
  const deep = {
    dashes: `${'- '.repeat(29_000)}a`,
    numbers: '1. '.repeat(20_000),
    quotes: '>'.repeat(60_000),
    emphasis: 'a**b'.repeat(15_000),
    strikes: 'a~~b'.repeat(15_000),
    links: '['.repeat(60_000),
    lists: lines(240, (at) => `${'  '.repeat(at)}- a`),
  };
  for (const [name, text] of Object.entries(deep)) {
    assert.ok(isDeep(text), name);
    assert.ok(isDeep(`Before it.\n\n${text}\n`), `${name} later`);
  }
});

test('what people and models write is no such text', () => {
  for (const page of ['README.md', 'CHANGELOG.md', 'docs/operations.md', 'docs/architecture.md'])
    assert.not(isDeep(readFileSync(page, 'utf8')), page);
  for (const text of [
    lines(12, (at) => `${'  '.repeat(at)}- a`),
    lines(3000, (at) => `${at}. a **bold** word`),
    lines(3000, () => '| a | *b* |'),
    `${'> '.repeat(8)}- a`,
    `\`\`\`\n${lines(200, (at) => `${' '.repeat(at)}x = [${'a, '.repeat(50)}]`)}\n\`\`\``,
    '- - -',
    '-'.repeat(80),
    `${'* '.repeat(40)}`,
    `${'-'.repeat(60)}> here`,
  ])
    assert.not(isDeep(text), text.slice(0, 40));
});

test.run();
