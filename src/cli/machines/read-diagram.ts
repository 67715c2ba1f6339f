import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../home/paths.ts';

/** The picture of a machine, as it was made from it. */
export function readDiagram(name: string): string {
  return readFileSync(join(packageRoot(), 'machines', 'diagrams', `${name}.svg`), 'utf8');
}
