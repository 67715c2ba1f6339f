import { existsSync, globSync, readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  budgetOf,
  countLinesOf,
  countNamesOf,
  folderOfPackage,
  isTestOf,
  KNOWN,
  KNOWN_LINES_MAX,
  packageOfFile,
  packages,
} from './packages.ts';

/** The packages that a person can work in without the rest of the house. */
const ALONE = [
  'answer-forms',
  'engine',
  'models',
  'cloud',
  'tools',
  'dialects',
  'grpc',
  'fleet',
  'console',
];
const README_LINES_MAX = 40;

test('each of these packages has a README that fits on a screen', () => {
  for (const name of ALONE) {
    const text = readFileSync(`${folderOfPackage(name)}/README.md`, 'utf8').trimEnd();
    assert.ok(text.split('\n').length <= README_LINES_MAX, name);
    for (const part of ['# ', '## Door', '## Words', '## Flow', '## Bounds', '## Test alone'])
      assert.ok(text.startsWith(part) || text.includes(`\n${part}`), `${name}: ${part}`);
    assert.match(text, `npm test -- --package ${name}`);
  }
});

test('a package that grows says so in its README', () => {
  for (const name of ALONE) {
    const [lines, budget] = [countLinesOf(name), budgetOf(name) ?? 0];
    const where = `${folderOfPackage(name)}/README.md`;
    assert.ok(lines <= budget, `${name} has ${lines} lines. Say in ${where} what the new ones do.`);
    assert.ok(
      lines > budget * 0.9,
      `${name} has ${lines} lines: make the budget in ${where} less.`,
    );
  }
});

test('the machines, the contract and one package are what a person has to know', () => {
  const base = KNOWN.reduce((sum, name) => sum + countLinesOf(name), 0);
  for (const name of Object.keys(packages).filter((each) => !KNOWN.some((known) => known === each)))
    assert.ok(
      base + countLinesOf(name) <= KNOWN_LINES_MAX,
      `${name} is more than a person can know: cut it, see docs/decisions/0110`,
    );
});

test('files belong to packages, and tests to those of their folder', () => {
  assert.equal(
    [
      'machines/run/chart.ts',
      'src/errors.ts',
      'src/async/gate.ts',
      'src/main.ts',
      'src/kernel/store/port.ts',
      'src/kernel/kernel.ts',
      'src/dialects/index.ts',
    ].map(packageOfFile),
    ['machines', 'base', 'base', 'cli', 'store', 'kernel', 'dialects'],
  );
  assert.equal(
    ['test/fleet/keys.test.ts', 'test/e2e/fleet.test.ts', 'test/e2e/health.test.ts'].map((file) =>
      isTestOf('fleet', file),
    ),
    [true, true, false],
  );
  const tests = globSync('test/**/*.test.ts').map((file) => file.replaceAll('\\', '/'));
  for (const name of ALONE)
    assert.ok(
      tests.some((file) => isTestOf(name, file)),
      name,
    );
});

test('a door gives few names', () => {
  assert.is(countNamesOf('grpc'), 1);
  assert.is(countNamesOf('dialects'), 2);
  for (const name of ALONE)
    if (existsSync(`${folderOfPackage(name)}/index.ts`)) assert.ok(countNamesOf(name) <= 60, name);
});

test.run();
