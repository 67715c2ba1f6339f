import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { commands } from '../src/cli/commands.ts';
import { errors } from '../src/errors.ts';
import { documents, filled } from './tables.ts';

const read = (file: string) => readFileSync(file, 'utf8');
const pages = ['README.md', ...globSync('docs/**/*.md').map((file) => file.replaceAll('\\', '/'))];
const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };

for (const file of Object.keys(documents)) {
  test(`the tables of ${file} are those of the code: else run npm run docs`, () => {
    assert.ok(filled(file, read(file)) === read(file), `${file} is stale`);
  });
}

test('a table that is stale, missing or unknown is noticed', () => {
  const operations = read('docs/operations.md');
  assert.is.not(
    filled('docs/operations.md', operations.replace('| `queue_runs` |', '| `queue_walks` |')),
    operations.replace('| `queue_runs` |', '| `queue_walks` |'),
  );
  assert.throws(
    () => filled('docs/operations.md', operations.replace('<!-- limits:begin -->', '')),
    /has the marks/,
  );
  assert.throws(
    () => filled('docs/operations.md', operations.replace('settings:begin', 'sittings:begin')),
    /sittings/,
  );
});

test('the page that an error points to has a place for it', () => {
  const page = read('docs/errors.md');
  const places = [...page.matchAll(/<a id="(\w+)"><\/a>/g)].map(([, code]) => code);
  assert.equal(places, Object.keys(errors));
});

test('the README begins with one sentence and two commands: one installs and answers, one runs the tests', () => {
  assert.match(
    read('README.md'),
    /^# svc\n\n(?:[^\n`#].*\n|`svc` .*\n)+\n```sh\nnpm install && npx svc run ".*\nnpm install && npm test\b.*\n```\n/,
  );
});

test('every script, command and flag that a page shows is there', () => {
  let seen = 0;
  for (const page of pages) {
    for (const [, script = ''] of read(page).matchAll(/\bnpm run ([a-z:]+)/g))
      assert.ok(script in scripts, `${page}: npm run ${script}`);
    for (const [, line = ''] of read(page).matchAll(
      /(?:^|[`|(] ?|npx )svc ((?:[a-z]+)(?: [^`#\n|]*)?)/gm,
    )) {
      const words = line.trim().split(/\s+/);
      const spec =
        commands.find(({ name }) => name === words.slice(0, 2).join(' ')) ??
        commands.find(({ name }) => name === words[0]);
      if (spec === undefined) continue;
      seen += 1;
      for (const [, flag = ''] of line.replace(/"[^"]*"/g, '').matchAll(/\s--([a-z-]+)/g)) {
        assert.ok(
          flag === 'help' || spec.flags.some(({ name }) => name === flag),
          `${page}: svc ${spec.name} --${flag}`,
        );
      }
    }
  }
  assert.ok(seen > 20);
});

test('every link of a page leads to a file that is there, and every file that it names is', () => {
  let seen = 0;
  for (const page of pages) {
    for (const [, target = ''] of read(page).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(target)) continue;
      const [file = ''] = target.split('#');
      assert.ok(file === '' || existsSync(join(dirname(page), file)), `${page}: ${target}`);
      seen += 1;
    }
    for (const [, file = ''] of read(page).matchAll(/`((?:src|machines|test|docs)\/[\w./-]*)`/g))
      assert.ok(existsSync(file), `${page}: ${file}`);
  }
  assert.ok(seen > 5);
});

test.run();
