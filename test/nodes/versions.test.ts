import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { packageRoot } from '../../src/home/paths.ts';
import { promisedVersions } from './versions.ts';

const PUBLISHED = [
  '20.20.2',
  '22.13.1',
  '22.14.0',
  '22.9.0',
  '22.18.0',
  '23.5.0',
  '23.6.0',
  '24.0.0',
  '24.0.0-rc.1',
  '24.21.0',
  '24.9.0',
  '25.0.0',
];

test('the first and the last version of each promised line', () => {
  const { engines } = JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8'));
  assert.equal(promisedVersions(engines.node, PUBLISHED), [
    '22.14.0',
    '22.18.0',
    '23.6.0',
    '24.0.0',
    '24.21.0',
    '25.0.0',
  ]);
});

test('a form of engines that is not known is no empty list', () => {
  assert.throws(() => promisedVersions('22 || 24', PUBLISHED), 'no range that is known');
});

test.run();
