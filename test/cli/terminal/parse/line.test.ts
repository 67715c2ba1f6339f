import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { splitLine } from '../../../../src/cli/terminal/parse/line.ts';

const flags = [
  { name: 'limit', short: 'n', value: '<n>' },
  { name: 'json', short: 'j' },
];
const valuesOf = (...argv: string[]) => {
  const { flags: found } = splitLine(argv, flags);
  return Object.fromEntries(
    [...found].map(([name, uses]) => [name, uses.map(({ value }) => value)]),
  );
};

test('only a flag with a value, and without one in its word, takes the next word', () => {
  assert.equal(valuesOf('--limit', '5'), { limit: ['5'] });
  assert.equal(valuesOf('-n', '5'), { limit: ['5'] });
  assert.equal(valuesOf('--limit=5', '6'), { limit: ['5'] });
  assert.equal(valuesOf('--limit', '-5'), { limit: ['-5'] });
  assert.equal(valuesOf('--json', '5'), { json: [undefined] });
  assert.equal(valuesOf('--limit'), { limit: [undefined] });
  assert.equal(valuesOf('--limit', '--json'), { limit: [undefined], json: [undefined] });
});

test.run();
