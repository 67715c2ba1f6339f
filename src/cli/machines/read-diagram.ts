import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../home/paths.ts';

/** The generated diagram of a machine. */
export function readDiagram(name: string): string {
  return readFileSync(join(packageRoot(), 'machines', 'diagrams', `${name}.svg`), 'utf8');
}
