import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { instance } from '@viz-js/viz';
import type { AnyStateMachine } from 'xstate';
import { dot } from '../../machines/diagrams/dot.ts';
import { mermaid } from '../../machines/diagrams/mermaid.ts';
import type { WalkOf } from '../../machines/diagrams/outline.ts';
import { models } from './models/all.ts';

/** Draws every machine: `npm run diagrams`. The same machine always gives the same bytes. */

export const FOLDER = 'machines/diagrams';

/** Every one of them is as wide as the Courier that the layout reckons with. */
const FONTS = 'ui-monospace, SFMono-Regular, Menlo, DejaVu Sans Mono, Liberation Mono, monospace';

/** The files of the folder, by their names. */
export async function drawAll(): Promise<Map<string, string>> {
  const viz = await instance();
  const machines = new Set<AnyStateMachine>(models.map(({ machine }) => machine));
  return new Map(
    [...machines].flatMap((machine): [string, string][] => [
      [`${machine.id}.mmd`, mermaid(machine)],
      [
        `${machine.id}.svg`,
        viz
          .renderString(dot(machine, walkOf(machine.id)), { format: 'svg' })
          .replaceAll('font-family="Courier"', `font-family="${FONTS}"`),
      ],
    ]),
  );
}

type Walked = Record<string, Record<string, 'real' | 'kernel'>>;

/** How each edge was walked, as `npm run walk` has written it: from and to a state with others inside, all of them together. */
function walkOf(machine: string): WalkOf {
  const walked = Object.entries(
    (JSON.parse(readFileSync(`${FOLDER}/walked.json`, 'utf8')) as Walked)[machine] ?? {},
  );
  const isIn = (path: string, around: string) =>
    around === '' || path === around || path.startsWith(`${around}.`);
  return (source, type, target) => {
    const found = walked.filter(([edge]) => {
      const [from = '', event, to = ''] = edge.split(' | ');
      return event === type && isIn(from, source) && isIn(to, target);
    });
    if (found.length === 0) return 'none';
    return found.some(([, way]) => way === 'real') ? 'real' : 'kernel';
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [file, content] of await drawAll()) writeFileSync(`${FOLDER}/${file}`, content);
}
