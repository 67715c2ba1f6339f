import { readFileSync, writeFileSync } from 'node:fs';
import { edgesOf, WALKED } from './edges.ts';
import { exemptionOf } from './exemptions.ts';

/**
 * What the diagrams are coloured by: for each edge, whether a real daemon walks it, or the kernel
 * and the fold only.
 */
export const WALKED_FILE = 'machines/diagrams/walked/walked.json';

/**
 * The content of the file. An edge is `real` unless it has an exemption: `npm run walk` fails if an
 * edge without an exemption is not walked.
 */
export function walkedText(): string {
  const all = WALKED.map((name) => {
    const edges = [...edgesOf(name)]
      .sort()
      .map((edge) => [edge, exemptionOf(name, edge) === null ? 'real' : 'kernel']);
    return [name, Object.fromEntries(edges)];
  });
  return `${JSON.stringify(Object.fromEntries(all), null, 2)}\n`;
}

export function writeWalked(): void {
  writeFileSync(WALKED_FILE, walkedText());
}

export function readWalked(): string {
  return readFileSync(WALKED_FILE, 'utf8');
}
