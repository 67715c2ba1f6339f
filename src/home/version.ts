import { join } from 'node:path';
import { packageRoot } from './paths.ts';

// Not imported: see paths.ts.
const { readFileSync } = process.getBuiltinModule('node:fs');

/** The version in package.json. */
export function programVersion(): string {
  const { version } = JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8')) as {
    version: string;
  };
  return version;
}
