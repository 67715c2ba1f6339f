import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { commands } from '../src/cli/terminal/commands.ts';
import { renamedSettings } from '../src/config/renamed.ts';
import { errors } from '../src/errors.ts';
import { operations } from '../src/operations/operations.ts';
import { MAN_FILE } from './man.ts';
import { documents, filled, man } from './tables.ts';

const read = (file: string) => readFileSync(file, 'utf8');
const decisions = globSync('docs/decisions/[0-9]*.md').map((file) => file.replaceAll('\\', '/'));
const pages = [
  'README.md',
  'SECURITY.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  ...globSync('docs/**/*.md').map((file) => file.replaceAll('\\', '/')),
];
const PATH_ROOTS = /^(src|machines|test|docs|tools|\.ci|\.github)\//;
const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };

for (const file of Object.keys(documents)) {
  test(`the tables of ${file} are fresh: npm run docs makes them`, () => {
    assert.ok(filled(file, read(file)) === read(file), `${file} is stale`);
  });
}

test('the manual page is fresh, has every command and flag, and is installed', () => {
  const page = read(MAN_FILE);
  assert.ok(page === man(), `${MAN_FILE} is stale: npm run docs makes it`);
  const plain = page.replaceAll('\\-', '-');
  for (const { name, args, flags } of commands) {
    assert.ok(plain.includes(`.SS "${['svc', name, args].filter(Boolean).join(' ')}"`), name);
    for (const flag of flags) assert.ok(plain.includes(`--${flag.name}`), flag.name);
  }
  const { man: installed } = JSON.parse(read('package.json'));
  // npm links the pages of a list, and never a single name.
  assert.equal(installed, [`./${MAN_FILE}`]);
});

test('a stale, missing or unknown table fails', () => {
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

test('the page of errors has an anchor for each code', () => {
  const page = read('docs/errors.md');
  const places = [...page.matchAll(/<a id="(\w+)"><\/a>/g)].map(([, code]) => code);
  assert.equal(places, Object.keys(errors), 'npm run docs makes docs/errors.md');
});

test('the README begins with one sentence and two commands: one installs and answers, one runs the tests', () => {
  const readme = read('README.md');
  const [, sentence = ''] =
    /^# svc\n\n([^.]+\.)\n\n```sh\nnpm install && npx svc run ".*\nnpm install && npm test\b.*\n```\n/.exec(
      readme,
    ) ?? [];
  assert.ok(sentence !== '' && sentence.split(/\s+/).length <= 25, sentence);
});

test('the README fits on a screen or two', () => {
  const lines = read('README.md').trimEnd().split('\n');
  assert.ok(lines.length <= 100, `${lines.length} lines`);
  for (const line of lines) assert.ok(line.length <= 100, line);
});

test('every page of the documentation can be reached from the README', () => {
  const found = new Set(['README.md']);
  for (const page of found)
    for (const [, target = ''] of read(page).matchAll(/\]\(([^)\s#]+\.md)[^)]*\)/g))
      if (!/^https?:/.test(target)) found.add(join(dirname(page), target).replaceAll('\\', '/'));
  assert.equal(
    pages.filter((page) => !found.has(page)),
    [],
    'link the page from README.md, or from a page that it reaches',
  );
});

test('decisions are numbered in a row, and the index has the title of each', () => {
  const index = read('docs/decisions/README.md');
  for (const [place, page] of decisions.sort().entries()) {
    const [, number, title] = /^# (\d+)\. (.+)\n/.exec(read(page)) ?? [];
    assert.is(Number(number), place + 1, page);
    assert.ok(basename(page).startsWith(`${String(number).padStart(4, '0')}-`), page);
    assert.ok(index.includes(`| ${number} | [${title}](${basename(page)}) |`), page);
  }
});

test('the changelog has every setting that was renamed', () => {
  const changelog = read('CHANGELOG.md');
  for (const { was, key } of renamedSettings)
    assert.ok(changelog.includes(`| \`${was}\` | \`${key}\` |`), was);
});

test('the architecture names paths in full', () => {
  for (const [, path = ''] of read('docs/architecture.md').matchAll(/`([\w.-]+\/[\w./-]*)`/g))
    assert.match(path, PATH_ROOTS);
});

test('the events and methods that the architecture names exist', () => {
  const events = globSync(['machines/**/*.ts', 'src/contract/run-events.ts']).map(read).join('\n');
  const names = [
    ...read('docs/architecture.md').matchAll(/`((?:run|daemon|engine|provider|pull)\.[a-z_]+)`/g),
  ].map(([, name = '']) => name);
  assert.ok(names.length > 3);
  for (const name of names) assert.ok(events.includes(`'${name}'`) || name in operations, name);
});

test('every script, command and flag on a page exists', () => {
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

test('every link and every path on a page leads to a file', () => {
  let seen = 0;
  for (const page of pages) {
    for (const [, target = ''] of read(page).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(target)) continue;
      const [file = ''] = target.split('#');
      assert.ok(file === '' || existsSync(join(dirname(page), file)), `${page}: ${target}`);
      seen += 1;
    }
    for (const [, file = ''] of read(page).matchAll(
      /`((?:src|machines|test|docs|tools|\.ci|\.github)\/[\w./-]*)`/g,
    ))
      assert.ok(existsSync(file), `${page}: ${file}`);
  }
  assert.ok(seen > 5);
});

test.run();
