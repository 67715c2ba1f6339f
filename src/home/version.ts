import { join } from 'node:path';
import { packageRoot } from './paths.ts';

// Not imported: see paths.ts.
const { readFileSync } = process.getBuiltinModule('node:fs');

declare const VERSION: string | undefined;

/** The version in package.json. A build has it in its code. */
export function programVersion(): string {
  if (typeof VERSION !== 'undefined') return VERSION;
  const { version } = JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8')) as {
    version: string;
  };
  return version;
}
